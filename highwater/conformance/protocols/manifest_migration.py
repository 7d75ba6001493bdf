"""Define runs of the smallest shape and a mutant for the FizzBee judge: the migration of the manifest's format."""

from highwater.dst.scenarios.manifest_migration import SCENARIO

SMALL = SCENARIO.tiny
IMPOSSIBLE = "writes_v2_early"
