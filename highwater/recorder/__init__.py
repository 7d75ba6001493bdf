"""Records the requests of programs to an S3 server, and delays, fails or loses requests by rule."""
