"""For each protocol, which action of its model an event is."""
