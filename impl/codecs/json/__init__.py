"""Our own formats, as JSON."""
