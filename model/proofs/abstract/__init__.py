"""Proofs of abstract models: a relation for any number of clients, ids and requests in flight, and its invariant."""
