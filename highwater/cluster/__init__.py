"""Clusters of real processes: a server around one node of Raft, its clients, its metrics, and the check of a folder."""
