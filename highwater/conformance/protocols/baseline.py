"""What the FizzBee judge needs of the baseline protocol: small runs, and a mutant."""

from highwater.dst.scenarios.baseline import SCENARIO

SMALL = SCENARIO.tiny._replace(updates=2, reads=3)
IMPOSSIBLE = "old_listing"
