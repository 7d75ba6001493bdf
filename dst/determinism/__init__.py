"""Check that runs are deterministic: by running them elsewhere, and by reading the code."""
