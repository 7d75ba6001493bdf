"""The judges of the parts of the composed protocol: database_metadata. And those of the answers and the rows of a whole
database: db."""
