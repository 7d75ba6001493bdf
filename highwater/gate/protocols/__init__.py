"""What `highwater verify` checks of one protocol alone: STEM.py has `checks()`, which yields them. Most protocols have none."""
