"""What the mappings of the two protocols of a metadata index share."""
