"""Inspect, check and collect a database of SlateDB's."""
