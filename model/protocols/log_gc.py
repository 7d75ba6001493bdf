"""Safety: an entry that was acknowledged is in every later recovery, once, at the place that its id says. No id is ever
acknowledged twice. Both hold although entries are deleted and any client may stall for any time at any point.

The append-only log of the essay on object-store protocols, with its collection made safe by SlateDB's RFC on GC boundary
files. One store request per action. specs/LogGc.fizz has the same names, states and labelled edges. An entry is (w, k); the
snapshot of id S holds the entries 1 .. S, in their order. It is an object of its own, put if absent: what it holds follows
from its id, so that a second snapshotter, a late request and an unknown outcome change nothing. Stalls need no action: a
client that is not scheduled is stalled. Age is abstracted: of what it listed a collector may take any entry but the last for
old, if a snapshot holds it.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, all_but, below, clients, crashed, in_pool, pooled, reply_lost, store, top, with_file


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    APPENDERS: int = 2
    ENTRIES: int | None = 1  # entries that an appender begins
    READERS: int = 1  # each recovers the log, and may write what it recovered as a snapshot
    COLLECTORS: int = 1
    MAX_ID: int | None = 2
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in flight whose clients no longer wait
    MAX_LOST: int | None = 0  # responses lost
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property must fail
    GC: str = "boundary"  # "min_age": by age alone, as in the essay; no boundary is written or read
    CHECK: str = "after"  # an appender checks the boundary "after" its create, "before" it, or never ("off")
    BOUNDARY_FIRST: bool = True  # the boundary is durable before an entry behind it is deleted
    CONDITIONAL_ADVANCE: bool = True  # the boundary is written only over the version that was read
    SNAPSHOT_FIRST: bool = True  # a snapshot with the entry is durable before the boundary passes the entry, or it is deleted
    KEEP_LATEST: bool = True  # the last entry of a listing is neither deleted nor put behind the boundary
    END: str = "listing"  # an appender finds the end of the log by its "listing" alone, or also reads the "boundary"
    KEEP_SNAPSHOT: bool = True  # the last snapshot of a listing is not deleted
    CHECK_READS: bool = True  # a reader checks the boundary after it has read the entries
    REAPPEND: bool = False  # True: an appender appends a refused entry again


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("ENTRIES", "READERS", "COLLECTORS", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"), MANY),
    **dict.fromkeys(("APPENDERS", "MAX_ID"), MANY[1:]),
    "GC": ("min_age", "boundary"),
    "CHECK": ("after", "before", "off"),
    "END": ("listing", "boundary"),
}

Entry = tuple[int, int] | tuple[()]  # (appender, zero-based index of its entry); (): no entry has this id
State = tuple[Entry, ...]  # entries in their order


class Shared(NamedTuple):
    log: State  # log[i - 1] is the entry of id i
    snapshots: tuple[State, ...]  # snapshots[i - 1] is the snapshot of id i; (): none
    boundary: int  # durable; 0: never written
    pool: tuple[tuple, ...]  # requests in flight whose clients no longer wait, sorted
    lost: int  # faults so far
    crashes: int
    # ghosts
    first: State  # what was first written under each id
    acked: frozenset[tuple[int, int, int]]  # (id, appender, entry) reported as appended
    peak: int  # the largest boundary ever durable


class Appender(NamedTuple):
    pc: str = "Idle"  # Idle, Listed, Ready, Prechecked, Created
    n: int = 0  # the latest id that it knows
    k: int = 0  # zero-based index of its current entry


class Reader(NamedTuple):
    pc: str = "Idle"  # Idle, Listed, Reading, Ended, Done
    s: int = 0  # the snapshot that it started from, or that it wrote
    got: State = ()  # entries recovered so far
    must: int = 0  # ghost: number of entries acknowledged, or seen by this reader, before this read began


class Collector(NamedTuple):
    pc: str = "Idle"  # Idle, Listed, Ready, Known
    listed: frozenset[int] = frozenset()  # ids listed; from Ready on those that may be deleted and are not yet
    s: int = 0  # the latest snapshot that it listed
    b: int = 0  # the boundary known to be durable; 0: not read


def present(those: tuple[tuple, ...], i: int) -> bool:
    return 1 <= i <= len(those) and those[i - 1] != ()


def with_one(those: tuple[tuple, ...], i: int, one: tuple) -> tuple[tuple, ...]:
    """The same with `one` under id i; (): with none."""
    return with_file(those, i, one, ())


def checks(c: Constants) -> str:
    return c.CHECK if c.GC == "boundary" else "off"


# --- an appender: LIST, PUT the next if absent, GET the boundary --------------------------------------------------------

def appender_list(c: Constants, me: int, s: Shared, a: Appender) -> Iterator:
    if a.pc == "Idle" and below(a.k, c.ENTRIES):
        yield (), s, a._replace(pc="Listed" if c.END == "boundary" else "Ready", n=top(s.log))


def appender_read_boundary(c: Constants, me: int, s: Shared, a: Appender) -> Iterator:
    """The last entry may be deleted, but the boundary keeps its id."""
    if a.pc == "Listed":
        yield (), s, a._replace(pc="Ready", n=max(a.n, s.boundary))


def precheck(c: Constants, me: int, s: Shared, a: Appender) -> Iterator:
    if a.pc == "Ready" and checks(c) == "before" and a.n + 1 > s.boundary:
        yield (), s, a._replace(pc="Prechecked")


def precheck_reject(c: Constants, me: int, s: Shared, a: Appender) -> Iterator:
    if a.pc == "Ready" and checks(c) == "before" and a.n + 1 <= s.boundary:
        yield (), s, Appender(k=a.k)


def about_to_create(c: Constants, a: Appender) -> bool:
    return a.pc == ("Prechecked" if checks(c) == "before" else "Ready") and below(a.n, c.MAX_ID)


def created(s: Shared, i: int, entry: Entry) -> Shared:
    return s._replace(log=with_one(s.log, i, entry), first=s.first if present(s.first, i) else with_one(s.first, i, entry))


def appended(c: Constants, me: int, s: Shared, a: Appender) -> tuple[Shared, Appender]:
    """The entry is reported; the appender knows the latest id, its own, and goes on from there without a request."""
    after = Appender("Ready", a.n + 1, a.k + 1) if below(a.k + 1, c.ENTRIES) else Appender(k=a.k + 1)
    return s._replace(acked=s.acked | {(a.n + 1, me, a.k)}), after


def create_next(c: Constants, me: int, s: Shared, a: Appender) -> Iterator:
    if about_to_create(c, a) and not present(s.log, a.n + 1):
        after = created(s, a.n + 1, (me, a.k))
        yield (), *((after, a._replace(pc="Created")) if checks(c) == "after" else appended(c, me, after, a))


def create_conflict(c: Constants, me: int, s: Shared, a: Appender) -> Iterator:
    """The id is taken: try the next one, without a read."""
    if about_to_create(c, a) and present(s.log, a.n + 1):
        yield (), s, a._replace(pc="Ready", n=a.n + 1)


def accept(c: Constants, me: int, s: Shared, a: Appender) -> Iterator:
    if a.pc == "Created" and a.n + 1 > s.boundary:
        yield (), *appended(c, me, s, a)


def reject(c: Constants, me: int, s: Shared, a: Appender) -> Iterator:
    """The entry is not acknowledged. It may still be in the history, so nobody appends it again."""
    if a.pc == "Created" and a.n + 1 <= s.boundary:
        yield (), s, Appender(k=a.k + (not c.REAPPEND))


def send_create(c: Constants, me: int, s: Shared, a: Appender) -> Iterator:
    """The appender stops waiting for a create in flight. It may be applied at any later time, or never."""
    if about_to_create(c, a) and below(len(s.pool), c.MAX_PENDING):
        yield (), pooled(s, ("Create", a.n + 1, (me, a.k))), Appender(k=a.k + 1)


def appender_lose_reply(c: Constants, me: int, s: Shared, a: Appender) -> Iterator:
    """A response is lost. After a create the outcome of the entry is indeterminate; before it, nothing happened."""
    if a.pc != "Idle" and below(s.lost, c.MAX_LOST):
        yield (), reply_lost(c, s), Appender(k=a.k + (a.pc == "Created"))


def appender_crash(c: Constants, me: int, s: Shared, a: Appender) -> Iterator:
    if a.pc != "Idle" and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Appender(k=a.k + 1)


# --- a reader: LIST the snapshots, GET the latest, GET the next entry until there is none, GET the boundary; PUT a snapshot

def reader_list_snapshots(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc in ("Idle", "Done"):
        n = top(s.snapshots)
        must = max(r.must, len(r.got), max((i for i, _, _ in s.acked), default=0))
        yield (), s, Reader("Listed" if n else "Reading", n, (), must)


def read_snapshot(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc == "Listed" and present(s.snapshots, r.s):
        yield (), s, r._replace(pc="Reading", got=s.snapshots[r.s - 1])


def snapshot_missing(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """The snapshot was deleted, so a later one exists. Start over."""
    if r.pc == "Listed" and not present(s.snapshots, r.s):
        yield (), s, Reader(must=r.must)


def read_next(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc == "Reading" and present(s.log, len(r.got) + 1):
        yield (), s, r._replace(got=(*r.got, s.log[len(r.got)]))


def read_end(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """The next entry is absent: the log ends here, or the entry was collected. The boundary tells which."""
    if r.pc == "Reading" and not present(s.log, len(r.got) + 1):
        yield (), s, r._replace(pc="Ended" if c.GC == "boundary" and c.CHECK_READS else "Done")


def read_accept(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """Nothing after its snapshot was deleted yet. So it read what was appended, up to the end of the log."""
    if r.pc == "Ended" and r.s >= s.boundary:
        yield (), s, r._replace(pc="Done")


def read_reject(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc == "Ended" and r.s < s.boundary:
        yield (), s, Reader(must=r.must)


def create_snapshot(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc == "Done" and len(r.got) > r.s and not present(s.snapshots, len(r.got)):
        yield (), s._replace(snapshots=with_one(s.snapshots, len(r.got), r.got)), r._replace(s=len(r.got))


def snapshot_conflict(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """The snapshot exists, with the same content."""
    if r.pc == "Done" and len(r.got) > r.s and present(s.snapshots, len(r.got)):
        yield (), s, r._replace(s=len(r.got))


def send_snapshot(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc == "Done" and len(r.got) > r.s and below(len(s.pool), c.MAX_PENDING):
        yield (), pooled(s, ("Snapshot", len(r.got), r.got)), Reader(must=max(r.must, len(r.got)))


def reader_lose_reply(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc not in ("Idle", "Done") and below(s.lost, c.MAX_LOST):
        yield (), reply_lost(c, s), Reader(must=r.must)


def reader_crash(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """A new reader has seen nothing, but from its next LIST on it must see everything reported as committed."""
    if r.pc != "Idle" and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Reader()


# --- a collector: LIST, LIST the snapshots, GET the boundary, PUT it forward, DELETE one by one -------------------------

def collector_list(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    ids = frozenset(i for i, entry in enumerate(s.log, 1) if entry)
    if ids:
        yield (), s, Collector("Listed", ids)


def rest(g: Collector) -> Collector:
    """Return to Idle if nothing is left to delete."""
    return g if g.listed or g.s > 1 else Collector()


def collector_list_snapshots(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    """The collector may treat as old every listed entry that the latest snapshot holds, except the last entry."""
    if g.pc == "Listed":
        n = top(s.snapshots)
        old = frozenset(i for i in g.listed if (i <= n or not c.SNAPSHOT_FIRST) and (i < max(g.listed) or not c.KEEP_LATEST))
        yield (), s, rest(Collector("Ready", old, n))


def collector_read_boundary(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Ready" and c.GC == "boundary" and g.listed:
        yield (), s, g._replace(pc="Known", b=s.boundary)


def ahead(g: Collector) -> list[int]:
    """The ids to which the collector may advance the boundary."""
    return [i for i in sorted(g.listed) if i > g.b]


def advanced(s: Shared, d: int) -> Shared:
    return s._replace(boundary=d, peak=max(s.peak, d))


def advance(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Known" and (s.boundary == g.b or not c.CONDITIONAL_ADVANCE):
        for d in ahead(g):
            yield (d,), advanced(s, d), g._replace(b=d)


def advance_conflict(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Known" and s.boundary != g.b and c.CONDITIONAL_ADVANCE and ahead(g):
        yield (), s, g._replace(pc="Ready", b=0)


def may_delete(c: Constants, g: Collector) -> list[int]:
    first = c.GC == "boundary" and c.BOUNDARY_FIRST
    if not (g.pc == "Known" or (g.pc == "Ready" and not first)):
        return []
    return [i for i in sorted(g.listed) if i <= g.b or not first]


def without(g: Collector, i: int) -> Collector:
    return rest(g._replace(listed=g.listed - {i}))


def delete(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    for i in may_delete(c, g):
        yield (i,), s._replace(log=with_one(s.log, i, ())), without(g, i)


def may_delete_snapshots(c: Constants, g: Collector) -> range:
    """All listed snapshots but the latest. One that a late PUT brings back has the same content, and is not the latest."""
    return range(1, g.s + (not c.KEEP_SNAPSHOT) if g.pc in ("Ready", "Known") else 1)


def delete_snapshot(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    for i in may_delete_snapshots(c, g):
        yield (i,), s._replace(snapshots=with_one(s.snapshots, i, ())), g


def send_advance(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Known" and below(len(s.pool), c.MAX_PENDING):
        for d in ahead(g):
            yield (d,), pooled(s, ("Advance", g.b, d)), g._replace(pc="Ready", b=0)


def send_delete(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if below(len(s.pool), c.MAX_PENDING):
        for i in may_delete(c, g):
            yield (i,), pooled(s, ("Delete", i)), without(g, i)


def send_delete_snapshot(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if below(len(s.pool), c.MAX_PENDING):
        for i in may_delete_snapshots(c, g):
            yield (i,), pooled(s, ("DeleteSnapshot", i)), g


def collector_lose_reply(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    """The collector no longer knows what is durable, so it reads the boundary again. It discards a partial listing."""
    if g.pc in ("Listed", "Known") and below(s.lost, c.MAX_LOST):
        after = g._replace(pc="Ready", b=0) if g.pc == "Known" else Collector()
        yield (), reply_lost(c, s), after


def collector_crash(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc != "Idle" and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Collector()


# --- the store ----------------------------------------------------------------------------------------------------------

def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A request in flight reaches the store after its client stopped waiting. Its condition is evaluated now."""
    for request, after in in_pool(s):
        kind, *args = request
        if kind == "Create" and not present(s.log, args[0]):
            after = created(after, *args)
        elif kind == "Snapshot" and not present(s.snapshots, args[0]):
            after = after._replace(snapshots=with_one(s.snapshots, *args))
        elif kind == "Advance" and (s.boundary == args[0] or not c.CONDITIONAL_ADVANCE):
            after = advanced(after, args[1])
        elif kind == "Delete":
            after = after._replace(log=with_one(s.log, args[0], ()))
        elif kind == "DeleteSnapshot":
            after = after._replace(snapshots=with_one(s.snapshots, args[0], ()))
        yield (request,), after, ()


# --- properties ---------------------------------------------------------------------------------------------------------

def history(s: Shared) -> State:
    """The result of an undisturbed recovery: the latest snapshot, and the entries after it up to the first gap."""
    n, log = top(s.snapshots), s.log
    gap = next((i for i in range(n, len(log)) if not log[i]), max(n, len(log)))
    return (s.snapshots[n - 1] if n else ()) + log[n:gap]


def append_is_unique(c: Constants, s: Shared) -> bool:
    """No id is ever acknowledged twice."""
    return len({i for i, _, _ in s.acked}) == len(s.acked)


def acked_is_kept(c: Constants, s: Shared) -> bool:
    """An acknowledged entry is in the history, at the place that its id says."""
    kept = history(s)
    return all(i <= len(kept) and kept[i - 1] == (w, k) for i, w, k in s.acked)


def history_only_grows(c: Constants, s: Shared) -> bool:
    """The history is what was first written under each id, so every recovery is a prefix of later ones."""
    return history(s) == s.first


def entry_is_once(c: Constants, s: Shared) -> bool:
    """No entry is in the history twice."""
    kept = history(s)
    return len(set(kept)) == len(kept)


def boundary_is_monotone(c: Constants, s: Shared) -> bool:
    """The boundary file never moves backward."""
    return s.boundary == s.peak


def boundary_is_behind_snapshot(c: Constants, s: Shared) -> bool:
    """Every entry at or behind the boundary is in a durable snapshot."""
    return s.boundary <= top(s.snapshots)


def deleted_is_behind_boundary(c: Constants, s: Shared) -> bool:
    """Before id i is deleted the durable boundary is at least i."""
    return c.GC != "boundary" or all(present(s.log, i) for i in range(s.boundary + 1, len(s.first) + 1))


def end_is_known(c: Constants, s: Shared) -> bool:
    """An appender that looks for the end of the log finds the largest id ever written."""
    return max(top(s.log), s.boundary if c.END == "boundary" else 0) == len(s.first)


def read_is_a_prefix(c: Constants, s: Shared, r: Reader) -> bool:
    """The entries that a reader has recovered are a prefix of the history."""
    return r.pc != "Done" or history(s)[:len(r.got)] == r.got


def read_is_current(c: Constants, s: Shared, r: Reader) -> bool:
    """A recovery has every entry acknowledged before it began, and all that its reader has seen before."""
    return r.pc != "Done" or r.must <= len(r.got)


def two_appends(c: Constants, s: Shared) -> bool:
    return len(s.acked) >= 2


def both_append(c: Constants, s: Shared) -> bool:
    return len({w for _, w, _ in s.acked}) >= 2


def acked_entry_is_collected(c: Constants, s: Shared) -> bool:
    return any(not present(s.log, i) for i, _, _ in s.acked)


def stale_create_lands(c: Constants, s: Shared) -> bool:
    """A create brings back a deleted id, which create-if-absent alone does not notice."""
    return any(entry and entry != s.first[i] for i, entry in enumerate(s.log))


def boundary_advances(c: Constants, s: Shared) -> bool:
    return s.boundary > 0


def refusal_is_indefinite(c: Constants, s: Shared, a: Appender) -> bool:
    """An append is about to be refused although the history holds its entry already."""
    return a.pc == "Created" and a.n + 1 <= s.boundary and s.log[a.n] == s.first[a.n]


def doubtful_entry_is_read(c: Constants, s: Shared, r: Reader) -> bool:
    """A recovery has an entry that was not acknowledged, and perhaps never will be."""
    return r.pc == "Done" and len(r.got) > len(s.acked)


def snapshot_outlives_entries(c: Constants, s: Shared) -> bool:
    """A recovery starts from a snapshot whose entries are deleted."""
    return top(s.snapshots) > 0 and not present(s.log, 1)


def old_snapshot_is_collected(c: Constants, s: Shared) -> bool:
    return len(s.snapshots) >= 2 and not present(s.snapshots, 1) and present(s.snapshots, 2)


def read_is_refused(c: Constants, s: Shared, r: Reader) -> bool:
    """A reader has reached a gap, or an entry that differs from the appended one."""
    return r.pc == "Ended" and r.s < s.boundary


def reader_sees_append(c: Constants, s: Shared, r: Reader) -> bool:
    return r.pc == "Done" and r.must > 0


def appends_end(c: Constants, s: Shared, a: Appender) -> bool:
    """Every appender finishes its last entry: appended, refused or in doubt."""
    return not below(a.k, c.ENTRIES)


def reads_end(c: Constants, s: Shared, r: Reader) -> bool:
    """A reader finishes a recovery again and again."""
    return r.pc == "Done"


def stale_entries_are_collected(c: Constants, s: Shared) -> bool:
    """Only the last entry remains of those that the latest snapshot holds. This state stays reachable."""
    return not any(s.log[:min(top(s.snapshots), top(s.log) - 1)])


APPENDER = {
    "List": appender_list, "ReadBoundary": appender_read_boundary, "Precheck": precheck, "PrecheckReject": precheck_reject,
    "CreateNext": create_next, "CreateConflict": create_conflict, "Accept": accept, "Reject": reject,
    "SendCreate": send_create, "LoseReply": appender_lose_reply, "Crash": appender_crash,
}
READER = {
    "ListSnapshots": reader_list_snapshots, "ReadSnapshot": read_snapshot, "SnapshotMissing": snapshot_missing,
    "ReadNext": read_next, "ReadEnd": read_end, "ReadAccept": read_accept, "ReadReject": read_reject,
    "CreateSnapshot": create_snapshot, "SnapshotConflict": snapshot_conflict, "SendSnapshot": send_snapshot,
    "LoseReply": reader_lose_reply, "Crash": reader_crash,
}
COLLECTOR = {
    "List": collector_list, "ListSnapshots": collector_list_snapshots, "ReadBoundary": collector_read_boundary,
    "Advance": advance, "AdvanceConflict": advance_conflict, "Delete": delete, "DeleteSnapshot": delete_snapshot,
    "SendAdvance": send_advance, "SendDelete": send_delete, "SendDeleteSnapshot": send_delete_snapshot,
    "LoseReply": collector_lose_reply, "Crash": collector_crash,
}
STORE = {"ApplyPending": apply_pending}

ALWAYS = {
    "AppendIsUnique": (None, append_is_unique),
    "AckedIsKept": (None, acked_is_kept),
    "HistoryOnlyGrows": (None, history_only_grows),
    "EntryIsOnce": (None, entry_is_once),
    "BoundaryIsMonotone": (None, boundary_is_monotone),
    "BoundaryIsBehindSnapshot": (None, boundary_is_behind_snapshot),
    "DeletedIsBehindBoundary": (None, deleted_is_behind_boundary),
    "EndIsKnown": (None, end_is_known),
    "ReadIsAPrefix": ("Reader", read_is_a_prefix),
    "ReadIsCurrent": ("Reader", read_is_current),
}
SOMETIMES = {
    "TwoAppends": (None, two_appends),
    "BothAppend": (None, both_append),
    "AckedEntryIsCollected": (None, acked_entry_is_collected),
    "StaleCreateLands": (None, stale_create_lands),
    "BoundaryAdvances": (None, boundary_advances),
    "RefusalIsIndefinite": ("Appender", refusal_is_indefinite),
    "DoubtfulEntryIsRead": ("Reader", doubtful_entry_is_read),
    "SnapshotOutlivesEntries": (None, snapshot_outlives_entries),
    "OldSnapshotIsCollected": (None, old_snapshot_is_collected),
    "ReadIsRefused": ("Reader", read_is_refused),
    "ReaderSeesAppend": ("Reader", reader_sees_append),
}
EVENTUALLY = {"AppendsEnd": ("Appender", appends_end), "ReadsEnd": ("Reader", reads_end)}
FAULTS = {"SendCreate", "SendSnapshot", "SendAdvance", "SendDelete", "SendDeleteSnapshot", "LoseReply", "Crash"}
FAIR = {role: frozenset(actions.keys() - FAULTS)
        for role, actions in (("Appender", APPENDER), ("Reader", READER), ("Collector", COLLECTOR))}


def renamed_appenders(part: tuple, names: tuple[int, ...]) -> tuple:
    """A shared or a local part in which appender i is called names[i]. Readers and collectors are named nowhere."""
    def entry(one: Entry) -> Entry:
        return (names[one[0]], one[1]) if one else one

    def state(those: State) -> State:
        return tuple(map(entry, those))

    def request(one: tuple) -> tuple:
        change = {"Create": entry, "Snapshot": state}.get(one[0])
        return (*one[:2], change(one[2])) if change else one

    match part:
        case Shared():
            return part._replace(log=state(part.log), snapshots=tuple(map(state, part.snapshots)), first=state(part.first),
                                 pool=tuple(sorted(map(request, part.pool))),
                                 acked=frozenset((i, names[w], k) for i, w, k in part.acked))
        case Reader():
            return part._replace(got=state(part.got))
        case _:
            return part


def initial(c: Constants) -> Shared:
    return Shared((), (), 0, (), 0, 0, (), frozenset(), 0)


def model(c: Constants) -> Model:
    roles = (("Appender", c.APPENDERS, Appender(), APPENDER), ("Reader", c.READERS, Reader(), READER),
             ("Collector", c.COLLECTORS, Collector(), COLLECTOR))
    absent = {"BothAppend", "StaleCreateLands"} if c.APPENDERS < 2 and c.MAX_PENDING == 0 else set()
    absent |= {"BoundaryAdvances", "RefusalIsIndefinite", "ReadIsRefused"} if c.GC == "min_age" else set()
    absent |= {"ReadIsRefused"} if c.READERS < 2 and c.MAX_PENDING == 0 else set()
    absent |= {"DoubtfulEntryIsRead"} if checks(c) != "after" and c.MAX_PENDING == 0 else set()
    renamed = {"Appender": None if c.APPENDERS < 2 else renamed_appenders, "Reader": None, "Collector": None}
    return Model("log_gc", c, initial(c), (*clients(*roles), store(STORE)), ALWAYS, all_but(SOMETIMES, absent),
                 EVENTUALLY, FAIR, renamed=renamed)
