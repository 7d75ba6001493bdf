"""Define small runs and a mutant of the baseline protocol for the FizzBee judge."""

from highwater.dst.scenarios.baseline import SCENARIO

SMALL = SCENARIO.tiny._replace(updates=2, reads=3)
IMPOSSIBLE = "old_listing"
