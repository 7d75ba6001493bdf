"""The constants of the composition, and those that each part has in it.

The composition bounds the faults and the updates, so the parts do not.
"""

from functools import cache
from typing import Any, NamedTuple

from highwater.model.parts import MANY
from highwater.model.protocols import manifest_compactions, manifest_epochs, wal_fencing
from highwater.model.protocols import sequenced_metadata_boundary as sequence


class Constants(NamedTuple):
    """None for a bound means unbounded and not counted."""

    WRITERS: int = 1  # writers over time
    COMPACTORS: int = 0  # compactors over time
    OPERATORS: int = 0  # clients that take and drop checkpoints
    READERS: int = 0
    COLLECTORS: int = 0  # collectors of the manifest
    COMPACTIONS_COLLECTORS: int = 0
    WAL_COLLECTORS: int = 0
    WAL: bool = True  # False: flushes come from nowhere, so that instances stay small
    APPENDS: int | None = 1  # records of a writer
    FLUSHES: int | None = 1  # of a writer
    TAKES: int = 1  # updates of an operator
    CHECKPOINTS: int | None = 0  # checkpoints in one manifest
    MAX_ID: int | None = 4  # of a manifest
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in all that are in flight when their clients stop waiting
    MAX_LOST: int | None = 0  # responses lost
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property or the refinement of a part must fail
    VERDICT_CHECKED: bool = True  # a client checks the boundary before it believes that it is fenced
    WAL_CHECKED: bool = True  # a WAL collector deletes by a manifest that it has checked to be in the history
    OWN_BOUNDARY: bool = True  # files of the compactions are collected behind their own boundary; False: behind the manifest's
    FENCE_CHECKED: bool = True  # a writer puts its fence after it has checked that its claim is in the history
    OFF: str = ""  # a safeguard of a part that is switched off; WITHOUT has their names


# a safeguard -> the parts that have it -> the constants with which it is off
WITHOUT: dict[str, dict[str, dict[str, Any]]] = {
    "": {},
    **{f"{part}.{name}": {part: {name: value}} for part in ("manifest", "compactions") for name, value in (
        ("BOUNDARY", False), ("CHECK", "off"), ("OLD_WRITERS", 1), ("FRESH_BOUNDARY", False), ("BOUNDARY_FIRST", False),
        ("CONDITIONAL_ADVANCE", False), ("KEEP_LATEST", False), ("ON_REFUSAL", "unchecked"))},
    **{f"manifest.{name}": {"manifest": {name: False}} for name in ("SPARE_CHECKPOINTS", "SPARE_LISTED", "CHECK_READS")},
    **{f"epochs.{name}": {"epochs": {name: value}} for name, value in (
        ("BUMP_OWN_ONLY", False), ("EPOCH_CHECK", False), ("SWALLOW_FENCED", True), ("UNKNOWN_IS_DONE", True),
        ("POLL_LIST", False))},
    "COMPACTOR_EPOCH": {"epochs": {"COMPACTOR_EPOCH": False}, "claims": {"EPOCH_CHECK": False}},  # one check, in two parts
    **{f"claims.{name}": {"claims": {name: False}} for name in ("HEAL", "APPLY_FIRST", "RECOGNISE", "TAKE_OVER")},
    **{f"wal.{name}": {"wal": {name: value}} for name, value in (
        ("CREATE_IF_ABSENT", False), ("FENCE", False), ("FENCE_AHEAD", False), ("VALIDATE", "none"), ("CHECK", "none"),
        ("RESOLVE_ONCE", False), ("MISSING_IS_FENCED", False), ("FLUSH_EXACT", False), ("GC_BEHIND", False),
        ("UNKNOWN", "skip"))},
}

LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("WRITERS", "COMPACTORS", "OPERATORS", "READERS", "COLLECTORS", "COMPACTIONS_COLLECTORS", "WAL_COLLECTORS",
                     "APPENDS", "FLUSHES", "TAKES", "CHECKPOINTS", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"), MANY),
    "MAX_ID": MANY[1:],
    "OFF": tuple(WITHOUT),
}


class Parts(NamedTuple):
    """The constants of each part."""

    manifest: sequence.Constants
    compactions: sequence.Constants
    epochs: manifest_epochs.Constants
    claims: manifest_compactions.Constants
    wal: wal_fencing.Constants


UNBOUNDED: dict[str, Any] = dict.fromkeys(("MAX_PENDING", "MAX_LOST", "MAX_CRASHES"))


@cache
def parts(c: Constants) -> Parts:
    """Return the constants of each part. The composition bounds the faults, so they do not."""
    off = WITHOUT[c.OFF]
    files = {"COMMITS": None, "ON_REFUSAL": "recognised", **UNBOUNDED}
    return Parts(
        sequence.Constants(**{**files, "WRITERS": c.WRITERS + c.COMPACTORS + c.OPERATORS, "COLLECTORS": c.COLLECTORS,
                              "READERS": c.READERS + c.WAL_COLLECTORS, "MAX_ID": c.MAX_ID, "CHECKPOINTS": c.CHECKPOINTS,
                              **off.get("manifest", {})}),
        sequence.Constants(**{**files, "WRITERS": c.COMPACTORS, "COLLECTORS": c.COMPACTIONS_COLLECTORS, "MAX_ID": None,
                              **off.get("compactions", {})}),
        manifest_epochs.Constants(**{
            "WRITERS": c.WRITERS, "COMPACTORS": c.COMPACTORS, "READERS": c.READERS, "FLUSHES": None, "COMPACTIONS": None,
            "CHECKPOINTS": 0, "OPEN_RETRIES": -1, "WRITER_CHECKPOINTS": False, **UNBOUNDED, **off.get("epochs", {})}),
        manifest_compactions.Constants(**{
            "WRITERS": 1, "COMPACTORS": c.COMPACTORS, "FLUSHES": None, **UNBOUNDED, **off.get("claims", {})}),
        wal_fencing.Constants(**{
            "WRITERS": c.WRITERS, "COLLECTORS": c.WAL_COLLECTORS, "APPENDS": c.APPENDS, "FLUSHES": None, **UNBOUNDED,
            **off.get("wal", {})}))
