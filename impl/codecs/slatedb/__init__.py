"""SlateDB's file formats, as FlatBuffers."""
