"""Tests a store for every guarantee that the protocols rely on."""
