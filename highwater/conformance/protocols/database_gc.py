"""Define runs of the smallest shape and a mutant for the FizzBee judge: the garbage collector of a database."""

from highwater.dst.scenarios.database_gc import SCENARIO

SMALL = SCENARIO.tiny._replace(flushes=3, rounds=3)
IMPOSSIBLE = "latest_not_spared"
