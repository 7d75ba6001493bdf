"""The metadata index: a state machine on ordered rows, fed by a replicated log."""
