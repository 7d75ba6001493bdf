"""Scripts of impl/raft, for the scenarios of nodes."""
