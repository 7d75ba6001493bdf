"""The protocols themselves: straight-line code that awaits one store request at a time."""
