"""Small key-value stores built on the protocols."""
