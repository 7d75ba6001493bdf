"""Define runs of the smallest shape and a mutant for the FizzBee judge: the destruction of a database."""

from highwater.dst.scenarios.destroy import SCENARIO

SMALL = SCENARIO.tiny._replace(writes=2, pins=2, rounds=2)
IMPOSSIBLE = "mark_is_put_after_the_check"
