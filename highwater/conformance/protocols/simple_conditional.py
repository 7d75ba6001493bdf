"""What the FizzBee judge needs of the single object with conditional writes: runs of its smallest shape, and a mutant."""

from highwater.dst.scenarios.simple_conditional import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "old_content"
