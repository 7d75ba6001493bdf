"""Explorers of a model's states, reductions, and random walks."""
