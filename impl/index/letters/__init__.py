"""The dead letter queue: what a writer leaves in the store for a block that it could not add, and who adds it later."""
