"""Small key-value stores on the protocols."""
