"""For some protocols, further checks of `highwater verify`: `checks()` in STEM.py yields them."""
