"""Known-bad implementations of each protocol. The simulation must find every one."""
