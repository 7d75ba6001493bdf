"""What the FizzBee judge needs of the log with collection: runs of its smallest shape, and a mutant."""

from highwater.dst.scenarios.log_gc import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "delete_before_advance"
