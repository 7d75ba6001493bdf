"""The database on SlateDB's own bytes: SSTs, WAL objects, and the rows that they show together."""
