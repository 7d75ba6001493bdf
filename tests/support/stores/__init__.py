"""What the tests of stores stand on: fixtures.py is the way in for other tests."""
