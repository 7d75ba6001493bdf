"""Unbounded proofs with Z3, one module for each protocol that has one."""
