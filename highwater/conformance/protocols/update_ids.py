"""What the FizzBee judge needs of the boundary protocol with ids of updates: runs of its smallest shape, and a mutant."""

from highwater.dst.scenarios.update_ids import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "refused_is_retried"
