"""Define runs of the smallest shape and a mutant for the FizzBee judge: the clones protocol."""

from highwater.dst.scenarios.clones import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "initialized_first"
