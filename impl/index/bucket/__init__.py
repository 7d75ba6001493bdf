"""Reads the objects of an index from their bucket: an index is made anew of them, and held against them."""
