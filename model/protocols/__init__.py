"""One model for each protocol, with the names of its spec."""
