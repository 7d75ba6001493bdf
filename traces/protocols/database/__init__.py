"""The judges of the parts of the composed protocol: database_metadata."""
