"""Inspects, checks, collects and reads a SlateDB database."""
