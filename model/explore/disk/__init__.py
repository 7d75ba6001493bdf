"""Exploration with states in files, by processes or on Spark."""
