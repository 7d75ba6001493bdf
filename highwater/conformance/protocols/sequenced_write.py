"""Define runs of the smallest shape and a mutant for the FizzBee judge: the sequenced write protocol."""

from highwater.dst.scenarios.sequenced_write import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "lost_reply_is_conflict"
