"""For each such system, what its requests mean."""
