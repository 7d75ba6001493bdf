"""Define runs of the smallest shape and a mutant for the FizzBee judge: the manifest with epochs."""

from highwater.dst.scenarios.manifest_epochs import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "unchecked"
