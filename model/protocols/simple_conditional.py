"""Safety: the object is the result of one serial history of updates. Each acknowledged update is in it once and was computed
from all updates before it. Each read shows a prefix of the history that includes every update acknowledged before the read.

The simple conditional protocol of the essay on object-store protocols: one object is the whole database; a writer GETs it,
applies its update and PUTs the result If-Match the version that it read; «On a conditional write failure, the conflicting
data is re-read, conflicts are resolved, and then the write is retried». After a put the writer knows content and version, and
«doesn't need an additional GET to write again», which is how it can starve another. Real time comes for free: an update is
applied between its beginning and its acknowledgement, and the order of the history is that of the puts.

CONTENT "log": the content is the list of the updates in it, and never recurs, so that digests are versions as good as unique
ones. "flag": each update turns a flag over, and the content does recur. Then a condition on a digest holds although others
have written in between (ConditionMeansUnchanged fails); the history is serial all the same (ContentIsSerial holds), as what
is put is the whole state, computed from an equal one. Versions have no numbers here: `current` is who knows the latest.

RESOLVE: what a writer does about a put whose reply it did not hear. "unknown": it never applies it again. "check": it looks
for the update in what it reads next, which needs a content that tells. "reapply": it applies it again blindly.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from highwater.model.core import Model, Process
from highwater.model.parts import MANY, below, clients, crashed, in_pool, pooled, reply_lost, store


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    WRITERS: int = 2
    UPDATES: int | None = 2  # updates that a writer begins
    READERS: int = 0
    CONTENT: str = "log"  # "flag": a content that recurs, without readers
    BUSY: int = 0  # number of writers that update forever and are not counted; finite only if CONTENT is "flag"
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in flight whose clients no longer wait
    MAX_LOST: int | None = 0  # responses lost
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property must fail
    CONDITIONAL: bool = True  # PUT If-Match; False: a plain PUT, as in the baseline
    REREAD: bool = True  # after a conflict the content is read again; False: only its version
    VERSION: str = "unique"  # "digest": equal contents have equal versions
    RESOLVE: str = "unknown"  # after a put without a response: report it as "unknown", "check" the next read, or "reapply"
    FRESH_READS: bool = True  # a reader reads the store; False: a cache that may be one write behind


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("UPDATES", "READERS", "BUSY", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"), MANY),
    "WRITERS": MANY[1:],
    "CONTENT": ("log", "flag"),
    "VERSION": ("unique", "digest"),
    "RESOLVE": ("unknown", "check", "reapply"),
}

Update = tuple[int, int]  # (writer, zero-based index of its update)
Content = Any  # tuple[Update, ...], a log, or int, a flag
Request = tuple[Update, Content, Content, bool]  # (update, content put, content named by the condition, is that the latest)


class Shared(NamedTuple):
    content: Content  # the object's content
    old: Content  # the previous content, if reads may show it
    current: frozenset[int]  # writers that know the latest version
    pool: tuple[Request, ...]  # PUTs in flight whose clients no longer wait, sorted
    lost: int  # faults so far
    crashes: int
    # ghosts
    history: Content  # the result of the updates so far, each applied to the result of those before it
    applied: frozenset[Update]  # updates that were applied
    twice: frozenset[Update]  # applied more than once
    acked: frozenset[Update]  # reported as committed
    blind: bool  # a put was applied although others had written after its writer's read


class Writer(NamedTuple):
    pc: str = "Idle"  # Idle, Known, Ready, Stale, Written
    base: Content = ()  # the content that its update is applied to; once Written, the content put
    seen: Content = ()  # the content whose version it knows
    k: int = 0  # zero-based index of its current update
    doubt: tuple[Content, ...] = ()  # the content last put for this update without a response


class Reader(NamedTuple):
    got: Content = ()
    must: frozenset[Update] = frozenset()  # ghost: updates reported, or seen by this reader, before its read


def empty(c: Constants) -> Content:
    return () if c.CONTENT == "log" else 0


def extended(c: Constants, base: Content, update: Update) -> Content:
    return (*base, update) if c.CONTENT == "log" else 1 - base


def more(c: Constants, me: int, k: int) -> bool:
    """Tell whether the writer has an update left."""
    return me < c.BUSY or below(k, c.UPDATES)


def found(c: Constants, me: int, w: Writer) -> bool:
    """Tell whether a writer in doubt takes the content read as proof that its update was applied."""
    return c.RESOLVE == "check" and bool(w.doubt) and (
        (me, w.k) in w.base if c.CONTENT == "log" else w.base == w.doubt[0])


def may_put(c: Constants, me: int, w: Writer) -> bool:
    return w.pc in ("Known", "Ready") and more(c, me, w.k) and not found(c, me, w)


def holds(c: Constants, s: Shared, seen: Content, current: bool) -> bool:
    """The condition of a PUT."""
    return not c.CONDITIONAL or (current if c.VERSION == "unique" else seen == s.content)


def applied(c: Constants, s: Shared, update: Update, body: Content, current: bool) -> Shared:
    """The store has a new version, which no client knows."""
    counted = frozenset() if update[0] < c.BUSY else frozenset({update})
    return s._replace(
        content=body, old=s.old if c.FRESH_READS else s.content, current=frozenset(),
        pool=tuple(sorted((*request[:3], False) for request in s.pool)), history=extended(c, s.history, update),
        applied=s.applied | counted, twice=s.twice | (counted & s.applied), blind=s.blind or not current)


def knows(s: Shared, me: int) -> Shared:
    return s._replace(current=s.current | {me})


def forgets(s: Shared, me: int) -> Shared:
    return s._replace(current=s.current - {me})


def idle(c: Constants, k: int, doubt: tuple[Content, ...] = ()) -> Writer:
    return Writer(base=empty(c), seen=empty(c), k=k, doubt=doubt)


def after(c: Constants, me: int, k: int) -> int:
    return k if me < c.BUSY else k + 1


# --- a writer: GET, PUT If-Match, and after a conflict again ------------------------------------------------------------

def read(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if w.pc in ("Idle", "Known") and more(c, me, w.k):
        yield (), knows(s, me), w._replace(pc="Ready", base=s.content, seen=s.content)


def put_ok(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if may_put(c, me, w) and holds(c, s, w.seen, me in s.current):
        body = extended(c, w.base, (me, w.k))
        yield (), knows(applied(c, s, (me, w.k), body, me in s.current), me), w._replace(pc="Written", base=body, seen=body)


def put_conflict(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    if may_put(c, me, w) and not holds(c, s, w.seen, me in s.current):
        yield (), forgets(s, me), idle(c, w.k, w.doubt) if c.REREAD else w._replace(pc="Stale", seen=empty(c))


def head(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """Only without a second read: learn the new version, but keep the old content."""
    if w.pc == "Stale":
        yield (), knows(s, me), w._replace(pc="Ready", seen=s.content)


def reported(c: Constants, me: int, s: Shared, w: Writer) -> tuple[Shared, Writer]:
    """Acknowledge the update. The writer already knows content and version for the next one."""
    s = s if me < c.BUSY else s._replace(acked=s.acked | {(me, w.k)})
    k = after(c, me, w.k)
    return (s, w._replace(pc="Known", k=k, doubt=())) if more(c, me, k) else (forgets(s, me), idle(c, k))


def acknowledge(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The response arrives, and the writer reports the update as committed."""
    if w.pc == "Written":
        yield ((), *reported(c, me, s, w))


def recognise(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The content read holds the update in doubt, so it is committed."""
    if w.pc == "Ready" and found(c, me, w):
        yield ((), *reported(c, me, s, w))


def unheard(c: Constants, me: int, w: Writer, body: Content) -> Writer:
    return idle(c, after(c, me, w.k)) if c.RESOLVE == "unknown" else idle(c, w.k, (body,))


def send_put(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer stops waiting for a PUT in flight. It may be applied at any later time, or never."""
    if may_put(c, me, w) and below(len(s.pool), c.MAX_PENDING):
        body = extended(c, w.base, (me, w.k))
        request = ((me, w.k), body, w.seen, me in s.current)
        yield (), forgets(pooled(s, request), me), unheard(c, me, w, body)


def lose_reply(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The response to an applied PUT or to a read is lost. A read is sent again. Other losses have no effect."""
    if w.pc in ("Ready", "Written") and below(s.lost, c.MAX_LOST):
        then = idle(c, w.k, w.doubt) if w.pc == "Ready" else unheard(c, me, w, w.base)
        yield (), forgets(reply_lost(c, s), me), then


def crash(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The outcome of its current update is indeterminate."""
    if (w.pc != "Idle" or w.doubt) and below(s.crashes, c.MAX_CRASHES):
        k = w.k if w.pc == "Known" else after(c, me, w.k)
        yield (), forgets(crashed(c, s), me), idle(c, k)


# --- a reader: GET ------------------------------------------------------------------------------------------------------

def shown(s: Shared, r: Reader, content: Content) -> Reader:
    return Reader(content, s.acked | r.must | frozenset(r.got))


def reader_read(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    yield (), s, shown(s, r, s.content)


def stale_read(c: Constants, me: int, s: Shared, r: Reader) -> Iterator:
    """Only if reads are not fresh: return the previous content."""
    if not c.FRESH_READS:
        yield (), s, shown(s, r, s.old)


def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A PUT in flight reaches the store after its client stopped waiting. Its condition is evaluated now."""
    for request, rest in in_pool(s):
        update, body, seen, current = request
        yield (request,), applied(c, rest, update, body, current) if holds(c, s, seen, current) else rest, ()


# --- properties ---------------------------------------------------------------------------------------------------------

def content_is_serial(c: Constants, s: Shared) -> bool:
    """The content is the result of all applied updates, one after the other. None is lost, and each saw those before it."""
    return s.content == s.history


def update_is_applied_once(c: Constants, s: Shared) -> bool:
    """No update is applied twice."""
    return not s.twice


def acked_is_kept(c: Constants, s: Shared) -> bool:
    """An acknowledged update is in the content. With a flag, which shows no updates, it was applied."""
    return s.acked <= (frozenset(s.content) if c.CONTENT == "log" else s.applied)


def condition_means_unchanged(c: Constants, s: Shared) -> bool:
    """When a put is applied, nobody has written since its writer's read."""
    return not s.blind


def read_is_current(c: Constants, s: Shared, r: Reader) -> bool:
    """A read shows a prefix of the history, with all updates acknowledged before it or seen by its reader."""
    return c.CONTENT != "log" or (r.must <= frozenset(r.got) and r.got == s.history[:len(r.got)])


def all_are_acked(c: Constants, s: Shared) -> bool:
    return len(s.acked) == (c.WRITERS - c.BUSY) * (c.UPDATES or 1)


def unacked_is_applied(c: Constants, s: Shared) -> bool:
    return not s.applied <= s.acked


def writer_is_overtaken(c: Constants, s: Shared, w: Writer) -> bool:
    """A writer is about to put a result computed from an outdated content. Its condition must fail."""
    return w.pc in ("Known", "Ready") and w.seen != s.content


def writer_needs_no_read(c: Constants, s: Shared, w: Writer) -> bool:
    """A writer begins its next update while its put is still the latest."""
    return w.pc == "Known" and w.seen == s.content


def content_recurs(c: Constants, s: Shared) -> bool:
    return c.CONTENT == "flag" and bool(s.applied) and s.content == empty(c)


def reader_sees_acked(c: Constants, s: Shared, r: Reader) -> bool:
    return bool(r.must)


def updates_end(c: Constants, s: Shared, w: Writer) -> bool:
    """Every writer finishes its last update: committed or in doubt."""
    return not below(w.k, c.UPDATES)


WRITER = {
    "Read": read, "PutOk": put_ok, "PutConflict": put_conflict, "Head": head, "Acknowledge": acknowledge,
    "Recognise": recognise, "SendPut": send_put, "LoseReply": lose_reply, "Crash": crash,
}
READER = {"Read": reader_read, "StaleRead": stale_read}
STORE = {"ApplyPending": apply_pending}

ALWAYS = {
    "ContentIsSerial": (None, content_is_serial),
    "UpdateIsAppliedOnce": (None, update_is_applied_once),
    "AckedIsKept": (None, acked_is_kept),
    "ConditionMeansUnchanged": (None, condition_means_unchanged),
    "ReadIsCurrent": ("Reader", read_is_current),
}
SOMETIMES = {
    "AllAreAcked": (None, all_are_acked),
    "UnackedIsApplied": (None, unacked_is_applied),
    "WriterIsOvertaken": ("Writer", writer_is_overtaken),
    "WriterNeedsNoRead": ("Writer", writer_needs_no_read),
    "ContentRecurs": (None, content_recurs),
    "ReaderSeesAcked": ("Reader", reader_sees_acked),
}
EVENTUALLY = {"UpdatesEnd": ("Writer", updates_end)}
FAULTS = {"SendPut", "LoseReply", "Crash", "StaleRead"}
FAIR = {role: frozenset(actions.keys() - FAULTS) for role, actions in (("Writer", WRITER), ("Reader", READER))}


def renamed_writers(part: tuple, names: tuple[int, ...]) -> tuple:
    """A shared or a local part in which writer i is called names[i]. Readers are named nowhere."""
    def called(update: Update) -> Update:
        return names[update[0]], update[1]

    def all_called(updates: frozenset[Update]) -> frozenset[Update]:
        return frozenset(map(called, updates))

    def content(one: Content) -> Content:
        return tuple(map(called, one)) if isinstance(one, tuple) else one

    match part:
        case Shared():
            pool = sorted((called(update), content(body), content(seen), current) for update, body, seen, current in part.pool)
            return part._replace(
                content=content(part.content), old=content(part.old), history=content(part.history), pool=tuple(pool),
                current=frozenset(names[w] for w in part.current), applied=all_called(part.applied),
                twice=all_called(part.twice), acked=all_called(part.acked))
        case Writer():
            return part._replace(base=content(part.base), seen=content(part.seen), doubt=tuple(map(content, part.doubt)))
        case Reader():
            return Reader(content(part.got), all_called(part.must))
        case _:
            return part


def model(c: Constants) -> Model:
    """Raises ValueError for what would have no end, or nothing to read."""
    if c.BUSY if c.CONTENT == "log" else c.READERS:
        raise ValueError("readers need CONTENT \"log\", and BUSY writers need CONTENT \"flag\"")
    nobody: frozenset = frozenset()
    writers = [Process(f"Writer#{i}", "Writer", i, idle(c, (c.UPDATES or 0) if i < c.BUSY else 0), WRITER)
               for i in range(c.WRITERS)]
    readers = clients(("Reader", c.READERS, Reader(empty(c)), READER))
    sometimes = {name: (role, holds) for name, (role, holds) in SOMETIMES.items()
                 if (c.READERS or role != "Reader") and (c.CONTENT == "flag" or name != "ContentRecurs")}
    renamed = {"Writer": renamed_writers, "Reader": None}
    if 0 < c.BUSY < c.WRITERS:
        del renamed["Writer"]  # they are of two kinds
    shared = Shared(empty(c), empty(c), nobody, (), 0, 0, empty(c), nobody, nobody, nobody, blind=False)
    return Model("simple_conditional", c, shared, (*writers, *readers, store(STORE)), ALWAYS, sometimes, EVENTUALLY, FAIR,
                 renamed=renamed)
