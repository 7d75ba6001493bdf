"""What the FizzBee judge needs of the store's own requests: runs of its smallest shape, and a mutant."""

from highwater.dst.scenarios.store_primitives import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "create_by_looking"
