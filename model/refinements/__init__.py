"""For each protocol that refines an abstract model, the mapping of its states and actions to those of that model."""
