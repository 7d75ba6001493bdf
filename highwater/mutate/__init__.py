"""Mutants of source code: small changes to an implementation, each of which the simulation or a test should notice."""
