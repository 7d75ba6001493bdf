"""Object stores: memory, local files, S3, and wrappers around them."""
