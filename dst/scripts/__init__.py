"""Scripts: what one client alone is answered, for each part of an implementation (see dst/script.py)."""
