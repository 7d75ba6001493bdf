"""The Raft of replicated nodes: a pure core, its log, votes and snapshots on a disk, and the node that drives them."""
