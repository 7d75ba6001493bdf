"""SlateDB's formats, as FlatBuffers."""
