"""highwater dst: deterministic simulation."""
