"""Says what a check of a database finds, and what it looks at."""

from typing import NamedTuple

from highwater.admin.database import Database
from highwater.impl.codecs.manifest import Manifest

LEVELS = ("damage", "danger", "note")


class Finding(NamedTuple):
    """One thing that the check found."""

    level: str
    kind: str  # a short name
    what: str  # the fault and its place
    then: str  # its consequence, and what to do


class Parent(NamedTuple):
    """A database whose SSTs this one reads. `latest` is None if it has no manifest, or if the latest cannot be read."""

    latest: Manifest | None
    ssts: dict[str, int]  # with their sizes in bytes
    fault: str = ""  # why the latest manifest cannot be read


Parents = dict[str, Parent]


def referenced(database: Database, now_ms: int) -> frozenset[int]:
    """Return the ids of the manifests that a collection keeps for a checkpoint."""
    return frozenset(one.manifest_id for one in database.latest.checkpoints if one.active(now_ms)) \
        if database.latest else frozenset()
