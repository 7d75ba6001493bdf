"""What the mappings of nodes share: a server's steps, its messages, its log on the disk."""
