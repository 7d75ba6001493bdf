"""Define checks of `highwater verify` for single protocols: `checks()` in STEM.py yields them. Most protocols have none."""
