"""What the FizzBee judge needs of the boundary protocol with a known latest file: runs of its smallest shape, and a mutant."""

from highwater.dst.scenarios.known_latest import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "known_unanswered"
