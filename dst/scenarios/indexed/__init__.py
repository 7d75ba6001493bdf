"""The nodes of a metadata index in simulation, and their callers."""
