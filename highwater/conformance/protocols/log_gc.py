"""Define runs of the smallest shape and a mutant for the FizzBee judge: the log with collection."""

from highwater.dst.scenarios.log_gc import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "delete_before_advance"
