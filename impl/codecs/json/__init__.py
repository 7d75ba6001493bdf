"""The repository's own file formats, as JSON."""
