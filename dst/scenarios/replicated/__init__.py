"""Parts of a scenario of a replicated log beside its nodes: its trace, and what is checked over all nodes."""
