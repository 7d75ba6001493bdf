"""Safety: none, on purpose: what known-bad implementations there are of each protocol (dst/mutants/STEM.py), and which bugs of
real systems they are.

A simulation that does not find a mutant within its budget is no good, and one that finds it by another oracle than expected
has found something else.
"""

from highwater.dst.scenario import Build
from highwater.dst.scenarios import DEFAULT, mutants_of, named


def build_of(mutant: str | None, scenario: str = DEFAULT) -> Build:
    """The implementation to run: production's, or a mutant's. Raises LookupError."""
    if not mutant:
        return named(scenario).production
    mutants = mutants_of(scenario).builds
    if mutant not in mutants:
        raise LookupError(f"there is no mutant {mutant!r} of {scenario}; there are: {', '.join(mutants)}")
    return mutants[mutant][1]


def expected(mutant: str, by_model: bool, scenario: str = DEFAULT) -> tuple[str, ...]:
    """What the signatures of its failures begin with."""
    oracles = mutants_of(scenario).oracles
    return oracles[mutant][not by_model] if mutant in oracles else ("",)


DATA_FILES = "data files and their collection (source 001)"
SNAPSHOTS = "checkpoints that readers hold (source 001)"
CATALOGUE: dict[str, tuple[str, tuple[str, ...] | str]] = {  # simulation.md §4.3: the bug; its mutants
    # (of another protocol: protocol/mutant), or what it waits for
    "Z1": ("stale create of a sequenced file after its collection (RFC 0026, slatedb#352, #1646)",
           ("no_check", "one_old_writer", "reported_though_refused", "refused_is_applied_again")),
    "Z2": ("stale create of a WAL file after its collection (slatedb#1622)",
           ("wal_fencing/unchecked", "wal_fencing/fence_not_ahead")),
    "Z3": ("the boundary is checked before the create", ("check_before_create",)),
    "Z4": ("delete before the boundary is durable", ("delete_before_advance",)),
    "Z5": ("the boundary moves backward", ("boundary_moves_backward",)),
    "Z6": ("the boundary is read from a cache (RFC 0026: CachedObjectStore)", ("cached_boundary",)),
    "Z7": ("an ambiguous create is taken for a conflict, and appended again", ("lost_reply_is_conflict", "Z7")),
    "Z8": ("an ambiguous commit is taken for a failure, and its files deleted (ClickHouse#112081)",
           ("Z8", "timeout_is_nothing")),
    "Z9": ("412 on one's own write is taken for being fenced (slatedb#564)", ("Z9", "Z9_fenced")),
    "Z10": ("409 is taken for AlreadyExists (object_store#852)", ("Z10",)),
    "Z11": ("a compaction's output is collected before the manifest names it (slatedb#1029, #1031)", DATA_FILES),
    "Z12": ("a data file is collected that a reader's snapshot holds (slatedb#604)", f"{DATA_FILES}, and {SNAPSHOTS}"),
    "Z13": ("a checkpoint expires during a replay, and is resurrected (slatedb PR#1657)", SNAPSHOTS),
    "Z14": ("a file that was listed and is gone is asked for, for ever (slatedb#1215)", ("missing_is_asked_again",)),
    "Z15": ("a checkpoint of a manifest that is collected meanwhile (slatedb#278)", SNAPSHOTS),
    "Z16": ("attempts are used up without a look at who won (delta-rs#3066)", ("conflict_not_looked_at",)),
    "Z17": ("no grace: age is measured from the wrong moment (baerly-storage#79)", ("age_ignored",)),
    "Z18": ("mixed clocks delete half of it (icechunk#2310)", DATA_FILES),
    "Z19": ("an epoch is checked without a retry, and writes are lost (source 002)",
            ("manifest_epochs/fencing_swallowed", "manifest_epochs/unchecked_after_conflict")),
    "Z20": ("a collector hides a race with a snapshot (chroma#5153)", SNAPSHOTS),
}


def ids_of(protocol: str, mutant: str) -> str:
    """Name the catalogue's bugs that this protocol's mutant has, e.g. "Z1"; "" if there is none.

    Two protocols may have a mutant of the same name, so a name alone does not say which bug it is."""
    entry = mutant if protocol == DEFAULT else f"{protocol}/{mutant}"
    return ", ".join(name for name, (_, mutants) in CATALOGUE.items() if not isinstance(mutants, str) and entry in mutants)
