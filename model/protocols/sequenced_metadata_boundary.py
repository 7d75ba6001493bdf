"""Safety: an update that was reported as committed stays in the history that every later writer and reader builds on. No id
is ever committed twice. Both hold although old files are deleted and any client may stall for any time at any point.

This is the protocol of SlateDB's RFC on GC boundary files, with one store request per action.
specs/SequencedMetadataBoundary.fizz has the same names, states and labelled edges. A file's content is the updates (w, k)
that it holds and the checkpoints (ids of files) that its history has taken and not dropped. Stalls need no action: a client
that is not scheduled is stalled. Age is abstracted: a collector may treat any listed file but the last as old, which no real
`min_age` exceeds.

A checkpoint is taken, renewed and dropped by an update. Who drops those that have expired, a collector for example, is a writer
here. There is no clock: a checkpoint may expire at any time, and one that has expired may be renewed while it is listed.
"""

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from highwater.model.core import Model
from highwater.model.parts import (
    MANY,
    below,
    clients,
    crashed,
    file_of,
    in_pool,
    pooled,
    present,
    reply_lost,
    store,
    top,
    with_file,
)


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    WRITERS: int = 2
    COMMITS: int | None = 2  # updates that a writer begins
    COLLECTORS: int = 1
    READERS: int = 0
    MAX_ID: int | None = 3
    CHECKPOINTS: int | None = 0  # checkpoints in one file
    # Faults, each bounded
    PAGE: int | None = 0  # ids on one page of a listing; 0: a listing has one page
    MAX_PENDING: int | None = 0  # requests in flight whose clients no longer wait
    MAX_LOST: int | None = 0  # responses lost
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property must fail
    BOUNDARY: bool = True  # False: min_age alone, as before the RFC; no boundary is written or read
    CHECK: str = "after"  # a writer checks the boundary "after" its create, "before" it, or never ("off")
    OLD_WRITERS: int = 0  # number of writers of an old version, which does not check
    FRESH_BOUNDARY: bool = True  # the check reads the store; False: a cache that never expires
    BOUNDARY_FIRST: bool = True  # the boundary is durable before a file behind it is deleted
    CONDITIONAL_ADVANCE: bool = True  # the boundary is written only over the version that was read
    KEEP_LATEST: bool = True  # the last file of a listing is neither deleted nor put behind the boundary
    SPARE_CHECKPOINTS: bool = True  # a file that a checkpoint refers to is not deleted
    SPARE_LISTED: bool = True  # it is spared as long as the checkpoint is listed; False: only until the checkpoint expires
    CHECK_READS: bool = True  # a reader checks the boundary after it has read the latest file; so does a collector
    # Choices of the client
    ON_REFUSAL: str = "told"  # a refused update: the caller is "told" of the doubt, or that it "failed"; or it is "retried";
    #                           or first "recognised" in the latest file; "unchecked": without a check of that file
    KNOWN: str = "never"  # a writer takes its own file for the latest, and creates the next one without LIST and GET:
    #                       "never"; once "accepted"; once "created", whatever the check said; "unanswered": also if the
    #                       create has no response. Never where an update is retried


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("COMMITS", "COLLECTORS", "READERS", "CHECKPOINTS", "PAGE", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES",
                     "OLD_WRITERS"), MANY),
    **dict.fromkeys(("WRITERS", "MAX_ID"), MANY[1:]),
    "CHECK": ("after", "before", "off"),
    "ON_REFUSAL": ("told", "failed", "retried", "unchecked", "recognised"),
    "KNOWN": ("never", "accepted", "created", "unanswered"),
}

Update = tuple[int, int]  # (writer, zero-based index of its update)
Change = tuple[str, tuple[int, ...]]  # of the checkpoints: ("Keep", ()), ("Take", ()), ("Drop", those), ("Renew", those)


class File(NamedTuple):
    updates: frozenset[Update]
    checkpoints: frozenset[int]


NO_FILE = File(frozenset(), frozenset())


class Shared(NamedTuple):
    files: tuple[File | None, ...]  # files[i - 1] is the file of id i
    boundary: int  # durable; 0: never written
    pool: tuple[tuple, ...]  # requests in flight whose clients no longer wait, sorted
    expired: frozenset[int]  # expired checkpoints
    lost: int  # responses lost so far
    crashes: int
    # ghosts
    acked: frozenset[tuple[int, int, int]]  # (id, writer, update) reported as committed; id 0: recognised
    unchecked: frozenset[int]  # ids reported as committed although the boundary was never below the id after the create
    high: int  # the largest id ever created
    peak: int  # the largest boundary ever durable


class Writer(NamedTuple):
    pc: str = "Idle"  # Idle, Listing, Listed, Ready, Prechecked, Created, Applied
    n: int = 0  # the latest id known to the writer: listed, or its own
    base: File = NO_FILE  # the content of file n; once Created the content put, which only KNOWN and a ghost need
    k: int = 0  # zero-based index of its current update
    late: bool = False  # ghost: its create was applied at or behind the boundary
    seen: int = 0  # cached boundary, only if FRESH_BOUNDARY is off


class Collector(NamedTuple):
    pc: str = "Idle"  # Idle, Listing, Listed, Known
    listed: frozenset[int] = frozenset()  # ids listed and not yet deleted
    marked: bool = False  # ids that checkpoints refer to are removed from `listed`
    checked: bool = False  # the boundary was below the last id after the checkpoints were read
    b: int = 0  # the boundary known to be durable; 0: not read


class Reader(NamedTuple):
    pc: str = "Idle"  # Idle, Listing, Listed, Read, Done
    n: int = 0
    must: frozenset[Update] = frozenset()  # ghost: reported as committed, or seen by this reader, before this read began
    got: frozenset[Update] = frozenset()


def page_after(c: Constants, s: Shared, cursor: int) -> tuple[list[int], bool]:
    """The ids of one page after `cursor`, and whether more follow it."""
    ids = [i for i in range(cursor + 1, len(s.files) + 1) if s.files[i - 1]]
    if c.PAGE == 0:
        return ids, False
    assert c.PAGE is not None  # only proofs leave it open
    return ids[:c.PAGE], len(ids) > c.PAGE


def checks(c: Constants, me: int) -> str:
    return c.CHECK if c.BOUNDARY and me >= c.OLD_WRITERS else "off"


def recognises(c: Constants) -> bool:
    return c.ON_REFUSAL in ("recognised", "unchecked")


def known(c: Constants) -> str:
    return c.KNOWN if c.ON_REFUSAL in ("told", "failed") else "never"


# --- a writer: LIST, GET the latest, PUT the next if absent, GET the boundary -------------------------------------------

def writer_list_page(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc in ("Idle", "Listing") and below(w.k, c.COMMITS):
        ids, more = page_after(c, s, w.n)
        if more:
            yield (), s, w._replace(pc="Listing", n=ids[-1])


def writer_list(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc in ("Idle", "Listing") and below(w.k, c.COMMITS):
        ids, more = page_after(c, s, w.n)
        if not more:
            yield (), s, w._replace(pc="Listed", n=max([w.n, *ids]))


def applied(c: Constants, me: int, s: Shared, w: Writer) -> bool:
    """Tell whether the file read holds the writer's update, and the writer looks for it."""
    return recognises(c) and (me, w.k) in file_of(s, w.n).updates


def read_latest(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Listed" and present(s, w.n) and not applied(c, me, s, w):
        yield (), s, w._replace(pc="Ready", base=s.files[w.n - 1])


def read_applied(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The file holds the update of an earlier attempt. The boundary decides whether that file is in the history."""
    if w.pc == "Listed" and present(s, w.n) and applied(c, me, s, w):
        if c.ON_REFUSAL == "recognised":
            yield (), s, w._replace(pc="Applied")
        else:
            yield (), recognised(s, me, w), done(w, w.k + 1)


def read_missing(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Listed" and not present(s, w.n):
        yield (), s, w._replace(pc="Idle", n=0)


def precheck(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Ready" and checks(c, me) == "before" and w.n + 1 > s.boundary:
        yield (), s, w._replace(pc="Prechecked")


def precheck_reject(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Ready" and checks(c, me) == "before" and w.n + 1 <= s.boundary:
        yield (), s, done(w, w.k)


def about_to_create(c: Constants, me: int, w: Writer) -> bool:
    return w.pc == ("Prechecked" if checks(c, me) == "before" else "Ready") and below(w.n, c.MAX_ID)


def subsets(ids: frozenset[int]) -> Iterator[tuple[int, ...]]:
    """All subsets but the empty one, each in order."""
    for size in range(1, len(ids) + 1):
        yield from combinations(sorted(ids), size)


def extended(c: Constants, me: int, w: Writer) -> Iterator[tuple[Change, File]]:
    """The content that the writer may put next: its update; it may also take a checkpoint of the new file, or drop some."""
    updates, checkpoints = w.base.updates | {(me, w.k)}, w.base.checkpoints
    yield ("Keep", ()), File(updates, checkpoints)
    if below(len(checkpoints), c.CHECKPOINTS):
        yield ("Take", ()), File(updates, checkpoints | {w.n + 1})
    for ids in subsets(checkpoints):
        yield ("Drop", ids), File(updates, checkpoints - {*ids})


def renewed(c: Constants, me: int, s: Shared, w: Writer) -> Iterator[tuple[Change, File]]:
    """The same with checkpoints renewed that have expired. To others the model's file shows no difference. Nobody is told of a
    renewal behind the boundary, or of one that is in flight, so these do not count."""
    for ids in subsets(w.base.checkpoints & s.expired) if w.n + 1 > s.boundary else ():
        yield ("Renew", ids), File(w.base.updates | {(me, w.k)}, w.base.checkpoints)


def created(s: Shared, i: int, file: File) -> Shared:
    return s._replace(files=with_file(s.files, i, file), high=max(s.high, i))


def acknowledged(s: Shared, me: int, w: Writer, late: bool) -> Shared:
    return s._replace(acked=s.acked | {(w.n + 1, me, w.k)}, unchecked=s.unchecked | {w.n + 1} if late else s.unchecked)


def recognised(s: Shared, me: int, w: Writer) -> Shared:
    """The id of the file with the update is unknown."""
    return s._replace(acked=s.acked | {(0, me, w.k)})


def done(w: Writer, k: int) -> Writer:
    """Back to Idle, with update `k` to do next."""
    return Writer(k=k, seen=w.seen)


def holding(c: Constants, w: Writer, file: File) -> Writer:
    """Ready for its next update, if there is one, knowing `file` for the content of the id that it has just put."""
    return Writer("Ready", w.n + 1, file, w.k + 1, seen=w.seen) if below(w.k + 1, c.COMMITS) else done(w, w.k + 1)


def committed(c: Constants, w: Writer, file: File) -> Writer:
    return done(w, w.k + 1) if known(c) == "never" else holding(c, w, file)


def create_next(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if about_to_create(c, me, w) and not present(s, w.n + 1):
        for change, file in (*extended(c, me, w), *renewed(c, me, s, w)):
            late = w.n + 1 <= s.boundary
            after = created(s, w.n + 1, file)
            if change[0] == "Renew":
                after = after._replace(expired=s.expired - {*change[1]})
            if checks(c, me) == "after":
                twice = w.base if (me, w.k) in w.base.updates else NO_FILE
                base = twice if known(c) == "never" else file
                yield (change,), after, w._replace(pc="Created", base=base, late=late)
            else:
                yield (change,), acknowledged(after, me, w, late), committed(c, w, file)


def create_conflict(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if about_to_create(c, me, w) and present(s, w.n + 1):
        yield (), s, done(w, w.k)


def boundary_seen(c: Constants, s: Shared, w: Writer) -> int:
    return s.boundary if c.FRESH_BOUNDARY else w.seen or s.boundary


def accept(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Created" and w.n + 1 > boundary_seen(c, s, w):
        seen = 0 if c.FRESH_BOUNDARY else boundary_seen(c, s, w)
        yield (), acknowledged(s, me, w, w.late), committed(c, w, w.base)._replace(seen=seen)


def reject(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Created" and w.n + 1 <= boundary_seen(c, s, w):
        seen = 0 if c.FRESH_BOUNDARY else boundary_seen(c, s, w)
        again = recognises(c) or c.ON_REFUSAL == "retried"
        after = holding(c, w, w.base) if known(c) == "created" else done(w, w.k + (not again))
        yield (), s, after._replace(seen=seen)


def recognise(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The file was ahead of the boundary after it was read. So it was not deleted, and no other file replaced it."""
    if c.ON_REFUSAL == "recognised" and w.pc == "Applied" and w.n > boundary_seen(c, s, w):
        seen = 0 if c.FRESH_BOUNDARY else boundary_seen(c, s, w)
        yield (), recognised(s, me, w), done(w, w.k + 1)._replace(seen=seen)


def recognise_reject(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The file may or may not be in the history. Start over."""
    if c.ON_REFUSAL == "recognised" and w.pc == "Applied" and w.n <= boundary_seen(c, s, w):
        seen = 0 if c.FRESH_BOUNDARY else boundary_seen(c, s, w)
        yield (), s, done(w, w.k)._replace(seen=seen)


def send_create(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer stops waiting for a create in flight. The create may be applied at any later time, or never."""
    if about_to_create(c, me, w) and below(len(s.pool), c.MAX_PENDING):
        for change, file in extended(c, me, w):
            request = ("Create", w.n + 1, tuple(sorted(file.updates)), tuple(sorted(file.checkpoints)))
            yield (change,), pooled(s, request), in_doubt(c, w, file)


def in_doubt(c: Constants, w: Writer, file: File) -> Writer:
    """The caller learns of the doubt, or the writer retries an update that it can recognise."""
    return holding(c, w, file) if known(c) == "unanswered" else done(w, w.k + (not recognises(c)))


def writer_lose_reply(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """A response is lost. After a create the outcome of the update is indeterminate; before it, nothing happened."""
    if w.pc != "Idle" and below(s.lost, c.MAX_LOST):
        after = in_doubt(c, w, w.base) if w.pc == "Created" else done(w, w.k)
        yield (), reply_lost(c, s), after


def writer_crash(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """A writer that recognises updates may keep their ids in durable storage and retry the same update."""
    if (w.pc != "Idle" or w.seen) and below(s.crashes, c.MAX_CRASHES):
        k = w.k + (w.pc != "Idle" and not recognises(c))
        yield (), crashed(c, s), Writer(k=k)


# --- a collector: LIST, GET the boundary, PUT it forward, GET the checkpoints, DELETE one by one ------------------------

def collector_list_page(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    listed = g.listed if g.pc == "Listing" else frozenset()
    ids, more = page_after(c, s, max(listed, default=0))
    if more:
        yield (), s, Collector("Listing", listed | frozenset(ids))


def collector_list(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    listed = g.listed if g.pc == "Listing" else frozenset()
    ids, more = page_after(c, s, max(listed, default=0))
    listed |= frozenset(ids)
    if not more and len(listed) >= 2:
        free = c.CHECKPOINTS == 0 or not c.SPARE_CHECKPOINTS
        yield (), s, Collector("Listed", listed, marked=free, checked=free)


def read_checkpoints(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    """GET the last file listed, and keep the files that its checkpoints refer to: before the advance or after it."""
    if g.pc in ("Listed", "Known") and not g.marked and present(s, max(g.listed)):
        spared = file_of(s, max(g.listed)).checkpoints - {max(g.listed)} - (frozenset() if c.SPARE_LISTED else s.expired)
        yield (), s, g._replace(listed=g.listed - spared, marked=True, checked=not (c.BOUNDARY and c.CHECK_READS))


def checkpoints_missing(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc in ("Listed", "Known") and not g.marked and not present(s, max(g.listed)):
        yield (), s, Collector()


def checkpoints_accept(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    """GET the boundary. The file was ahead of it after it was read, so it was the history's, and has its checkpoints."""
    if g.marked and not g.checked and max(g.listed, default=0) > s.boundary:
        yield (), s, g._replace(checked=True)


def checkpoints_reject(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    """The file may be a refused writer's. Such a one may lack checkpoints of the history."""
    if g.marked and not g.checked and max(g.listed, default=0) <= s.boundary:
        yield (), s, Collector()


def read_boundary(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Listed" and c.BOUNDARY:
        yield (), s, g._replace(pc="Known", b=s.boundary)


def old(c: Constants, g: Collector) -> list[int]:
    """The files that the collector may treat as old: all listed files but the last."""
    return sorted(g.listed - {max(g.listed)} if c.KEEP_LATEST else g.listed) if g.listed else []


def advanced(s: Shared, d: int) -> Shared:
    return s._replace(boundary=d, peak=max(s.peak, d))


def advance(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Known" and (s.boundary == g.b or not c.CONDITIONAL_ADVANCE):
        for d in old(c, g):
            if d > g.b:
                yield (d,), advanced(s, d), g._replace(b=d)


def advance_conflict(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Known" and s.boundary != g.b and c.CONDITIONAL_ADVANCE and any(d > g.b for d in old(c, g)):
        yield (), s, g._replace(pc="Listed", b=0)


def may_delete(c: Constants, g: Collector) -> list[int]:
    first = c.BOUNDARY and c.BOUNDARY_FIRST
    if not g.checked or not (g.pc == "Known" or (g.pc == "Listed" and not first)):
        return []
    return [i for i in old(c, g) if i <= g.b or not first]


def without(g: Collector, i: int) -> Collector:
    return g._replace(listed=g.listed - {i}) if len(g.listed) > 1 else Collector()


def delete(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    for i in may_delete(c, g):
        yield (i,), s._replace(files=with_file(s.files, i, None)), without(g, i)


def send_advance(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc == "Known" and below(len(s.pool), c.MAX_PENDING):
        for d in old(c, g):
            if d > g.b:
                yield (d,), pooled(s, ("Advance", g.b, d)), g._replace(pc="Listed", b=0)


def send_delete(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if below(len(s.pool), c.MAX_PENDING):
        for i in may_delete(c, g):
            yield (i,), pooled(s, ("Delete", i)), without(g, i)


def collector_lose_reply(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    """The collector no longer knows what is durable, so it reads the boundary again. It discards a partial listing."""
    if g.pc in ("Listing", "Known") and below(s.lost, c.MAX_LOST):
        after = g._replace(pc="Listed", b=0) if g.pc == "Known" else Collector()
        yield (), reply_lost(c, s), after


def collector_crash(c: Constants, me: int, s: Shared, g: Collector) -> Iterator:
    if g.pc != "Idle" and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Collector()


# --- a reader: LIST, GET the latest, GET the boundary -------------------------------------------------------------------

def reader_list_page(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc in ("Idle", "Listing", "Done"):
        ids, more = page_after(c, s, r.n if r.pc == "Listing" else 0)
        if more:
            yield (), s, r._replace(pc="Listing", n=ids[-1], must=expected(s, r), got=frozenset())


def reader_list(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc in ("Idle", "Listing", "Done"):
        cursor = r.n if r.pc == "Listing" else 0
        ids, more = page_after(c, s, cursor)
        if not more:
            yield (), s, r._replace(pc="Listed", n=max([cursor, *ids]), must=expected(s, r), got=frozenset())


def expected(s: Shared, r: Reader) -> frozenset[Update]:
    """Return what a read must show: updates reported before its first request, and those that this reader has seen."""
    return r.must if r.pc == "Listing" else r.must | r.got | {(w, k) for _, w, k in s.acked}


def reader_read_latest(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc == "Listed" and present(s, r.n):
        yield (), s, r._replace(pc="Read" if c.CHECK_READS else "Done", got=file_of(s, r.n).updates)


def reader_read_missing(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc == "Listed" and not present(s, r.n):
        yield (), s, r._replace(pc="Idle", n=0)


def read_accept(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc == "Read" and r.n > s.boundary:
        yield (), s, r._replace(pc="Done")


def read_reject(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc == "Read" and r.n <= s.boundary:
        yield (), s, r._replace(pc="Idle", n=0, got=frozenset())


def reader_lose_reply(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc not in ("Idle", "Done") and below(s.lost, c.MAX_LOST):
        yield (), reply_lost(c, s), Reader(must=r.must)


def reader_crash(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """A new reader has seen nothing, but from its next LIST on it must see everything reported as committed."""
    if r.pc != "Idle" and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Reader()


# --- the store and time ------------------------------------------------------------------------------------------------

def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A request in flight reaches the store after its client stopped waiting. Its condition is evaluated now."""
    for request, after in in_pool(s):
        kind, *args = request
        if kind == "Create" and not present(s, args[0]):
            after = created(after, args[0], File(frozenset(args[1]), frozenset(args[2])))
        elif kind == "Advance" and (s.boundary == args[0] or not c.CONDITIONAL_ADVANCE):
            after = advanced(after, args[1])
        elif kind == "Delete":
            after = after._replace(files=with_file(s.files, args[0], None))
        yield (request,), after, ()


def expire_checkpoint(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    for p in sorted(frozenset().union(*(f.checkpoints for f in s.files if f)) - s.expired):
        yield (p,), s._replace(expired=s.expired | {p}), ()


# --- properties ---------------------------------------------------------------------------------------------------------

def latest(s: Shared) -> File:
    return file_of(s, top(s.files)) if top(s.files) else NO_FILE


def commit_is_unique(c: Constants, s: Shared) -> bool:
    """No id is ever acknowledged twice."""
    numbered = frozenset(ack for ack in s.acked if ack[0])
    return len({i for i, _, _ in numbered}) == len(numbered)


def acked_is_kept(c: Constants, s: Shared) -> bool:
    """An acknowledged update is in the latest file, so in the history that later writers build on."""
    return {(w, k) for _, w, k in s.acked} <= latest(s).updates


def ack_is_checked(c: Constants, s: Shared) -> bool:
    """An id is acknowledged only if the boundary was below it at some moment after the create."""
    return not s.unchecked


def boundary_is_monotone(c: Constants, s: Shared) -> bool:
    """The boundary file never moves backward."""
    return s.boundary == s.peak


def boundary_is_below_latest(c: Constants, s: Shared) -> bool:
    """The boundary is below the latest id, so a refused file is never the latest."""
    return s.boundary < top(s.files)


def latest_is_kept(c: Constants, s: Shared) -> bool:
    """The latest file is never deleted."""
    return top(s.files) == s.high


def deleted_is_behind_boundary(c: Constants, s: Shared) -> bool:
    """Before id i is deleted the durable boundary is at least i."""
    return not c.BOUNDARY or all(present(s, i) for i in range(s.boundary + 1, s.high + 1))


def checkpointed_is_kept(c: Constants, s: Shared) -> bool:
    """A file that an active checkpoint of the latest file refers to exists, also if the checkpoint was renewed late."""
    return all(present(s, p) for p in latest(s).checkpoints - s.expired)


def read_is_current(c: Constants, s: Shared, r: Reader) -> bool:
    """A read shows every update acknowledged before it began, and all that its reader has seen before."""
    return r.pc != "Done" or r.must <= r.got


def applied_once(c: Constants, s: Shared, w: Writer) -> bool:
    """A retried update is never applied to a file that already holds it."""
    return c.ON_REFUSAL in ("told", "failed") or w.pc != "Created" or w.late or not w.base.updates


def refused_has_no_effect(c: Constants, s: Shared, w: Writer) -> bool:
    """An update reported as failed is not in the history that later writers build on."""
    return c.ON_REFUSAL != "failed" or not refusal_is_indefinite(c, s, w)


def accepted_is_own(c: Constants, s: Shared, w: Writer) -> bool:
    """A file that its writer may still accept exists and has the content that the writer put."""
    return known(c) == "never" or not may_accept(s, w) or (present(s, w.n + 1) and s.files[w.n] == w.base)


def may_accept(s: Shared, w: Writer) -> bool:
    return w.pc == "Created" and w.n + 1 > s.boundary


def two_commits(c: Constants, s: Shared) -> bool:
    """Two updates are committed."""
    return len(s.acked) >= 2


def acked_file_is_collected(c: Constants, s: Shared) -> bool:
    """The file of a committed update is deleted."""
    return any(i and not present(s, i) for i, _, _ in s.acked)


def stale_create_lands(c: Constants, s: Shared, w: Writer) -> bool:
    """A create brings back a deleted id, which create-if-absent alone does not notice."""
    return w.pc == "Created" and w.late


def boundary_advances(c: Constants, s: Shared) -> bool:
    """The boundary has advanced."""
    return s.boundary > 0


def refusal_is_indefinite(c: Constants, s: Shared, w: Writer) -> bool:
    """A write is about to be refused although the latest file holds its update already."""
    return w.pc == "Created" and w.n + 1 <= s.boundary and not w.late and top(s.files) > w.n + 1


def own_is_built_upon(c: Constants, s: Shared, w: Writer) -> bool:
    """Others have built on a file before its writer accepts it, so the writer's file is not the latest."""
    return may_accept(s, w) and s.high > w.n + 1


def update_is_recognised(c: Constants, s: Shared) -> bool:
    """A writer has recognised its update in a file, and reported it."""
    return any(i == 0 for i, _, _ in s.acked)


def applied_is_behind_boundary(c: Constants, s: Shared, w: Writer) -> bool:
    """The file with the update is behind the boundary. It may have been deleted and created again."""
    return w.pc == "Applied" and w.n <= s.boundary


def file_is_collected(c: Constants, s: Shared) -> bool:
    """A file is deleted."""
    return any(not present(s, i) for i in range(1, s.high))


def history_grows(c: Constants, s: Shared) -> bool:
    """Two files have been created after the first."""
    return s.high >= 3


def checkpoint_outlives_its_time(c: Constants, s: Shared) -> bool:
    """A file behind the boundary is kept for a checkpoint that has expired and may still be renewed."""
    return any(p <= s.boundary and present(s, p) for p in latest(s).checkpoints & s.expired)


def checkpoint_is_dropped(c: Constants, s: Shared) -> bool:
    """A checkpoint that a file has is not in the latest file."""
    return any(file.checkpoints - latest(s).checkpoints for file in s.files if file)


def checkpoint_outlives_boundary(c: Constants, s: Shared) -> bool:
    """A file behind the boundary is kept, and readable by its id, for an active checkpoint."""
    return any(p <= s.boundary and present(s, p) for p in latest(s).checkpoints - s.expired)


def reader_sees_commit(c: Constants, s: Shared, r: Reader) -> bool:
    """A read is done that had to show a committed update."""
    return r.pc == "Done" and bool(r.must)


def updates_end(c: Constants, s: Shared, w: Writer) -> bool:
    """Every writer finishes its last update: committed, refused or in doubt."""
    return not below(w.k, c.COMMITS)


def reads_end(c: Constants, s: Shared, r: Reader) -> bool:
    """A reader finishes a read again and again."""
    return r.pc == "Done"


def stale_files_are_collected(c: Constants, s: Shared) -> bool:
    """Only files that checkpoints hold remain behind the boundary."""
    return all(not present(s, i) or i in latest(s).checkpoints for i in range(1, s.boundary + 1))


WRITER = {
    "ListPage": writer_list_page, "List": writer_list, "ReadLatest": read_latest, "ReadApplied": read_applied,
    "ReadMissing": read_missing, "Precheck": precheck, "PrecheckReject": precheck_reject, "CreateNext": create_next,
    "CreateConflict": create_conflict, "Accept": accept, "Reject": reject, "Recognise": recognise,
    "RecogniseReject": recognise_reject,
    "SendCreate": send_create, "LoseReply": writer_lose_reply, "Crash": writer_crash,
}
COLLECTOR = {
    "ListPage": collector_list_page, "List": collector_list, "ReadCheckpoints": read_checkpoints,
    "CheckpointsMissing": checkpoints_missing, "CheckpointsAccept": checkpoints_accept,
    "CheckpointsReject": checkpoints_reject, "ReadBoundary": read_boundary, "Advance": advance,
    "AdvanceConflict": advance_conflict, "Delete": delete, "SendAdvance": send_advance, "SendDelete": send_delete,
    "LoseReply": collector_lose_reply, "Crash": collector_crash,
}
READER = {
    "ListPage": reader_list_page, "List": reader_list, "ReadLatest": reader_read_latest,
    "ReadMissing": reader_read_missing, "ReadAccept": read_accept, "ReadReject": read_reject,
    "LoseReply": reader_lose_reply, "Crash": reader_crash,
}
STORE = {"ApplyPending": apply_pending, "ExpireCheckpoint": expire_checkpoint}

ALWAYS = {
    "CommitIsUnique": (None, commit_is_unique),
    "AckedIsKept": (None, acked_is_kept),
    "AckIsChecked": (None, ack_is_checked),
    "BoundaryIsMonotone": (None, boundary_is_monotone),
    "BoundaryIsBelowLatest": (None, boundary_is_below_latest),
    "LatestIsKept": (None, latest_is_kept),
    "DeletedIsBehindBoundary": (None, deleted_is_behind_boundary),
    "CheckpointedIsKept": (None, checkpointed_is_kept),
    "ReadIsCurrent": ("Reader", read_is_current),
    "AppliedOnce": ("Writer", applied_once),
    "RefusedHasNoEffect": ("Writer", refused_has_no_effect),
    "AcceptedIsOwn": ("Writer", accepted_is_own),
}
SOMETIMES = {
    "TwoCommits": (None, two_commits),
    "AckedFileIsCollected": (None, acked_file_is_collected),
    "StaleCreateLands": ("Writer", stale_create_lands),
    "BoundaryAdvances": (None, boundary_advances),
    "RefusalIsIndefinite": ("Writer", refusal_is_indefinite),
    "HistoryGrows": (None, history_grows),
    "FileIsCollected": (None, file_is_collected),
    "CheckpointOutlivesBoundary": (None, checkpoint_outlives_boundary),
    "CheckpointOutlivesItsTime": (None, checkpoint_outlives_its_time),
    "CheckpointIsDropped": (None, checkpoint_is_dropped),
    "ReaderSeesCommit": ("Reader", reader_sees_commit),
    "OwnIsBuiltUpon": ("Writer", own_is_built_upon),
    "UpdateIsRecognised": (None, update_is_recognised),
    "AppliedIsBehindBoundary": ("Writer", applied_is_behind_boundary),
}
EVENTUALLY = {
    "UpdatesEnd": ("Writer", updates_end),
    "ReadsEnd": ("Reader", reads_end),
    "StaleFilesAreCollected": (None, stale_files_are_collected),  # does not hold: collectors may list anew at any time
}
RECOGNISING = ("UpdateIsRecognised", "AppliedIsBehindBoundary")  # witnessed only where that is done
FAULTS = {"SendCreate", "SendAdvance", "SendDelete", "LoseReply", "Crash"}
FAIR = {role: frozenset(actions.keys() - FAULTS)
        for role, actions in (("Writer", WRITER), ("Collector", COLLECTOR), ("Reader", READER))}


def renamed_writers(part: tuple, names: tuple[int, ...]) -> tuple:
    """A shared or a local part in which writer i is called names[i]. Collectors and readers are named nowhere."""
    def updates(those: frozenset[Update]) -> frozenset[Update]:
        return frozenset((names[w], k) for w, k in those)

    def file(one: File | None) -> File | None:
        return one and one._replace(updates=updates(one.updates))

    def request(one: tuple) -> tuple:
        return (*one[:2], tuple(sorted(updates(one[2]))), one[3]) if one[0] == "Create" else one

    match part:
        case Shared():
            return part._replace(files=tuple(map(file, part.files)), pool=tuple(sorted(map(request, part.pool))),
                                 acked=frozenset((i, names[w], k) for i, w, k in part.acked))
        case Writer():
            return part._replace(base=file(part.base))
        case Reader():
            return part._replace(must=updates(part.must), got=updates(part.got))
        case _:
            return part


def initial(c: Constants) -> Shared:
    nobody: frozenset = frozenset()
    return Shared((NO_FILE,), 0, (), nobody, 0, 0, nobody, nobody, high=1, peak=0)


def model(c: Constants) -> Model:
    roles = (("Writer", c.WRITERS, Writer(), WRITER), ("Collector", c.COLLECTORS, Collector(), COLLECTOR),
             ("Reader", c.READERS, Reader(), READER))
    sometimes = {name: witness for name, witness in SOMETIMES.items()
                 if (c.CHECKPOINTS != 0 or not name.startswith("Checkpoint"))
                 and (c.READERS or name != "ReaderSeesCommit") and (recognises(c) or name not in RECOGNISING)
                 and (known(c) != "never" or name != "OwnIsBuiltUpon")}
    renamed = {"Writer": None if c.WRITERS < 2 else renamed_writers, "Collector": None, "Reader": None}
    if 0 < c.OLD_WRITERS < c.WRITERS:
        del renamed["Writer"]  # they are of two kinds
    return Model("sequenced_metadata_boundary", c, initial(c), (*clients(*roles), store(STORE)), ALWAYS, sometimes,
                 EVENTUALLY, FAIR, renamed=renamed)


AS_SPEC = {"files": lambda files: {i: file for i, file in enumerate(files, 1) if file}}  # a variable -> as the spec writes it
