"""Record what programs ask of an S3 server, and delay, fail or lose requests by rule."""
