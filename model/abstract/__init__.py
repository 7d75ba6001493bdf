"""Abstract models: what a client may do to the store, given what it has read and been told, without program counters."""
