"""Safety: a node takes no entry of a kind, and no entry of a level, that it does not know: it stops before it keeps it.

An entry of kind LEVEL raises the level of the cluster (impl/level.py). The leader proposes it once every member has said that
it knows the new level. What that level adds is proposed only by a leader whose log has the entry, so in every log it stands
behind it.
"""

from collections.abc import Iterable
from struct import error

from highwater.impl import level
from highwater.impl.level import Level
from highwater.impl.raft import members
from highwater.impl.raft.entries import KINDS, LEVEL, MEMBERS, Entry
from highwater.impl.raft.faults import OtherVersion

START = "start the version of highwater and of the machine that the cluster has"


def of_entry(index: int, entry: Entry) -> Level:
    """Return the level that an entry of kind LEVEL raises the cluster to. Raises OtherVersion if it names none."""
    try:
        return level.decoded(entry.body)
    except error:
        raise OtherVersion(f"entry {index:,} raises the level in a form of {len(entry.body):,} bytes, and this highwater reads "
                           f"{level.BYTES.size}: {START}") from None


def check(first: int, entries: Iterable[Entry], known: Level) -> None:
    """Check entries for a node that knows levels up to `known`; the first of them has the index `first`.

    Raises OtherVersion for a kind or a level that it does not know, and for members that it cannot read.
    """
    for index, entry in enumerate(entries, first):
        if entry.kind not in KINDS:
            raise OtherVersion(f"entry {index:,} is of kind {entry.kind}, and this highwater, which knows levels up to "
                               f"{known}, knows kinds {min(KINDS)} to {max(KINDS)}: {START}")
        if entry.kind == MEMBERS:
            members.decoded(entry.body)
        if entry.kind == LEVEL:
            check_level(f"entry {index:,} raises the cluster", of_entry(index, entry), known)


def check_level(what: str, wanted: Level, known: Level) -> None:
    """Raises OtherVersion if a node that knows levels up to `known` does not know this one; `what` has it."""
    if not known.covers(wanted):
        raise OtherVersion(f"{what} to level {wanted}, and this node knows levels up to {known}: {START}")
