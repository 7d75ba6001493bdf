"""What the FizzBee judge needs of the manifest with epochs: runs of its smallest shape, and a mutant."""

from highwater.dst.scenarios.manifest_epochs import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "unchecked"
