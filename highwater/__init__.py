"""highwater: verification of the metadata protocols that databases build on object storage."""
