"""The commands of the command line. Each imports its libraries when it runs."""
