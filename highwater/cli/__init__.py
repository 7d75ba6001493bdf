"""The verbs of the command line. Each is thin, and imports what it needs when it runs."""
