"""The simulated world: store, network, faults, profiles of stores, and SDKs."""
