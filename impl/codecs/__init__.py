"""Codecs: metadata files as bytes, and checksums."""
