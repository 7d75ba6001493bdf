"""Generates the parts of README.md and docs/ that are computed: `python -m bench.pages`."""
