"""The log and the rows of a metadata index, as the judges of its two protocols read them."""
