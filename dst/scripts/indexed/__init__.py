"""Scripts of the metadata index: what each call of it returns or raises, and the bytes of its rows."""
