"""The whole life of an index as a story of real processes: three nodes, a bucket, writers, workers, and faults by a seed."""
