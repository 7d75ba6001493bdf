"""Codecs: metadata files as bytes."""
