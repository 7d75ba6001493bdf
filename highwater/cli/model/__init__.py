"""highwater model: the states, walks and proofs of a model."""
