"""Request logs of programs that we did not write, and the search for a valid order of their requests."""
