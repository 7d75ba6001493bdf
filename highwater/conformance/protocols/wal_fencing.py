"""What the FizzBee judge needs of the write-ahead log with fencing: runs of its smallest shape, and a mutant."""

from highwater.dst.scenarios.wal_fencing import TINY

SMALL = TINY
IMPOSSIBLE = "collects_all"
