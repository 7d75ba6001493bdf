"""What the FizzBee judge needs of the baseline protocol: runs of its smallest shape, and a mutant."""

from highwater.dst.scenarios.baseline import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "shared_keys"
