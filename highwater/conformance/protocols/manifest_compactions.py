"""What the FizzBee judge needs of the manifest and compactions protocol: runs of its smallest shape, and a mutant."""

from highwater.dst.scenarios.manifest_compactions import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "unclaimed"
