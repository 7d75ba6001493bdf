"""Define runs of the smallest shape and a mutant for the FizzBee judge: the boundary protocol with ids of updates."""

from highwater.dst.scenarios.update_ids import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "refused_is_retried"
