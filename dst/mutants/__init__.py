"""Known-bad implementations of each protocol. The simulation must find each of them."""
