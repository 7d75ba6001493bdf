"""What the FizzBee judge needs of the write-ahead log with fencing: runs of its smallest shape, and a mutant."""

from highwater.dst.scenarios.wal_fencing import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "collects_all"
