"""Define runs of the smallest shape and a mutant for the FizzBee judge: the single object with conditional writes."""

from highwater.dst.scenarios.simple_conditional import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "old_content"
