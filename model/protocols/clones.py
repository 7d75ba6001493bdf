"""Safety: whatever an initialized clone names is there, in its own database and in those that it was cloned from. So it is for
its checkpoints. This holds although cloners stop anywhere, several clone one path, an attempt is begun again from another
source, clones are cloned, parents are compacted and collected, and clones are detached.

The clones of SlateDB's RFC on checkpoints and clones. Databases are numbered; 0 is the root. A clone's manifest is created
uninitialized, with an entry for each database whose SSTs it names. Each entry has a final checkpoint there, made from a source.
Once all finals are listed and the WAL objects are copied, the clone is initialized.

An update of one manifest sequence is one action: it builds on the latest file (sequenced_metadata_boundary). What a checkpoint
names is kept while it is listed (checkpoints), so manifests have no ids here. A client never forgets what it may send: a
request that is applied late is sent late, and one that crashes is never scheduled again. So there is no pool, and no crash.
specs/Clones.fizz has the same names, states and labelled edges.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model, Process, Property
from highwater.model.parts import MANY, all_but, below, clients


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    PARENTS: str = "0"  # digit i is the database that database i + 1 is cloned from
    CLONERS: int = 1
    TAKES: int | None = 1  # checkpoints that a cloner takes
    TRIES: int | None = 1  # attempts that a cloner begins
    SSTS: int | None = 1  # that the writer of a database adds
    APPENDS: int | None = 0  # WAL objects that the writer of a database puts
    DETACHERS: int = 1
    COLLECTORS: int = 1
    # Safeguards: switch one off and a property must fail
    FINAL_FIRST: bool = True  # a clone is initialized after the final checkpoint of each database that it names is listed
    FINAL_NEEDS_SOURCE: bool = True  # a final checkpoint is made only while its source is listed
    FRESH_FINALS: bool = True  # an attempt that is begun again has new finals; False: it keeps those of the entries before it
    OPEN_INITIALIZED: bool = True  # a writer opens a clone only if it is initialized
    DETACH_CHECKPOINTS: bool = True  # an entry is in use as well if a checkpoint of the clone names an SST of it
    PARENT_FIRST: bool = True  # a final checkpoint goes before its entry goes
    COPY_BEFORE_INIT: bool = True  # a clone is initialized after its WAL objects are copied
    COPY_IF_ABSENT: bool = True  # a WAL object is copied only where there is none
    RESTART_FORWARD: bool = True  # an attempt is begun again only from a source that has seen as much of the WAL
    SEEN_OF_SOURCE: bool = True  # a clone has the WAL objects that its source has seen; False: those of the parent's latest
    # manifest


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("CLONERS", "TAKES", "TRIES", "SSTS", "APPENDS", "DETACHERS", "COLLECTORS"), MANY),
    "PARENTS": ("0", "00", "01", "000", "001", "011", "012"),
}

Db = int
Sst = tuple[Db, int]  # its database, its number there
Pin = tuple[int, int, Db, Db]  # a checkpoint: cloner, number, its database, the clone that it is a final of, or its database
Entry = tuple[Pin, tuple[Sst, ...]]  # of a clone: the final, and the SSTs of the final's database that the clone names


class Content(NamedTuple):
    """The state that a checkpoint names. It never changes."""

    pin: Pin
    own: tuple[Sst, ...]
    entries: tuple[Entry, ...]
    seen: int  # of the WAL


class Database(NamedTuple):
    """The latest manifest."""

    there: bool = False
    ready: bool = False  # it is initialized
    own: frozenset[Sst] = frozenset()
    entries: frozenset[Entry] = frozenset()
    pins: frozenset[Pin] = frozenset()  # the checkpoints that are listed
    seen: int = 0  # of the WAL
    base: int = 0  # what the source of the attempt has seen


class Shared(NamedTuple):
    dbs: tuple[Database, ...]
    ssts: frozenset[Sst]  # in the store
    wal: frozenset[tuple[Db, int, Db]]  # objects in the store: database, id, the database whose writer put it
    contents: frozenset[Content]  # of every checkpoint so far
    # ghosts
    sources: frozenset[tuple[Pin, Pin]]  # (final, its source) of every entry so far
    acked: frozenset[tuple[Db, int]]  # each WAL object that a writer has put
    late: frozenset[Pin]  # finals that were listed when nothing of them was used: by a slow cloner


class Cloner(NamedTuple):
    t: int = 0  # checkpoints that it has taken
    k: int = 0  # attempts that it has begun


class Writer(NamedTuple):
    k: int = 0  # SSTs that it has added
    a: int = 0  # WAL objects that it has put


class Nothing(NamedTuple):
    """The state of a detacher and of a collector: neither knows anything from one request to the next."""


# --- what is read

def parent(c: Constants, d: Db) -> Db:
    return int(c.PARENTS[d - 1])


def is_final(u: Pin) -> bool:
    return u[2] != u[3]


def known(s: Shared) -> frozenset[Pin]:
    return frozenset(one.pin for one in s.contents)


def content(s: Shared, u: Pin) -> Content:
    return next(one for one in sorted(s.contents) if one.pin == u)


def listed(s: Shared, u: Pin) -> bool:
    return u in s.dbs[u[2]].pins


def entries_in(s: Shared, of: Database) -> list[Entry]:
    """The entries of the latest manifest and of those of its checkpoints."""
    return [*of.entries, *(e for one in sorted(s.contents) if one.pin in of.pins for e in one.entries)]


def used(c: Constants, s: Shared, f: Pin) -> bool:
    of = s.dbs[f[3]]
    return any(final == f and ssts for final, ssts in (entries_in(s, of) if c.DETACH_CHECKPOINTS else of.entries))


def ids(s: Shared, d: Db) -> frozenset[int]:
    return frozenset(i for of, i, _ in s.wal if of == d)


def is_open(c: Constants, s: Shared, d: Db) -> bool:
    return s.dbs[d].ready or (s.dbs[d].there and not c.OPEN_INITIALIZED)


def changed(s: Shared, d: Db, **parts) -> Shared:
    return s._replace(dbs=(*s.dbs[:d], s.dbs[d]._replace(**parts), *s.dbs[d + 1:]))


def listing(s: Shared, u: Pin) -> Shared:
    return changed(s, u[2], pins=s.dbs[u[2]].pins | {u})


def unlisting(s: Shared, u: Pin) -> Shared:
    return changed(s, u[2], pins=s.dbs[u[2]].pins - {u})


# --- a cloner

def take(c: Constants, me: int, s: Shared, w: Cloner) -> Iterator:
    """It takes a checkpoint of an initialized database. That may be the source of a clone."""
    if below(w.t, c.TAKES):
        for d, of in enumerate(s.dbs):
            if of.ready:
                u = (me, w.t, d, d)
                one = Content(u, tuple(sorted(of.own)), tuple(sorted(e for e in of.entries if e[1])), of.seen)
                yield (d,), listing(s, u)._replace(contents=s.contents | {one}), w._replace(t=w.t + 1)


def sources_for(c: Constants, s: Shared, d: Db, least: int) -> list[Pin]:
    """The checkpoints of the parent that it may clone: it has read them some time."""
    return sorted(one.pin for one in s.contents
                  if one.pin[2] == parent(c, d) and not is_final(one.pin) and one.seen >= least)


def begin(c: Constants, me: int, s: Shared, w: Cloner) -> Iterator:
    """It creates the manifest of the clone, uninitialized, from a source that it has read."""
    if below(w.k, c.TRIES):
        for d in range(1, len(s.dbs)):
            if not s.dbs[d].there:
                for source in sources_for(c, s, d, 0):
                    yield (d, source), attempt(c, s, d, (me, w.k), content(s, source)), w._replace(k=w.k + 1)


def restart(c: Constants, me: int, s: Shared, w: Cloner) -> Iterator:
    """The clone is there, and is not initialized. It gets other entries; those of the attempt before name no SST any more."""
    if below(w.k, c.TRIES):
        for d in range(1, len(s.dbs)):
            if s.dbs[d].there and not s.dbs[d].ready:
                for source in sources_for(c, s, d, s.dbs[d].base if c.RESTART_FORWARD else 0):
                    yield (d, source), attempt(c, s, d, (me, w.k), content(s, source)), w._replace(k=w.k + 1)


def attempt(c: Constants, s: Shared, d: Db, by: tuple[int, int], base: Content) -> Shared:
    old = s.dbs[d].entries

    def final(home: Db) -> Pin:
        kept = [f for f, _ in sorted(old) if f[2] == home and not c.FRESH_FINALS]
        return kept[0] if kept else (*by, home, d)

    new = [(final(parent(c, d)), base.pin, base.own)]
    new += [(final(f[2]), f, ssts) for f, ssts in base.entries if ssts]
    finals = {f for f, _, _ in new}
    entries = frozenset((f, ssts) for f, _, ssts in new) | {(f, ()) for f, _ in old if f not in finals}
    return changed(s, d, there=True, ready=False, entries=entries, base=base.seen,
                   seen=base.seen if c.SEEN_OF_SOURCE else s.dbs[parent(c, d)].seen)._replace(
        sources=s.sources | {(f, source) for f, source, _ in new})


def pin(c: Constants, me: int, s: Shared, w: Cloner) -> Iterator:
    """It makes a final checkpoint from its source."""
    there = known(s)
    for f, source in sorted(s.sources):
        if not listed(s, f) and source in there and (listed(s, source) or not c.FINAL_NEEDS_SOURCE):
            contents = s.contents if f in there else s.contents | {content(s, source)._replace(pin=f)}
            late = s.late if used(c, s, f) else s.late | {f}
            yield ((f, source),), listing(s, f)._replace(contents=contents, late=late), w


def copies(c: Constants, s: Shared, d: Db) -> list[tuple[Db, int, Db]]:
    """The parent's WAL objects that may be copied."""
    of, there = s.dbs[d], ids(s, d)
    most = of.base if c.SEEN_OF_SOURCE else max(of.base, of.seen)
    return sorted((p, i, by) for p, i, by in s.wal if p == parent(c, d) and i <= most
                  and not (c.COPY_IF_ABSENT and i in there) and (d, i, by) not in s.wal)


def copy(c: Constants, me: int, s: Shared, w: Cloner) -> Iterator:
    for d in range(1, len(s.dbs)):
        if s.dbs[d].there:
            for source in copies(c, s, d):
                _, i, by = source
                yield (d, source), s._replace(wal=frozenset(o for o in s.wal if o[:2] != (d, i)) | {(d, i, by)}), w


def initialize(c: Constants, me: int, s: Shared, w: Cloner) -> Iterator:
    """The finals of the latest manifest of the clone have been listed, and its WAL objects are there."""
    there = known(s)
    for d, of in enumerate(s.dbs):
        pinned = not c.FINAL_FIRST or all(f in there for f, ssts in of.entries if ssts)
        copied = not c.COPY_BEFORE_INIT or ids(s, d) >= frozenset(range(1, of.base + 1))
        if of.there and not of.ready and pinned and copied:
            yield (d,), changed(s, d, ready=True), w


# --- the writer of a database, which is its compactor as well

def flush(c: Constants, d: Db, s: Shared, w: Writer) -> Iterator:
    """A new SST, in the place of an old one if there is one: then this is a compaction.

    The manifest has seen some WAL objects, not always all: its writer may not know of the last ones."""
    of = s.dbs[d]
    if below(w.k, c.SSTS) and is_open(c, s, d):
        new = (d, w.k + 1)
        for old in [(), *sorted(of.own.union(*(ssts for _, ssts in sorted(of.entries))))]:
            entries = frozenset((f, tuple([x for x in those if x != old])) for f, those in of.entries)
            after = changed(s, d, own=of.own - {old} | {new}, entries=entries)._replace(ssts=s.ssts | {new})
            for seen in range(of.seen, max((of.seen, *ids(s, d))) + 1):
                yield (old, seen), changed(after, d, seen=seen), w._replace(k=w.k + 1)


def append(c: Constants, d: Db, s: Shared, w: Writer) -> Iterator:
    """A WAL object behind all others. Its records are acknowledged."""
    if below(w.a, c.APPENDS) and is_open(c, s, d):
        i = max((0, *ids(s, d))) + 1
        yield (), s._replace(wal=s.wal | {(d, i, d)}, acked=s.acked | {(d, i)}), w._replace(a=w.a + 1)


# --- detachers and collectors

def release(c: Constants, me: int, s: Shared, w: Nothing) -> Iterator:
    """A final checkpoint of which the clone uses nothing goes."""
    for f in sorted(u for of in s.dbs for u in of.pins if is_final(u) and not used(c, s, u)):
        yield (f,), unlisting(s, f)._replace(late=s.late - {f}), w


def remove(c: Constants, me: int, s: Shared, w: Nothing) -> Iterator:
    for d in range(1, len(s.dbs)):
        of = s.dbs[d]
        for f in sorted(f for f, _ in of.entries if not used(c, s, f)):
            if not c.PARENT_FIRST or not listed(s, f) or f in s.late:
                yield (d, f), changed(s, d, entries=frozenset(e for e in of.entries if e[0] != f)), w


def end_lease(c: Constants, me: int, s: Shared, w: Nothing) -> Iterator:
    """A checkpoint that is no final is deleted, or its lease has ended."""
    for u in sorted(u for of in s.dbs for u in of.pins if not is_final(u)):
        yield (u,), unlisting(s, u), w


def collect(c: Constants, me: int, s: Shared, w: Nothing) -> Iterator:
    """An SST goes that its own database does not name, in the latest manifest or in that of a checkpoint."""
    for x in sorted(s.ssts):
        of = s.dbs[x[0]]
        if x not in of.own and not any(x in one.own for one in sorted(s.contents) if one.pin in of.pins):
            yield (x,), s._replace(ssts=s.ssts - {x}), w


# --- properties

def clone_is_pinned(c: Constants, s: Shared) -> bool:
    """An initialized database names only what is there, in its latest manifest and in those of its checkpoints."""
    return all(s.ssts.issuperset(ssts) for of in s.dbs if of.ready
               for ssts in (of.own, *(one.own for one in sorted(s.contents) if one.pin in of.pins),
                            *(ssts for _, ssts in entries_in(s, of))))


def detach_is_free(c: Constants, s: Shared) -> bool:
    """A final checkpoint of which something is used is listed: whoever detaches takes nothing that anybody needs."""
    return all(listed(s, f) for of in s.dbs if of.ready for f, ssts in entries_in(s, of) if ssts)


def no_pin_is_lost(c: Constants, s: Shared) -> bool:
    """A final checkpoint that is listed has an entry in its clone, by which a detach finds it; but for those of slow
    cloners."""
    return all(u in s.late or any(f == u for f, _ in s.dbs[u[3]].entries) for of in s.dbs for u in of.pins if is_final(u))


def clone_is_the_checkpoint(c: Constants, s: Shared) -> bool:
    """A clone has the WAL objects that its source has seen, and no other ones of its parent."""
    return all(not of.ready or frozenset(i for o, i, by in s.wal if o == d and by != d) == frozenset(range(1, of.base + 1))
               for d, of in enumerate(s.dbs) if d)


def copy_touches_nobody(c: Constants, s: Shared) -> bool:
    """No WAL object that a writer has put is overwritten."""
    return all((d, i, d) in s.wal for d, i in s.acked)


def clone_outlives_its_parent(c: Constants, s: Shared) -> bool:
    """An initialized clone names an SST that its parent's latest manifest does not."""
    return any(x not in s.dbs[x[0]].own for of in s.dbs if of.ready for _, ssts in of.entries for x in ssts)


def clone_is_detached(c: Constants, s: Shared) -> bool:
    return any(of.ready and not of.entries for of in s.dbs[1:])


def source_is_gone(c: Constants, s: Shared) -> bool:
    return any(not listed(s, source) for _, source in s.sources)


def sst_is_collected(c: Constants, s: Shared) -> bool:
    return not s.ssts.issuperset(x for one in s.contents for x in one.own)


def pin_is_late(c: Constants, s: Shared) -> bool:
    return bool(s.late)


def unused_pins_go(c: Constants, s: Shared) -> bool:
    """No final checkpoint is listed of which nothing is used, again and again."""
    return all(used(c, s, u) for of in s.dbs for u in of.pins if is_final(u))


CLONER = {"Take": take, "Begin": begin, "Restart": restart, "Pin": pin, "Copy": copy, "Initialize": initialize}
WRITER = {"Flush": flush, "Append": append}
DETACHER = {"Release": release, "Remove": remove}
COLLECTOR = {"EndLease": end_lease, "Collect": collect}

ALWAYS = {
    "CloneIsPinned": (None, clone_is_pinned),
    "DetachIsFree": (None, detach_is_free),
    "NoPinIsLost": (None, no_pin_is_lost),
    "CloneIsTheCheckpoint": (None, clone_is_the_checkpoint),
    "CopyTouchesNobody": (None, copy_touches_nobody),
}
SOMETIMES: dict[str, Property] = {
    "CloneOutlivesItsParent": (None, clone_outlives_its_parent),
    "CloneIsDetached": (None, clone_is_detached),
    "SourceIsGone": (None, source_is_gone),
    "SstIsCollected": (None, sst_is_collected),
    "PinIsLate": (None, pin_is_late),
}
EVENTUALLY = {"UnusedPinsGo": (None, unused_pins_go)}
FAULTS = {"Take", "Begin", "Restart", "Flush", "Append"}  # never obligatory, so not fair
ROLES = {"Cloner": CLONER, "Writer": WRITER, "Detacher": DETACHER, "Collector": COLLECTOR}
FAIR = {role: frozenset(actions.keys() - FAULTS) for role, actions in ROLES.items()}


def initial(c: Constants) -> Shared:
    root = Database(True, True, frozenset({(0, 0)}))
    return Shared((root, *(Database() for _ in c.PARENTS)), frozenset({(0, 0)}), frozenset(), frozenset(), frozenset(),
                  frozenset(), frozenset())


def processes(c: Constants) -> tuple[Process, ...]:
    return clients(("Cloner", c.CLONERS, Cloner(), CLONER), ("Writer", len(c.PARENTS) + 1, Writer(), WRITER),
                   ("Detacher", c.DETACHERS, Nothing(), DETACHER), ("Collector", c.COLLECTORS, Nothing(), COLLECTOR))


def model(c: Constants) -> Model:
    absent = set() if c.DETACHERS else {"CloneIsDetached"}
    absent |= set() if c.COLLECTORS else {"SourceIsGone", "SstIsCollected"}
    return Model("clones", c, initial(c), processes(c), ALWAYS, all_but(SOMETIMES, absent), EVENTUALLY, FAIR,
                 renamed={"Detacher": None, "Collector": None})
