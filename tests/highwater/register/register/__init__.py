"""A register that is written once: the smallest protocol with all its parts, which the tests of projects use."""
