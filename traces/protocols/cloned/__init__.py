"""The judges of the parts of a database and its clones: database_clones."""
