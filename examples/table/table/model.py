"""Safety: each file that the table names exists. Each acknowledged commit is in the table.

The table is one object: the number of commits, and the names of its data files. A writer reads the table, stores its data in a
new file, and replaces the table by a conditional PUT. A cleaner deletes files that the table does not name. The name of a file
begins with the number of the commit that it was written for. So a cleaner knows which files nobody can commit any more: those
whose number the table has reached.
"""

from collections.abc import Iterator
from typing import NamedTuple

from highwater import Model
from highwater.model.parts import MANY, below, clients, crashed, in_pool, pooled, reply_lost, store


class Constants(NamedTuple):
    """The size of an instance, its faults and its safeguards. None for a bound means unbounded."""

    WRITERS: int = 2
    CLEANERS: int = 1
    COMMITS: int | None = 1  # that a writer begins
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in flight whose clients no longer wait
    MAX_LOST: int | None = 0  # responses lost
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property must fail
    CONDITIONAL: bool = True  # the table is put If-Match the version that was read
    CONFIRMED: bool = True  # a writer commits a file only after the response to its PUT
    ONLY_REACHED: bool = True  # a cleaner deletes only files whose number the table has reached


LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("COMMITS", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"), MANY), "WRITERS": MANY[1:], "CLEANERS": MANY}

File = tuple[int, int, int]  # (number of the commit that it is for, writer, zero-based index of the writer's commits)


class Table(NamedTuple):
    number: int = 0  # of its latest commit
    files: tuple[File, ...] = ()


class Shared(NamedTuple):
    table: Table = Table()
    files: frozenset[File] = frozenset()
    deleted: frozenset[File] = frozenset()  # files that were deleted; a cleaner may have seen them before
    pool: tuple[tuple, ...] = ()  # requests in flight: ("Store" or "Delete", 0, (file,)), ("Commit", *table)
    lost: int = 0  # faults so far
    crashes: int = 0
    acked: frozenset[File] = frozenset()  # ghost: commits that were reported


class Writer(NamedTuple):
    pc: str = "Idle"  # Idle, Read, Stored, Committed
    base: Table = Table()  # that it read
    k: int = 0  # zero-based index of its current commit


class Cleaner(NamedTuple):
    pc: str = "Idle"  # Idle, Cleaning
    base: Table = Table()


# --- a writer -----------------------------------------------------------------------------------------------------------

def writer_read(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """GET the table. It begins an attempt, also after one that failed."""
    if w.pc != "Committed" and below(w.k, c.COMMITS):
        yield (), s, w._replace(pc="Read", base=s.table)


def file_of(me: int, w: Writer) -> File:
    return w.base.number + 1, me, w.k


def table_of(me: int, w: Writer) -> Table:
    return Table(w.base.number + 1, (*w.base.files, file_of(me, w)))


def store_file(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """PUT the data file."""
    if w.pc == "Read":
        yield (), s._replace(files=s.files | {file_of(me, w)}), w._replace(pc="Stored")


def commit(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """PUT the table with one more name."""
    if w.pc == "Stored" and (not c.CONDITIONAL or s.table == w.base):
        yield (), s._replace(table=table_of(me, w)), w._replace(pc="Committed")


def commit_conflict(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """Another writer was faster. The file is of no use: its number is taken."""
    if w.pc == "Stored" and c.CONDITIONAL and s.table != w.base:
        yield (), s, Writer(k=w.k)


def acknowledge(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The response arrives, and the caller is told."""
    if w.pc == "Committed":
        yield (), s._replace(acked=s.acked | {file_of(me, w)}), Writer(k=w.k + 1)


def give_up(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """Leave a commit that was not applied, and begin the next."""
    if w.pc == "Idle" and below(w.k, c.COMMITS):
        yield (), s, Writer(k=w.k + 1)


# --- a cleaner ----------------------------------------------------------------------------------------------------------

def cleaner_read(c: Constants, me: int, s: Shared, w: Cleaner) -> Iterator:
    """GET the table. It begins a round."""
    yield (), s, Cleaner("Cleaning", s.table)


def is_garbage(c: Constants, w: Cleaner, file: File) -> bool:
    """Tell whether nobody can need the file, by the table that the cleaner read."""
    return w.pc == "Cleaning" and file not in w.base.files and (not c.ONLY_REACHED or file[0] <= w.base.number)


def delete(c: Constants, me: int, s: Shared, w: Cleaner) -> Iterator:
    """DELETE a file that a listing has shown. Somebody else may have deleted it meanwhile."""
    for file in sorted(s.files | s.deleted):
        if is_garbage(c, w, file):
            yield (file,), deleted(s, (file,)), w


def deleted(s: Shared, files: tuple[File, ...]) -> Shared:
    return s._replace(files=s.files.difference(files), deleted=s.deleted.union(files))


# --- faults -------------------------------------------------------------------------------------------------------------

def send_file(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer stops waiting for the PUT of its file, which may be applied later, or never."""
    if w.pc == "Read" and below(len(s.pool), c.MAX_PENDING):
        yield (), pooled(s, ("Store", 0, (file_of(me, w),))), Writer(k=w.k) if c.CONFIRMED else w._replace(pc="Stored")


def send_commit(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer stops waiting for the PUT of the table. The outcome of its commit is unknown to it."""
    if w.pc == "Stored" and below(len(s.pool), c.MAX_PENDING):
        yield (), pooled(s, ("Commit", *table_of(me, w))), Writer(k=w.k + 1)


def lose_reply(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The table was put, and the writer does not know."""
    if w.pc == "Committed" and below(s.lost, c.MAX_LOST):
        yield (), reply_lost(c, s), Writer(k=w.k + 1)


def writer_crash(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """The writer starts again, with the next commit."""
    if w.pc != "Idle" and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Writer(k=w.k + 1)


def send_delete(c: Constants, me: int, s: Shared, w: Cleaner) -> Iterator:
    for file in sorted(s.files | s.deleted):
        if is_garbage(c, w, file) and below(len(s.pool), c.MAX_PENDING):
            yield (file,), pooled(s, ("Delete", 0, (file,))), w


def cleaner_crash(c: Constants, me: int, s: Shared, w: Cleaner) -> Iterator:
    if w.pc != "Idle" and below(s.crashes, c.MAX_CRASHES):
        yield (), crashed(c, s), Cleaner()


def apply_pending(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A request in flight reaches the store. Its condition is evaluated now."""
    for request, rest in in_pool(s):
        op, number, files = request
        if op == "Store":
            yield (request,), rest._replace(files=s.files.union(files)), ()
        elif op == "Delete":
            yield (request,), deleted(rest, files), ()
        else:
            met = not c.CONDITIONAL or s.table.number == number - 1
            yield (request,), rest._replace(table=Table(number, files)) if met else rest, ()


# --- properties ---------------------------------------------------------------------------------------------------------

def named_is_there(c: Constants, s: Shared) -> bool:
    """Each file that the table names exists."""
    return s.files.issuperset(s.table.files)


def acked_is_kept(c: Constants, s: Shared) -> bool:
    """An acknowledged commit is in the table."""
    return s.acked.issubset(s.table.files)


def garbage_is_deleted(c: Constants, s: Shared) -> bool:
    return bool(s.deleted - s.files)


def both_commit(c: Constants, s: Shared) -> bool:
    return len({writer for _, writer, _ in s.table.files}) > 1


def cleaner_is_behind(c: Constants, s: Shared, w: Cleaner) -> bool:
    """A cleaner deletes by a table that has been replaced meanwhile."""
    return w.pc == "Cleaning" and w.base.number < s.table.number


WRITER = {"ReadTable": writer_read, "StoreFile": store_file, "Commit": commit, "CommitConflict": commit_conflict,
          "Acknowledge": acknowledge, "GiveUp": give_up, "SendFile": send_file, "SendCommit": send_commit,
          "LoseReply": lose_reply, "Crash": writer_crash}
CLEANER = {"ReadTable": cleaner_read, "Delete": delete, "SendDelete": send_delete, "Crash": cleaner_crash}
CLIENT = WRITER | CLEANER  # for recorded.py, which judges Commit and Delete
STORE = {"ApplyPending": apply_pending}
ALWAYS = {"NamedIsThere": (None, named_is_there), "AckedIsKept": (None, acked_is_kept)}
SOMETIMES = {"GarbageIsDeleted": (None, garbage_is_deleted), "BothCommit": (None, both_commit),
             "CleanerIsBehind": ("Cleaner", cleaner_is_behind)}


def model(c: Constants) -> Model:
    roles = clients(("Writer", c.WRITERS, Writer(), WRITER), ("Cleaner", c.CLEANERS, Cleaner(), CLEANER))
    return Model("table", c, Shared(), (*roles, store(STORE)), ALWAYS, SOMETIMES)
