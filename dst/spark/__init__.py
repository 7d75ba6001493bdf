"""Run campaigns, checks and explorations on Spark."""
