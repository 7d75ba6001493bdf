"""Define runs of the smallest shape and a mutant for the FizzBee judge: the boundary protocol with a known latest file."""

from highwater.dst.scenarios.known_latest import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "known_unanswered"
