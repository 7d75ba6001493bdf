"""Checks of callers' histories without a model: linearizability, serializability, bounds."""
