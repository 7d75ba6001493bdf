"""highwater dst: run, replay, shrink, explain, timeline, export, doctor, lint, zoo, mutate, coverage, exhaust."""
