"""The proof engine: logic, symbolic systems, induction, unrolling, and the tie to a model."""
