"""What the FizzBee judge needs of the single object with conditional writes: runs of its smallest shape, and a mutant."""

from highwater.dst.scenarios.simple_conditional import TINY

SMALL = TINY
IMPOSSIBLE = "old_content"
