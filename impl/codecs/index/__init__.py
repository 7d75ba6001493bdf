"""The bytes of the metadata index: Pyroscope's messages, rows, names and footers, and our snapshots."""
