"""A lock with a lease, and data that only its holders write, one after another."""
