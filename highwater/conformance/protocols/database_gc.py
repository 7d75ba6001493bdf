"""Define runs of the smallest shape and a mutant for the FizzBee judge: the garbage collector of a database."""

from highwater.dst.scenarios.database_gc import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "latest_not_spared"
