"""Drive the FizzBee CLI: read specs, check them, and read state graphs."""
