"""The protocols: straight-line code that awaits one store request at a time."""
