"""Safety: what a server shows is the replay of its log, whatever it has restored it from. No acknowledged entry is lost, and
what was reported as failed is not applied.

One server keeps a log, applies it to a database, and cuts the log once a snapshot of the database is in a file: the storage of
a replicated metadata index (Pyroscope's), without the replication, which model/protocols/raft.py has.
specs/LogSnapshot.fizz has the same names, states and labelled edges.

The database need not be durable: a crash of the machine may lose all of it, and a crash of the process nothing. An entry is on
the disk once its sync has returned; at a crash the file keeps of the later ones any number. A snapshot is written under another
name. Its file is whole once it is synced and read back. A snapshot whose file failed in between, or was not synced at a crash,
is torn.

One sync may cover several entries, and the server makes a snapshot while it writes the log. A write or a sync may fail, or
return too late. Then nobody knows which of its entries are in the file, and they may get there later.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater.model.core import Model, Property
from highwater.model.parts import MANY, all_but, below, clients, one_more, store


class Constants(NamedTuple):
    """Names and values as in the .fizz. None for a bound means unbounded and not counted (refinement uses that)."""

    APPENDS: int | None = 2  # entries that are sent to the server
    SNAPSHOTS: int | None = 1
    BATCH: int | None = 1  # entries that one sync covers
    # Faults, each bounded
    MAX_FAILED: int | None = 0  # writes and syncs, of the log and of snapshots
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property must fail
    APPLIED_IN_TX: bool = True  # an entry and the number of applied entries are one transaction; False: two
    VERIFY: bool = True  # a snapshot takes its name once its file is synced and read back; False: once it is written
    FATAL_IO: bool = True  # a write that failed, or is late, ends the server; False: it tells its caller, and goes on


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("APPENDS", "SNAPSHOTS", "MAX_FAILED", "MAX_CRASHES"), MANY), "BATCH": MANY[1:]}

Entry = int  # numbered as they are sent, from 1 on
Log = tuple[Entry, ...]


class Snapshot(NamedTuple):
    state: str = "None"  # None, Written, Torn, Whole
    upto: int = 0  # the number of entries that are applied in it
    rows: Log = ()  # the database


class Shared(NamedTuple):
    base: int  # the number of entries that are cut from the log
    log: Log  # the entries after those, as they are in the file
    synced: int  # how many entries, in all, are surely on the disk
    late: tuple[int, Log] | tuple[()]  # a write that may still get into the file: its place, and its entries
    snapshot: Snapshot  # under its name
    temp: Snapshot  # under another name
    rows: Log  # the database: the entries that were applied
    index: int  # the number of applied entries that it says
    failed: int  # faults so far
    crashes: int
    # ghosts
    committed: Log  # what is decided
    acked: frozenset[Entry]
    refused: frozenset[Entry]  # reported as failed


class Server(NamedTuple):
    pc: str = "Up"  # Up, Writing, Half, Down
    sent: int = 0  # entries so far
    last: int = 0  # the number of entries that it knows to be in the log
    made: int = 0  # snapshots so far


# --- what is known

def entry_at(s: Shared, place: int) -> Entry:
    return s.log[place - s.base - 1]


def with_entries(s: Shared, place: int, entries: Log) -> Shared:
    """Write entries to the log, from a place on."""
    at = place - s.base - 1
    return s._replace(log=(*s.log[:at], *entries, *s.log[at + len(entries):]))


def under_way(s: Shared, w: "Server") -> Log:
    """Return the latest entries that were sent, of which no sync has returned."""
    return tuple(range(w.sent - (w.last - s.synced) + 1, w.sent + 1))


def is_up(w: "Server") -> bool:
    return w.pc in ("Up", "Writing")


def fault(c: Constants, s: Shared) -> Shared:
    return s._replace(failed=one_more(s.failed, c.MAX_FAILED))


def cut_short(s: Shared) -> Iterator[tuple[int, Shared]]:
    """Yield how many entries of the log a crash keeps, and the disk then: what is not synced may be lost."""
    for n in range(s.synced, s.base + len(s.log) + 1):
        yield n, s._replace(log=s.log[:n - s.base], synced=n, temp=Snapshot())


# --- the log

def append(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """The server writes the next entry to the log."""
    if is_up(w) and below(w.sent, c.APPENDS) and below(w.last - s.synced, c.BATCH):
        entry, place = w.sent + 1, w.last + 1
        yield (), with_entries(s, place, (entry,)), w._replace(pc="Writing", sent=entry, last=place)


def sync(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """The sync returns, and the server acknowledges the entries that it covered."""
    if w.pc == "Writing":
        those = under_way(s, w)
        yield (), s._replace(synced=w.last, committed=s.committed + those, acked=s.acked.union(those)), w._replace(pc="Up")


def fail_sync(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """The write or the sync fails, or does not return in time."""
    if w.pc == "Writing" and below(s.failed, c.MAX_FAILED):
        after = fault(c, s)
        if c.FATAL_IO:
            for n, disk in cut_short(after):
                yield (n,), disk, w._replace(pc="Down")
        else:
            those = under_way(s, w)
            after = after._replace(log=s.log[:s.synced - s.base], late=(s.synced + 1, those), refused=s.refused.union(those))
            yield (s.synced,), after, w._replace(pc="Up", last=s.synced)


def late_write(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A write that was given up gets into the file."""
    if s.late and s.base < s.late[0] <= s.base + len(s.log) + 1:
        yield (), with_entries(s, *s.late)._replace(late=()), ()


def apply(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """The server applies the next entry of its log."""
    if w.pc == "Up" and c.APPLIED_IN_TX and s.index < w.last:
        yield (), s._replace(rows=(*s.rows, entry_at(s, s.index + 1)), index=s.index + 1), w


def apply_rows(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """Only where this is a transaction of its own."""
    if w.pc == "Up" and not c.APPLIED_IN_TX and s.index < w.last:
        yield (), s._replace(rows=(*s.rows, entry_at(s, s.index + 1))), w._replace(pc="Half")


def apply_index(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    if w.pc == "Half":
        yield (), s._replace(index=s.index + 1), w._replace(pc="Up")


# --- snapshots

def begin_snapshot(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """The server writes its database to a file of another name."""
    if is_up(w) and s.temp.state == "None" and s.index > s.snapshot.upto and below(w.made, c.SNAPSHOTS):
        made = one_more(w.made, c.SNAPSHOTS)
        yield (), s._replace(temp=Snapshot("Written", s.index, s.rows)), w._replace(made=made)


def fail_sink(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """The file of a snapshot fails."""
    if s.temp.state == "Written" and below(s.failed, c.MAX_FAILED):
        yield (), fault(c, s._replace(temp=s.temp._replace(state="Torn"))), ()


def finish_snapshot(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """The snapshot takes its name."""
    if is_up(w) and (s.temp.state == "Written" if c.VERIFY else s.temp.state in ("Written", "Torn")):
        named = s.temp._replace(state="Whole") if c.VERIFY else s.temp
        yield (), s._replace(snapshot=named, temp=Snapshot()), w


def discard_snapshot(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """The file does not read back."""
    if is_up(w) and c.VERIFY and s.temp.state == "Torn":
        yield (), s._replace(temp=Snapshot()), w


def cut_log(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """The server cuts from its log what the snapshot has."""
    if w.pc == "Up":
        for n in range(s.base + 1, s.snapshot.upto + 1):
            yield (n,), s._replace(base=n, log=s.log[n - s.base:]), w


# --- crashes

def crash(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """The process ends, or the machine: then the database is lost, and a file that was not synced is torn. The machine may also
    crash when the process has ended."""
    if below(s.crashes, c.MAX_CRASHES):
        for n, disk in cut_short(s._replace(crashes=one_more(s.crashes, c.MAX_CRASHES))):
            down = w._replace(pc="Down")
            yield (n, False), disk, down
            torn = s.snapshot._replace(state="Torn") if s.snapshot.state == "Written" else s.snapshot
            yield (n, True), disk._replace(rows=(), index=0, snapshot=torn), down


def restart(c: Constants, me: int, s: Shared, w: Server) -> Iterator:
    """The server starts with its database, or restores the snapshot if that has more. What is in the log is decided."""
    if w.pc == "Down":
        last = s.base + len(s.log)
        after = s._replace(committed=s.committed + s.log[len(s.committed) - s.base:], synced=last)
        if s.index < s.snapshot.upto:
            after = after._replace(rows=() if s.snapshot.state == "Torn" else s.snapshot.rows, index=s.snapshot.upto)
        yield (), after, w._replace(pc="Up", last=last)


# --- properties ---------------------------------------------------------------------------------------------------------

def state_is_replay(c: Constants, s: Shared, w: Server) -> bool:
    """A server that is up has applied the entries of its log up to its index, each once."""
    return w.pc not in ("Up", "Writing") or s.rows == s.committed[:s.index]


def acked_is_kept(c: Constants, s: Shared) -> bool:
    """An acknowledged entry is on the disk: in the log, or in a snapshot that is whole."""
    cut = s.snapshot.state == "Whole" and s.snapshot.upto >= s.base
    return (s.base == 0 or cut) and s.acked <= {*s.committed[:s.base], *s.log}


def refused_is_not_applied(c: Constants, s: Shared) -> bool:
    """An entry that was reported as failed is not applied."""
    return not s.refused & set(s.rows)


def log_is_cut(c: Constants, s: Shared) -> bool:
    return s.base > 0


def snapshot_is_needed(c: Constants, s: Shared) -> bool:
    """The database is lost, and the log alone does not have it."""
    return s.index < s.base


def unknown_is_decided(c: Constants, s: Shared) -> bool:
    """An entry is decided that was not acknowledged."""
    return not set(s.committed) <= s.acked


def sink_has_failed(c: Constants, s: Shared) -> bool:
    return s.temp.state == "Torn"


SERVER = {
    "Append": append, "Sync": sync, "FailSync": fail_sync, "Apply": apply, "ApplyRows": apply_rows, "ApplyIndex": apply_index,
    "BeginSnapshot": begin_snapshot, "FinishSnapshot": finish_snapshot, "DiscardSnapshot": discard_snapshot, "CutLog": cut_log,
    "Crash": crash, "Restart": restart,
}
STORE = {"LateWrite": late_write, "FailSink": fail_sink}
ROLES = {"Server": SERVER}

ALWAYS = {
    "StateIsReplay": ("Server", state_is_replay),
    "AckedIsKept": (None, acked_is_kept),
    "RefusedIsNotApplied": (None, refused_is_not_applied),
}
SOMETIMES: dict[str, Property] = {
    "LogIsCut": (None, log_is_cut),
    "SnapshotIsNeeded": (None, snapshot_is_needed),
    "UnknownIsDecided": (None, unknown_is_decided),
    "SinkHasFailed": (None, sink_has_failed),
}


def initial() -> Shared:
    nobody: frozenset[Entry] = frozenset()
    return Shared(0, (), 0, (), Snapshot(), Snapshot(), (), 0, 0, 0, (), nobody, nobody)


def absent(c: Constants) -> Iterator[str]:
    """Yield the witnesses that an instance cannot have."""
    if c.MAX_CRASHES == 0:
        yield "SnapshotIsNeeded"
    if c.MAX_CRASHES == 0 and (c.MAX_FAILED == 0 or not c.FATAL_IO):
        yield "UnknownIsDecided"
    if c.MAX_FAILED == 0:
        yield "SinkHasFailed"


def model(c: Constants) -> Model:
    return Model("log_snapshot", c, initial(), (*clients(("Server", 1, Server(), SERVER)), store(STORE)), ALWAYS,
                 all_but(SOMETIMES, absent(c)))
