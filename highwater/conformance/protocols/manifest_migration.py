"""What the FizzBee judge needs of the migration of the manifest's format: runs of its smallest shape, and a mutant."""

from highwater.dst.scenarios.manifest_migration import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "writes_v2_early"
