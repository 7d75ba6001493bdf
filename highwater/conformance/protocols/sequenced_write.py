"""What the FizzBee judge needs of the sequenced write protocol: runs of its smallest shape, and a mutant."""

from highwater.dst.scenarios.sequenced_write import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "lost_reply_is_conflict"
