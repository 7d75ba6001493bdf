"""Checks of what callers saw, without a model: linearizability, serializability, bounds."""
