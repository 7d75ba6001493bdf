"""The campaign report, its figures, and SQL over its rows."""
