"""Define runs of the smallest shape and a mutant for the FizzBee judge: the store's own requests."""

from highwater.dst.scenarios.store_primitives import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "create_by_looking"
