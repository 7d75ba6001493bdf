"""What a scenario of a replicated log needs beside its nodes: its trace, and what is checked over all nodes."""
