"""Inspects, checks and collects a SlateDB database."""
