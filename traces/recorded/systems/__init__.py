"""The meaning of each system's requests."""
