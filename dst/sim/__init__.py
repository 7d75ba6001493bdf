"""The kernel of the simulation: events, choices, tapes, and scheduling strategies."""
