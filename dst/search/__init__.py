"""Search over runs: shrinking, the nearest passing run, exhaustive runs, and coverage."""
