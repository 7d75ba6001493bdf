"""Define runs of the smallest shape and a mutant for the FizzBee judge: the manifest and compactions protocol."""

from highwater.dst.scenarios.manifest_compactions import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "unclaimed"
