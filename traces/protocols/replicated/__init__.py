"""Parts of the mappings of nodes: the steps of a server, its messages, its log on the disk."""
