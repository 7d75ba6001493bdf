"""The composition of a database's metadata: its constants, its state, and the table of its joint steps."""
