"""S3 servers that a command of ours starts and ends: for tests, and for trying a client."""
