"""The metadata index as programs ask for it: calls by their names, as bytes."""
