"""Safety: nothing of a database is deleted that a listed checkpoint names, and what is destroyed stays destroyed: after the
last manifest is deleted, no late request makes another one.

The destruction of SlateDB's RFC on checkpoints and clones. An operator marks the latest manifest, softly or hard, by a
conditional update, which is one action here. A hard mark needs a manifest without checkpoints. A soft one stays until the grace
is over and the last checkpoint has gone. The mark also claims the writer's epoch. Then an operator seals the boundary: no
create is accepted from then on. It deletes the SSTs, then the manifests, the latest one last. The sealed boundary stays: the
tombstone. A client with a checkpoint stands for a clone, whose final checkpoint has no lease. specs/Destroy.fizz has the same
names, states and labelled edges.

There is no clock: the grace ends at any time after the mark. A create that the boundary refuses is in no history, and changes
nothing here. An operator that has checked may stall: its DELETE at any later time is the same action.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model, Property
from highwater.model.parts import MANY, all_but, below, clients, crashed, one_more, present, store, with_file


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    WRITERS: int = 1
    WRITES: int | None = 1  # SSTs of a writer
    CLIENTS: int = 1
    PINS: int | None = 1  # checkpoints of a client
    OPERATORS: int = 1
    MARKS: int | None = 2  # of an operator
    MAX_ID: int | None = 5  # of a manifest; only a deletion of a checkpoint creates one after it
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in flight that nobody waits for
    MAX_CRASHES: int | None = 0  # of operators
    # Safeguards: switch one off and a property must fail
    CHECK_PINS: bool = True  # a hard mark, and the end of a soft one, need that no checkpoint is listed
    CHECK_AND_MARK_IN_ONE_CAS: bool = True  # a hard mark is put into the manifest that was checked
    REFUSE_PINS: bool = True  # nobody creates a checkpoint in a marked manifest
    CLAIM_EPOCH: bool = True  # the mark fences the writer
    KEEP_GRACE: bool = True  # nothing is deleted before the grace is over
    SEAL: bool = True  # no id is ahead of the boundary; False: those after the manifest that was checked are
    KEEP_TOMBSTONE: bool = True  # the boundary is not deleted
    MANIFEST_LAST: bool = True  # the manifests are deleted after the SSTs
    RESUME: bool = True  # an operator that finds the tombstone deletes what is left


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("WRITERS", "WRITES", "CLIENTS", "PINS", "OPERATORS", "MARKS", "MAX_PENDING", "MAX_CRASHES"), MANY),
    "MAX_ID": MANY[1:],
}

Id = tuple[int, int]  # of a checkpoint: client, zero-based index of it among the client's
Sst = tuple[int, int]  # writer, zero-based index of it among the writer's
Pin = tuple[Id, int]  # a checkpoint: its id, the manifest that it names
KINDS = ("Hard", "Soft")


class Manifest(NamedTuple):
    ssts: frozenset[Sst]
    pins: frozenset[Pin]
    mark: str  # "", Soft or Hard


class Shared(NamedTuple):
    files: tuple[Manifest | None, ...]  # files[i - 1] is the manifest of id i; None if it is deleted
    ssts: frozenset[Sst]  # in the store
    pool: tuple[tuple[int, Manifest], ...]  # manifests in flight that nobody waits for, with their ids
    uploads: frozenset[Sst]  # SSTs in flight that nobody waits for
    boundary: int  # creates of ids up to it are refused
    sealed: bool  # all creates are refused
    over: bool  # nothing has to wait for the grace: it is over, or the mark is hard
    crashes: int
    # ghosts
    held: frozenset[Id]  # the checkpoints of the last manifest that was created
    gone: bool  # the last manifest was deleted
    early: bool  # something was deleted within the grace
    orphaned: bool  # the last manifest was deleted, and an SST that it names was not
    wrote: bool  # a writer put a manifest after the mark


class Writer(NamedTuple):
    k: int = 0  # the number of SSTs that it has put into a manifest or abandoned
    up: bool = False  # its next one is uploaded


class Client(NamedTuple):
    k: int = 0  # the zero-based index of its checkpoint


class Operator(NamedTuple):
    k: int = 0  # its marks
    looked: bool = False  # it has seen a manifest without checkpoints; only where the check and the mark are two steps
    checked: int = 0  # the latest manifest when it found that the database may be deleted; 0: it has not
    empty: bool = False  # it has listed no SST since


# --- what is read

def current(s: Shared) -> Manifest | None:
    """Return the latest manifest; None if there is none, or it is behind the boundary."""
    return None if is_behind(s, len(s.files)) else s.files[-1]


def is_behind(s: Shared, i: int) -> bool:
    return s.sealed or i <= s.boundary


def ids(m: Manifest) -> list[Id]:
    return sorted({one[0] for one in m.pins})


def left(s: Shared) -> list[int]:
    return [i for i in range(1, len(s.files) + 1) if present(s, i)]


def in_flight(s: Shared) -> int:
    return len(s.pool) + len(s.uploads)


# --- what is put

def put(s: Shared, i: int, m: Manifest) -> Shared:
    return s._replace(files=with_file(s.files, i, m), over=s.over or m.mark == "Hard", held=frozenset(ids(m)))


def put_next(s: Shared, m: Manifest) -> Shared:
    return put(s, len(s.files) + 1, m)


def send(s: Shared, m: Manifest) -> Shared:
    return s._replace(pool=(*s.pool, (len(s.files) + 1, m)))


def may_put(c: Constants, s: Shared) -> bool:
    return current(s) is not None and below(len(s.files), c.MAX_ID)


def may_send(c: Constants, s: Shared) -> bool:
    return below(in_flight(s), c.MAX_PENDING)


# --- a writer: an upload, and then a manifest that names it

def upload(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if below(w.k, c.WRITES) and not w.up:
        yield (), s._replace(ssts=s.ssts | {(me, w.k)}), Writer(w.k, True)


def send_upload(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer stops waiting for its request, and does not use the name again."""
    if below(w.k, c.WRITES) and not w.up and may_send(c, s):
        yield (), s._replace(uploads=s.uploads | {(me, w.k)}), Writer(w.k + 1)


def may_commit(c: Constants, s: Shared, w: Writer) -> bool:
    m = current(s)
    return w.up and may_put(c, s) and m is not None and not (c.CLAIM_EPOCH and m.mark)


def with_sst(me: int, s: Shared, w: Writer) -> Manifest:
    m = s.files[-1]
    assert m is not None
    return m._replace(ssts=m.ssts | {(me, w.k)})


def commit(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if may_commit(c, s, w):
        m = with_sst(me, s, w)
        yield (), put_next(s, m)._replace(wrote=s.wrote or bool(m.mark)), Writer(w.k + 1)


def send_commit(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if may_commit(c, s, w) and may_send(c, s):
        yield (), send(s, with_sst(me, s, w)), Writer(w.k + 1)


def abandon(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """An SST that was uploaded is in no manifest of the history."""
    if w.up:
        yield (), s, Writer(w.k + 1)


# --- a client with checkpoints

def pins_of(c: Constants, me: int, s: Shared, w: Client) -> Iterator[tuple[int, Manifest]]:
    """Yield the manifest that a new checkpoint may name, and the manifest that lists it: the next one, or a source's."""
    m = current(s)
    if m is None or not may_put(c, s) or not below(w.k, c.PINS) or (me, w.k) in ids(m) or (c.REFUSE_PINS and m.mark):
        return
    for of in sorted({len(s.files) + 1} | {of for _, of in m.pins}):
        yield of, m._replace(pins=m.pins | {((me, w.k), of)})


def pin(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    for of, m in pins_of(c, me, s, w):
        yield (of,), put_next(s, m), w


def send_pin(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """The client stops waiting for its request, which is in flight. It may be applied at any later time, or never."""
    if may_send(c, s):
        for of, m in pins_of(c, me, s, w):
            yield (of,), send(s, m), w


def without(m: Manifest, which: Id) -> Manifest:
    return m._replace(pins=frozenset(one for one in m.pins if one[0] != which))


def unpin(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    m = current(s)
    if m is None:
        return
    for which in ids(m):
        yield (which,), put_next(s, without(m, which)), w


def send_unpin(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    m = current(s)
    if m is None or not may_send(c, s):
        return
    for which in ids(m):
        yield (which,), send(s, without(m, which)), w


def go_on(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """It has its answer, or gives up: its next checkpoint has another id."""
    if below(w.k, c.PINS):
        yield (), s, Client(w.k + 1)


# --- an operator: it marks

def may_mark(c: Constants, s: Shared, w: Operator, kind: str) -> bool:
    m = current(s)
    if m is None or not may_put(c, s) or not below(w.k, c.MARKS) or m.mark in (kind, "Hard"):
        return False
    return kind == "Soft" or not c.CHECK_PINS or (not m.pins if c.CHECK_AND_MARK_IN_ONE_CAS else w.looked)


def marked(s: Shared, kind: str) -> Manifest:
    m = s.files[-1]
    assert m is not None
    return m._replace(mark=kind)


def mark(c: Constants, me: int, s: Shared, w: Operator) -> Iterator:
    for kind in KINDS:
        if may_mark(c, s, w, kind):
            yield (kind,), put_next(s, marked(s, kind)), w._replace(k=one_more(w.k, c.MARKS), looked=False)


def send_mark(c: Constants, me: int, s: Shared, w: Operator) -> Iterator:
    for kind in KINDS:
        if may_mark(c, s, w, kind) and may_send(c, s):
            yield (kind,), send(s, marked(s, kind)), w._replace(k=one_more(w.k, c.MARKS), looked=False)


def look(c: Constants, me: int, s: Shared, w: Operator) -> Iterator:
    """It reads a manifest without checkpoints, to mark whatever is the latest one later."""
    m = current(s)
    if not c.CHECK_AND_MARK_IN_ONE_CAS and m and not m.pins and not w.looked:
        yield (), s, w._replace(looked=True)


# --- an operator: it deletes

def may_delete(c: Constants, s: Shared) -> bool:
    """Tell whether a read shows that the database may be deleted. A hard mark says that no checkpoint is listed."""
    m = current(s)
    if m is None:
        return s.sealed and c.RESUME
    return bool(m.mark) and (s.over or not c.KEEP_GRACE) and (m.mark == "Hard" or not m.pins or not c.CHECK_PINS)


def check(c: Constants, me: int, s: Shared, w: Operator) -> Iterator:
    """It reads a manifest whose time has come, or the tombstone: then it goes on with what another one began."""
    if not w.checked and may_delete(c, s):
        yield (), s, w._replace(checked=len(s.files), looked=False)


def seal(c: Constants, me: int, s: Shared, w: Operator) -> Iterator:
    if w.checked and not s.gone and not is_behind(s, w.checked):
        yield (), s._replace(sealed=True) if c.SEAL else s._replace(boundary=w.checked), w


def begun(s: Shared, w: Operator) -> bool:
    return w.checked > 0 and is_behind(s, w.checked)


def delete_sst(c: Constants, me: int, s: Shared, w: Operator) -> Iterator:
    for x in sorted(s.ssts) if begun(s, w) else ():
        yield (x,), s._replace(ssts=s.ssts - {x}, early=s.early or not s.over), w


def find_empty(c: Constants, me: int, s: Shared, w: Operator) -> Iterator:
    if begun(s, w) and not s.ssts and not w.empty:
        yield (), s, w._replace(empty=True)


def delete_manifest(c: Constants, me: int, s: Shared, w: Operator) -> Iterator:
    """The latest manifest goes last."""
    if begun(s, w) and (w.empty or not c.MANIFEST_LAST):
        those = left(s)
        for i in those[:-1] or those:
            last, m = len(those) == 1, s.files[i - 1]
            assert m is not None
            yield (i,), s._replace(files=with_file(s.files, i, None), gone=s.gone or last, early=s.early or not s.over,
                                   orphaned=s.orphaned or (last and bool(m.ssts & s.ssts))), w


def delete_tombstone(c: Constants, me: int, s: Shared, w: Operator) -> Iterator:
    if not c.KEEP_TOMBSTONE and begun(s, w) and not left(s):
        yield (), s._replace(sealed=False, boundary=0), w


def crash(c: Constants, me: int, s: Shared, w: Operator) -> Iterator:
    if below(s.crashes, c.MAX_CRASHES) and (w.checked or w.looked):
        yield (), crashed(c, s), Operator(w.k)


# --- the store, and time

def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A request reaches the store late: it creates its manifest, or it does nothing.

    A manifest that the boundary refuses is in no history."""
    for at, (i, m) in enumerate(s.pool):
        after = s._replace(pool=s.pool[:at] + s.pool[at + 1:])
        yield (at,), after if present(s, i) or is_behind(s, i) else put(after, i, m), ()


def apply_upload(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for x in sorted(s.uploads):
        yield (x,), s._replace(uploads=s.uploads - {x}, ssts=s.ssts | {x}), ()


def end_grace(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    m = current(s)
    if m and m.mark and not s.over:
        yield (), s._replace(over=True), ()


# --- properties

def destroy_respects_pins(c: Constants, s: Shared) -> bool:
    """The manifest that lists a checkpoint is there, and so are the manifest that it names and the SSTs of that."""
    m = s.files[-1]
    if m is None:
        return not s.held
    return all(present(s, of) and s.files[of - 1].ssts <= s.ssts for _, of in m.pins)  # type: ignore[union-attr]


def destroyed_stays_destroyed(c: Constants, s: Shared) -> bool:
    """After the last manifest is deleted there is none."""
    return not (s.gone and left(s))


def manifest_last(c: Constants, s: Shared) -> bool:
    """The last manifest is deleted after the SSTs that it names. So a deletion that stops is found and continued."""
    return not s.orphaned


def grace_is_kept(c: Constants, s: Shared) -> bool:
    """Nothing is deleted after a soft mark before the grace is over."""
    return not s.early


def nothing_is_written_after_the_mark(c: Constants, s: Shared) -> bool:
    """No writer puts a manifest after the mark."""
    return not s.wrote


def pin_outlives_the_mark(c: Constants, s: Shared) -> bool:
    m = current(s)
    return m is not None and bool(m.mark) and bool(m.pins)


def is_destroyed(c: Constants, s: Shared) -> bool:
    return s.gone


def upload_is_late(c: Constants, s: Shared) -> bool:
    return s.gone and bool(s.ssts)


def destroyed_goes(c: Constants, s: Shared) -> bool:
    """Nothing of a destroyed database is left, again and again."""
    m = s.files[-1]
    return not s.ssts if m is None else not m.mark


WRITER = {"Upload": upload, "SendUpload": send_upload, "Commit": commit, "SendCommit": send_commit, "Abandon": abandon}
CLIENT = {"Pin": pin, "SendPin": send_pin, "Unpin": unpin, "SendUnpin": send_unpin, "GoOn": go_on}
OPERATOR = {
    "Mark": mark, "SendMark": send_mark, "Look": look, "Check": check, "Seal": seal, "DeleteSst": delete_sst,
    "FindEmpty": find_empty, "DeleteManifest": delete_manifest, "DeleteTombstone": delete_tombstone, "Crash": crash,
}
STORE = {"ApplyPending": apply_pending, "ApplyUpload": apply_upload, "EndGrace": end_grace}

ALWAYS = {
    "DestroyRespectsPins": (None, destroy_respects_pins),
    "DestroyedStaysDestroyed": (None, destroyed_stays_destroyed),
    "ManifestLast": (None, manifest_last),
    "GraceIsKept": (None, grace_is_kept),
    "NothingIsWrittenAfterTheMark": (None, nothing_is_written_after_the_mark),
}
SOMETIMES: dict[str, Property] = {
    "PinOutlivesTheMark": (None, pin_outlives_the_mark),
    "IsDestroyed": (None, is_destroyed),
    "UploadIsLate": (None, upload_is_late),
}
EVENTUALLY = {"DestroyedGoes": (None, destroyed_goes)}
FAIR = {
    "Writer": frozenset({"Abandon"}), "Client": frozenset({"Unpin"}),
    "Operator": frozenset({"Check", "Seal", "DeleteSst", "FindEmpty", "DeleteManifest"}), "": frozenset({"EndGrace"}),
}


def initial() -> Shared:
    none = frozenset()
    return Shared((Manifest(none, none, ""),), none, (), none, 0, False, False, 0, none, False, False, False, False)


def model(c: Constants) -> Model:
    roles = (("Writer", c.WRITERS, Writer(), WRITER), ("Client", c.CLIENTS, Client(), CLIENT),
             ("Operator", c.OPERATORS, Operator(), OPERATOR))
    absent = {"UploadIsLate"} if c.WRITERS == 0 else set()
    absent |= {"PinOutlivesTheMark"} if c.CLIENTS == 0 else set()
    absent |= {"IsDestroyed"} if c.OPERATORS == 0 else set()
    return Model("destroy", c, initial(), (*clients(*roles), store(STORE)), ALWAYS, all_but(SOMETIMES, absent), EVENTUALLY,
                 FAIR)
