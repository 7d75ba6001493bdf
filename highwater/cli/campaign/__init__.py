"""highwater campaign: many seeds of a scenario."""
