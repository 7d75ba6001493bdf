"""Damage good traces in every place, to check the checker."""
