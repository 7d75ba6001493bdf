"""Models of pure functions: values of a small size, the functions with their safeguards, and checks of every value."""
