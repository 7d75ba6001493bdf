"""Define runs of the smallest shape and a mutant for the FizzBee judge: the reader of a database."""

from highwater.dst.scenarios.db_reader import SCENARIO

SMALL = SCENARIO.tiny._replace(writes=6, scans=2)
IMPOSSIBLE = "old_released"
