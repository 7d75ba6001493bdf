"""Safety: there is one history. Each update reported as committed is in it once, at the place of its id. A file never
changes, so an old file is a checkpoint. Every reader sees a prefix of the history.

The sequenced write protocol of the essay on object-store protocols, with one store request per action, in both its uses: a
file is the full state, or one entry of a log. specs/SequencedWrite.fizz has the same names, states and labelled edges. A
file's content is the updates (w, k) that it holds, in their order: all so far (state), or one (log). Nothing is collected
here; model/protocols/sequenced_metadata_boundary.py does that. Stalls need no action: a client that is not scheduled is
stalled.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, all_but, below, clients, crashed, in_pool, pooled, reply_lost, store


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    USE: str = "state"  # a file is the full "state", or an entry of a "log", whose state is all files in order
    WRITERS: int = 2
    COMMITS: int | None = 2  # updates that a writer begins
    READERS: int = 0
    ENDLESS: int = 0  # not 0: endless updates without ids or content; a writer is at most this many ids behind; for liveness
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in flight whose clients no longer wait
    MAX_LOST: int | None = 0  # responses lost
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property must fail
    CREATE_IF_ABSENT: bool = True  # False: a plain PUT, which overwrites
    RESOLVE: str = "get"  # state: after a conflict "get" the file, or "list" again; "off": put the old content at the next id
    GAPS: bool = False  # True: a writer may skip an id
    UNKNOWN: str = "report"  # an indeterminate outcome: "report" it; "recognise" it by the same PUT, then GET; "reapply":
    #                          begin the update again; "alike": recognise it although all writers' updates have equal bytes
    IN_ORDER: bool = True  # log: a reader takes the files in the order of their ids


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("COMMITS", "READERS", "ENDLESS", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"), MANY),
    "WRITERS": MANY[1:],
    "USE": ("state", "log"),
    "RESOLVE": ("get", "list", "off"),
    "UNKNOWN": ("report", "recognise", "reapply", "alike"),
}

Update = tuple[int, int]  # (writer, zero-based index of its update)
File = tuple[Update, ...]  # (): no file has this id


class Shared(NamedTuple):
    files: tuple[File, ...]  # files[i - 1] is the file of id i
    pool: tuple[tuple, ...]  # requests in flight whose clients no longer wait, sorted
    lost: int  # faults so far
    crashes: int
    behind: tuple[int, ...]  # if ENDLESS: the number of ids by which each writer is behind
    # ghosts
    acked: frozenset[tuple[int, int, int]]  # (id, writer, update) reported as committed
    first: tuple[File, ...]  # what was first written under each id


class Writer(NamedTuple):
    pc: str = "Idle"  # Idle, Listed, Ready, Doubt, Refused
    n: int = 0  # the latest id that it knows
    base: File = ()  # state: the content of file n
    k: int = 0  # zero-based index of its current update


class Reader(NamedTuple):
    pc: str = "Idle"  # Idle, Listed, Reading, Done
    n: int = 0  # state: the latest id that it listed
    must: frozenset[Update] = frozenset()  # ghost: reported as committed, or seen by this reader, before this read began
    got: File = ()  # the history read


def following(c: Constants, n: int) -> int:
    """The id after n."""
    return 1 if c.ENDLESS else n + 1


def present(s: Shared, n: int) -> bool:
    """Tell whether a file has the id after n."""
    return n < len(s.files) and s.files[n] != ()


def taken(c: Constants, me: int, s: Shared, w: Writer) -> bool:
    """Tell whether the writer's next file exists already."""
    return s.behind[me] > 0 if c.ENDLESS else present(s, w.n)


def caught_up(c: Constants, me: int, s: Shared, by: int) -> Shared:
    """In a liveness run: bring the writer closer to the latest id, by at most so many ids as it learns of."""
    if not c.ENDLESS:
        return s
    return s._replace(behind=tuple(max(0, n - by) if i == me else n for i, n in enumerate(s.behind)))


def put(c: Constants, me: int, s: Shared, i: int, file: File) -> Shared:
    if c.ENDLESS:
        behind = tuple(0 if i == me else min(n + 1, c.ENDLESS) for i, n in enumerate(s.behind))
        return s._replace(files=((),), behind=behind)
    files, first = (those + ((),) * (i - len(those)) for those in (s.files, s.first))
    return s._replace(files=(*files[:i - 1], file, *files[i:]), first=(*first[:i - 1], first[i - 1] or file, *first[i:]))


# --- a writer: LIST, (state) GET the latest, PUT the next if absent -----------------------------------------------------

def begin(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The caller begins another update."""
    if c.ENDLESS and w.k == c.COMMITS:
        yield (), s, w._replace(k=0)


def writer_list(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Idle" and below(w.k, c.COMMITS):
        pc = "Listed" if c.USE == "state" and s.files else "Ready"
        yield (), caught_up(c, me, s, c.ENDLESS), w._replace(pc=pc, n=len(s.files))


def writer_read_latest(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc == "Listed":
        yield (), s, w._replace(pc="Ready", base=() if c.ENDLESS else s.files[w.n - 1])


def skip(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if c.GAPS and w.pc == "Ready" and w.n == len(s.files):
        yield (), s, w._replace(n=w.n + 1)


def content(c: Constants, me: int, w: Writer) -> File:
    """The file that the writer puts next."""
    return () if c.ENDLESS else (*w.base, (me, w.k))


def committed(c: Constants, me: int, s: Shared, w: Writer) -> tuple[Shared, Writer]:
    """Report the update. The writer knows that its own file is the latest, and continues from it without a request."""
    acked = s.acked if c.ENDLESS else s.acked | {(w.n + 1, me, w.k)}
    base = content(c, me, w) if c.USE == "state" else ()
    more = below(w.k + 1, c.COMMITS)
    return s._replace(acked=acked), Writer("Ready", following(c, w.n), base, w.k + 1) if more else Writer(k=w.k + 1)


def create_next(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc in ("Ready", "Doubt") and not (taken(c, me, s, w) and c.CREATE_IF_ABSENT):
        yield (), *committed(c, me, put(c, me, s, following(c, w.n), content(c, me, w)), w)


def create_conflict(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """Log: try the next id, without a read. If the file may be the writer's own, this is not yet a conflict."""
    if w.pc in ("Ready", "Doubt") and taken(c, me, s, w) and c.CREATE_IF_ABSENT:
        if w.pc == "Doubt":
            yield (), s, w._replace(pc="Refused")
        elif c.USE == "log" or c.RESOLVE == "off":
            yield (), caught_up(c, me, s, 1), w._replace(n=following(c, w.n))
        elif c.RESOLVE == "get":
            yield (), caught_up(c, me, s, 1), Writer("Listed", following(c, w.n), k=w.k)
        else:
            yield (), s, Writer(k=w.k)


def read_own(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """GET the file in the way: it is the writer's own, so the update is committed."""
    if w.pc == "Refused" and (c.UNKNOWN == "alike" or s.files[w.n][-1] == (me, w.k)):
        yield (), *committed(c, me, s, w)


def read_other(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """GET the file in the way: it is another writer's, so the own PUT of this id can never be applied."""
    if w.pc == "Refused" and c.UNKNOWN != "alike" and s.files[w.n][-1] != (me, w.k):
        yield (), s, Writer("Ready", w.n + 1, s.files[w.n] if c.USE == "state" else (), w.k)


def in_doubt(c: Constants, w: Writer) -> Writer:
    return w._replace(pc="Doubt") if c.UNKNOWN in ("recognise", "alike") else Writer(k=w.k + (c.UNKNOWN == "report"))


def send_create(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer stops waiting for a PUT in flight. It may be applied at any later time, or never."""
    if w.pc in ("Ready", "Doubt") and below(len(s.pool), c.MAX_PENDING):
        request = ("Create", w.n + 1, content(c, me, w))
        yield (), pooled(s, request), in_doubt(c, w)


def lose_reply(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The PUT is applied or refused, and the response is lost."""
    if w.pc in ("Ready", "Doubt") and below(s.lost, c.MAX_LOST):
        refused = taken(c, me, s, w) and c.CREATE_IF_ABSENT
        after = s if refused else put(c, me, s, following(c, w.n), content(c, me, w))
        yield (), reply_lost(c, after), in_doubt(c, w)


def crash(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc != "Idle" and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Writer(k=w.k + 1)


# --- a reader: LIST and GET the latest (state), or GET the next until there is none (log) -------------------------------

def expected(s: Shared, r: Reader) -> frozenset[Update]:
    """Return what a read must show: updates reported before its first request, and those that this reader has seen."""
    return r.must | frozenset(r.got) | {(w, k) for _, w, k in s.acked}


def reader_list(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if c.USE == "state" and r.pc in ("Idle", "Done"):
        yield (), s, Reader("Listed" if s.files else "Done", len(s.files), expected(s, r))


def reader_read_latest(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if r.pc == "Listed":
        yield (), s, r._replace(pc="Done", got=s.files[r.n - 1])


def unread(c: Constants, s: Shared, r: Reader) -> list[int]:
    """The ids whose files a reader of the log may get now."""
    if c.IN_ORDER:
        return [len(r.got) + 1] if len(r.got) < len(s.files) and s.files[len(r.got)] else []
    return [i for i, file in enumerate(s.files, 1) if file and file[0] not in r.got]


def read_next(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if c.USE == "log":
        for i in unread(c, s, r):
            must = r.must if r.pc == "Reading" else expected(s, r)
            yield (i,), s, Reader("Reading", 0, must, (*r.got, *s.files[i - 1]))


def read_end(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    if c.USE == "log" and not unread(c, s, r):
        yield (), s, r._replace(pc="Done", must=r.must if r.pc == "Reading" else expected(s, r))


# --- the store ----------------------------------------------------------------------------------------------------------

def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A request in flight reaches the store after its client stopped waiting. Its condition is evaluated now."""
    for request, after in in_pool(s):
        _, i, file = request
        refused = present(s, i - 1) and c.CREATE_IF_ABSENT
        yield (request,), after if refused else put(c, me, after, i, file), ()


# --- properties ---------------------------------------------------------------------------------------------------------

def history(c: Constants, s: Shared) -> tuple:
    """All updates in their order. In a log, () stands for an id without a file."""
    return s.files[-1] if c.USE == "state" and s.files else tuple(file[0] if file else () for file in s.files)


def commit_is_unique(c: Constants, s: Shared) -> bool:
    """No id is ever acknowledged twice."""
    return len({i for i, _, _ in s.acked}) == len(s.acked)


def old_file_is_kept(c: Constants, s: Shared) -> bool:
    """A file never changes after its id was first written. So an old file is a checkpoint, if it is left in place."""
    return c.ENDLESS > 0 or s.files == s.first


def acked_is_kept(c: Constants, s: Shared) -> bool:
    """An acknowledged update is in the history, at the place that its id says."""
    return all(i <= len(history(c, s)) and history(c, s)[i - 1] == (w, k) for i, w, k in s.acked)


def update_is_once(c: Constants, s: Shared) -> bool:
    """No update is in the history twice."""
    updates = [update for update in history(c, s) if update]
    return len(set(updates)) == len(updates)


def read_is_a_prefix(c: Constants, s: Shared, r: Reader) -> bool:
    """Every reader sees a prefix of the history."""
    return history(c, s)[:len(r.got)] == r.got


def read_is_current(c: Constants, s: Shared, r: Reader) -> bool:
    """A read shows every update acknowledged before it began, and all that its reader has seen before."""
    return r.pc != "Done" or r.must <= set(r.got)


def two_commits(c: Constants, s: Shared) -> bool:
    return len(s.acked) >= 2


def history_grows(c: Constants, s: Shared) -> bool:
    return len(s.files) >= 3


def both_commit(c: Constants, s: Shared) -> bool:
    return len({w for _, w, _ in s.acked}) >= 2


def stale_create_is_refused(c: Constants, s: Shared, w: Writer) -> bool:
    return w.pc == "Ready" and present(s, w.n)


def doubtful_update_lands(c: Constants, s: Shared) -> bool:
    """The history holds an update that was not reported, and perhaps never will be."""
    return {u for u in history(c, s) if u} > {(w, k) for _, w, k in s.acked}


def old_file_is_read(c: Constants, s: Shared, r: Reader) -> bool:
    """A reader holds an outdated history, whose file still exists."""
    return r.pc == "Done" and 0 < len(r.got) < len(history(c, s))


def reader_sees_commit(c: Constants, s: Shared, r: Reader) -> bool:
    return r.pc == "Done" and bool(r.must)


def updates_end(c: Constants, s: Shared, w: Writer) -> bool:
    """Every writer finishes its updates again and again: committed or in doubt."""
    return not below(w.k, c.COMMITS)


WRITER = {
    "Begin": begin, "List": writer_list, "ReadLatest": writer_read_latest, "Skip": skip, "CreateNext": create_next,
    "CreateConflict": create_conflict, "ReadOwn": read_own, "ReadOther": read_other,
    "SendCreate": send_create, "LoseReply": lose_reply, "Crash": crash,
}
READER = {"List": reader_list, "ReadLatest": reader_read_latest, "ReadNext": read_next, "ReadEnd": read_end}
STORE = {"ApplyPending": apply_pending}

ALWAYS = {
    "CommitIsUnique": (None, commit_is_unique),
    "OldFileIsKept": (None, old_file_is_kept),
    "AckedIsKept": (None, acked_is_kept),
    "UpdateIsOnce": (None, update_is_once),
    "ReadIsAPrefix": ("Reader", read_is_a_prefix),
    "ReadIsCurrent": ("Reader", read_is_current),
}
SOMETIMES = {
    "TwoCommits": (None, two_commits),
    "HistoryGrows": (None, history_grows),
    "BothCommit": (None, both_commit),
    "StaleCreateIsRefused": ("Writer", stale_create_is_refused),
    "DoubtfulUpdateLands": (None, doubtful_update_lands),
    "OldFileIsRead": ("Reader", old_file_is_read),
    "ReaderSeesCommit": ("Reader", reader_sees_commit),
}
EVENTUALLY = {"UpdatesEnd": ("Writer", updates_end)}
FAULTS = {"Begin", "Skip", "SendCreate", "LoseReply", "Crash"}  # never obligatory, so not fair
FAIR = {role: frozenset(actions.keys() - FAULTS) for role, actions in (("Writer", WRITER), ("Reader", READER))}


def renamed_writers(part: tuple, names: tuple[int, ...]) -> tuple:
    """Rename the writers in a shared or a local part: writer i becomes names[i]. No part names a reader."""
    def file(one: Iterable[Update]) -> File:
        return tuple((names[w], k) for w, k in one)

    match part:
        case Shared():
            return part._replace(
                behind=tuple(part.behind[names.index(i)] for i in range(len(part.behind))),
                files=tuple(map(file, part.files)), first=tuple(map(file, part.first)),
                pool=tuple(sorted((kind, i, file(content)) for kind, i, content in part.pool)),
                acked=frozenset((i, names[w], k) for i, w, k in part.acked))
        case Writer():
            return part._replace(base=file(part.base))
        case Reader():
            return part._replace(must=frozenset(file(sorted(part.must))), got=file(part.got))
        case _:
            return part


def initial(c: Constants) -> Shared:
    return Shared((), (), 0, 0, (0,) * c.WRITERS if c.ENDLESS else (), frozenset(), ())


def model(c: Constants) -> Model:
    roles = (("Writer", c.WRITERS, Writer(), WRITER), ("Reader", c.READERS, Reader(), READER))
    absent = {"OldFileIsRead", "ReaderSeesCommit"} if not c.READERS else set()
    absent |= {"DoubtfulUpdateLands"} if c.MAX_PENDING == c.MAX_LOST == 0 else set()
    absent |= {"BothCommit", "StaleCreateIsRefused"} if c.WRITERS < 2 else set()
    renamed = {"Writer": None if c.WRITERS < 2 else renamed_writers, "Reader": None}
    return Model("sequenced_write", c, initial(c), (*clients(*roles), store(STORE)), ALWAYS, all_but(SOMETIMES, absent),
                 EVENTUALLY, FAIR, renamed=renamed)
