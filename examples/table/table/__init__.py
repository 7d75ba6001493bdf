"""A table with a cleaner: each file that the table names exists."""
