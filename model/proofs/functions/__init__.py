"""Proofs of facts about pure functions, for values of any size."""
