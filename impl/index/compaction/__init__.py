"""Compaction of the index's objects: what a worker makes of a job's sources, and the worker."""
