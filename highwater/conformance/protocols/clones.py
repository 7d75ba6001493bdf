"""Define runs of the smallest shape and a mutant for the FizzBee judge: the clones protocol."""

SCENARIO = None

SMALL = None
IMPOSSIBLE = "initialized_first"
