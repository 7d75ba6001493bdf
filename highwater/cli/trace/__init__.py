"""highwater trace: recorded requests, checked against the models."""
