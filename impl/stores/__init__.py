"""Object stores: memory, local files, S3, and wrappers around them; and the real world of a node."""
