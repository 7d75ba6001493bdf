"""The simulated world: store, network, faults, profiles of stores, SDKs, and the disks and messages of nodes."""
