"""The metadata index as a process: a node, its API for programs, backup and restore."""
