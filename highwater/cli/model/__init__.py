"""highwater model: explore, walk, step, conform, prove, refine."""
