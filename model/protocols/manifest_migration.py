"""Safety: an acknowledged update is in every later manifest, whichever releases have written since. No client meets a
manifest that it cannot read.

«Manifest V1 to V2 Migration» in SlateDB's RFC on checkpoints and clones: «Phase 1: Write V1, read V1+V2 .. This allows older
nodes that only understand V1 to continue operating during a rolling upgrade», «Phase 2: Write V2, read V1+V2. Once all nodes
are upgraded and can read V2, the writer switches», «Phase 3: Deprecate V1. Once no V1 manifests remain on disk .. V1 reading
support can be removed». Phase 0 is the release before, which knows V1 alone. V2 has a field that V1 has not; an update is to
that field, or to one that both have, or it is none: a manifest as the one before, which phase 3 begins with.

What the source leaves out, and two safeguards are for. What a writer of V1 does about the field that it has no place for:
REFUSE; without it what others were told is committed is dropped without a word. And that no V1 manifest remains is not enough
for phase 3: a create of a writer in phase 1 may be under way, and be applied later. BARRIER: a V2 manifest that is written
when nobody is in phase 1 any more takes the id that such a create wants. Which of the old manifests a collector leaves, as
one that a checkpoint keeps, is open.

What boundary files are for is not here: an id whose file is collected is not created again.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model
from highwater.model.parts import below, clients, in_queue, queued, store


class Constants(NamedTuple):
    # Instance
    WRITERS: int = 2
    UPDATES: int | None = 2  # updates that a writer begins; None, here and below: unbounded
    FIRST: int = 0  # the phase in which every writer begins
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # creates in flight whose clients no longer wait
    # Safeguards: switch one off and a property must fail
    REFUSE: bool = True  # an update that the written version cannot hold is refused; False: it is dropped silently
    ORDERED: bool = True  # a writer enters a phase only if no writer is two phases behind it
    LOOK: bool = True  # phase 3 begins only if no V1 manifest exists
    BARRIER: bool = True  # phase 3 begins only after an own V2 manifest, written when nobody wrote V1 any more


LIMITS = {"WRITERS": range(1, 5), "UPDATES": range(1, 5), "FIRST": range(4), "MAX_PENDING": range(2)}

Update = tuple[int, int, bool]  # (writer, zero-based index of its update, whether it is to the new field)
File = tuple[int, int, frozenset[Update]]  # (id, version, updates)


class Shared(NamedTuple):
    files: tuple[File, ...]  # manifests that exist, by id
    pool: tuple[File, ...]  # creates in flight whose clients no longer wait
    phases: tuple[int, ...]  # the phase of each writer
    # ghosts
    acked: frozenset[Update]  # reported as committed
    unreadable: bool  # a client met a manifest that it cannot read


class Writer(NamedTuple):
    pc: str = "Idle"  # Idle, Ready
    base: int = 0  # the id of the manifest that it read
    known: frozenset[Update] = frozenset()  # the updates in that manifest
    k: int = 0  # zero-based index of its current update
    sealed: bool = False  # it has written V2 after everyone stopped writing V1


def version_of(phase: int) -> int:
    """The version that a client writes in a phase."""
    return 1 if phase <= 1 else 2


def reads(phase: int, version: int) -> bool:
    return {0: version == 1, 3: version == 2}.get(phase, True)


def kinds(phase: int) -> tuple[str, ...]:
    """The kinds of update: to a field of both versions, to the field that only V2 has, or none, before phase 3."""
    return ("both", *(("new",) if phase >= 2 else ()), *(("nothing",) if phase == 2 else ()))


def written(me: int, version: int, what: str, w: Writer) -> File:
    """The next manifest, with the writer's update."""
    update = frozenset() if what == "nothing" else frozenset([(me, w.k, what == "new")])
    return w.base + 1, version, held(version, w.known) | update


def held(version: int, updates: frozenset[Update]) -> frozenset[Update]:
    """The updates that a version can hold. Only V2 holds those to the new field."""
    return frozenset(update for update in updates if version == 2 or not update[2])


def holds(c: Constants, version: int, w: Writer) -> bool:
    return not c.REFUSE or held(version, w.known) == w.known


def may_begin(c: Constants, s: Shared, phase: int, w: Writer) -> bool:
    if c.ORDERED and any(other < phase - 1 for other in s.phases):
        return False
    if phase == 3 and c.LOOK and any(version == 1 for _, version, _ in s.files):
        return False
    return phase < 3 or not c.BARRIER or w.sealed


def rest(w: Writer) -> Writer:
    return Writer(k=w.k + 1, sealed=w.sealed)


def read(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The latest manifest."""
    if w.pc == "Idle" and below(w.k, c.UPDATES):
        file_id, version, updates = s.files[-1]
        if reads(s.phases[me], version):
            yield (), s, w._replace(pc="Ready", base=file_id, known=updates)


def read_unreadable(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The latest manifest, or one that a checkpoint keeps."""
    if not s.unreadable and any(not reads(s.phases[me], version) for _, version, _ in s.files):
        yield (), s._replace(unreadable=True), w


def create_next(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    version = version_of(s.phases[me])
    if w.pc == "Ready" and w.base == s.files[-1][0] and holds(c, version, w):
        for what in kinds(s.phases[me]):
            file = written(me, version, what, w)
            sealed = w.sealed or (version == 2 and all(phase >= 2 for phase in s.phases))
            acked = s.acked | (file[2] - w.known)
            yield (what,), s._replace(files=(*s.files, file), acked=acked), rest(w)._replace(sealed=sealed)


def create_conflict(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Ready" and w.base != s.files[-1][0] and holds(c, version_of(s.phases[me]), w):
        yield (), s, w._replace(pc="Idle", base=0, known=frozenset())


def refuse(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The caller learns that the update was refused."""
    if c.REFUSE and w.pc == "Ready" and held(version_of(s.phases[me]), w.known) != w.known:
        yield (), s, rest(w)


def send_create(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer stops waiting for a create in flight. It may be applied at any later time, or never."""
    version = version_of(s.phases[me])
    if w.pc == "Ready" and below(len(s.pool), c.MAX_PENDING) and holds(c, version, w):
        for what in kinds(s.phases[me]):
            yield (what,), queued(s, written(me, version, what, w)), rest(w)


def upgrade(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer ends, and its successor begins in the next phase."""
    phase = s.phases[me] + 1
    if w.pc == "Idle" and phase <= 3 and may_begin(c, s, phase, w):
        yield (), s._replace(phases=(*s.phases[:me], phase, *s.phases[me + 1:])), w


def collect(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A collector deletes any manifest but the latest."""
    for at, file in enumerate(s.files[:-1]):
        yield (file[0],), s._replace(files=s.files[:at] + s.files[at + 1:]), ()


def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A create in flight reaches the store after its client stopped waiting. It is applied if its id is still free."""
    for at, file, after in in_queue(s):
        yield (at,), after._replace(files=(*s.files, file)) if file[0] == s.files[-1][0] + 1 else after, ()


# --- properties ---------------------------------------------------------------------------------------------------------

def acked_is_kept(c: Constants, s: Shared) -> bool:
    """An acknowledged update is in the latest manifest."""
    return s.acked <= s.files[-1][2]


def manifests_are_readable(c: Constants, s: Shared) -> bool:
    """No client meets a manifest of a version that it cannot read."""
    return not s.unreadable


def new_field_is_used(c: Constants, s: Shared) -> bool:
    return any(new for _, _, new in s.acked)


def both_versions_are_there(c: Constants, s: Shared) -> bool:
    return len({version for _, version, _ in s.files}) == 2


def everyone_reads_v2_only(c: Constants, s: Shared) -> bool:
    return set(s.phases) == {3}


WRITER = {
    "Read": read, "ReadUnreadable": read_unreadable, "CreateNext": create_next, "CreateConflict": create_conflict,
    "Refuse": refuse, "SendCreate": send_create, "Upgrade": upgrade,
}
STORE = {"Collect": collect, "ApplyPending": apply_pending}
FAULTS = {"SendCreate"}
ALWAYS = {
    "AckedIsKept": (None, acked_is_kept),
    "ManifestsAreReadable": (None, manifests_are_readable),
}
SOMETIMES = {
    "NewFieldIsUsed": (None, new_field_is_used),
    "BothVersionsAreThere": (None, both_versions_are_there),
    "EveryoneReadsV2Only": (None, everyone_reads_v2_only),
}


def model(c: Constants) -> Model:
    writers = clients(("Writer", c.WRITERS, Writer(), WRITER))
    shared = Shared(((1, version_of(c.FIRST), frozenset()),), (), (c.FIRST,) * c.WRITERS, frozenset(), unreadable=False)
    return Model("manifest_migration", c, shared, (*writers, store(STORE)), ALWAYS, SOMETIMES)
