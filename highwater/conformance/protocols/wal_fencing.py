"""Define runs of the smallest shape and a mutant for the FizzBee judge: the write-ahead log with fencing."""

from highwater.dst.scenarios.wal_fencing import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "collects_all"
