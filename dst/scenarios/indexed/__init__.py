"""What the scenarios of a metadata index share: its nodes, and their callers."""
