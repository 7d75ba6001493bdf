"""Search over runs: shrinking, the nearest passing run, exhaustive runs, coverage, and guided search."""
