"""The checks of `highwater verify`, and the exit codes."""
