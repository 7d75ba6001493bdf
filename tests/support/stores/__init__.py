"""Supports the tests of stores; other tests use fixtures.py."""
