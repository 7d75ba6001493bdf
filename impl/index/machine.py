"""Safety: the state after an entry depends on the state before it and on the entry only, so replicas have equal bytes.

`apply` knows no clock: the time is the entry's, which its leader has stamped. It is always later than that of the entry before.
The index of the last applied entry is written in the same transaction as what the entry changes. So an entry is applied once,
wherever a node crashes.
"""

from typing import Any, NamedTuple

from highwater.impl.codecs.index import rows as row
from highwater.impl.codecs.index import snapshot
from highwater.impl.codecs.index.entries import command_of
from highwater.impl.codecs.index.messages import AddBlock, GetPlan, Truncate, UpdatePlan
from highwater.impl.codecs.index.snapshot import Position
from highwater.impl.errors import Definite
from highwater.impl.index import removed
from highwater.impl.index.add import add
from highwater.impl.index.answers import DONE, Answer
from highwater.impl.index.config import Config, checked
from highwater.impl.index.kv import OrderedKV, Rows, Transaction
from highwater.impl.index.plan_get import plan_of
from highwater.impl.index.plan_update import update
from highwater.impl.index.truncate import truncate


class EntryMissing(Definite):
    """An entry came before the one that it follows."""


class Entry(NamedTuple):
    """A committed entry of the log. An empty body is a no-op, as of a new leader or a change of members."""

    index: int
    term: int
    appended_ns: int  # by the leader's clock: never before the entry before it
    body: bytes


def applied(rows: Rows) -> tuple[int, int]:
    """Return (term, log index) of the last applied entry; (0, 0) if there is none."""
    value = rows.get(row.APPLIED)
    return (0, 0) if value is None else row.applied_of(value)


def clock_ns(rows: Rows) -> int:
    """Return the latest time of the applied entries."""
    value = rows.get(row.CLOCK)
    return 0 if value is None else row.U64.unpack(value)[0]


def applied_command(rows: Transaction, command: Any, entry: Entry, now_ns: int, config: Config) -> Answer:
    """Apply one command."""
    if isinstance(command, AddBlock):
        return add(rows, command, entry.index, now_ns, config)
    if isinstance(command, GetPlan):
        return Answer(value=plan_of(rows, command, entry.index, now_ns, config))
    if isinstance(command, UpdatePlan):
        return update(rows, command, entry.term, entry.index, now_ns, config)
    assert isinstance(command, Truncate)
    return truncate(rows, command, entry.term, entry.index, now_ns, config)


def apply_entry(rows: Transaction, entry: Entry, config: Config) -> Answer | None:
    """Apply an entry to the rows; None if it was applied before.

    Raises UnknownEntry or DamagedMessage for an entry that cannot be read, before any row has changed.
    """
    if entry.index <= applied(rows)[1]:
        return None
    command = command_of(entry.body) if entry.body else None
    now_ns = max(entry.appended_ns, clock_ns(rows) + 1)
    answer = DONE if command is None else applied_command(rows, command, entry, now_ns, config)
    removed.forget(rows, now_ns, config)
    rows.put(row.CLOCK, row.U64.pack(now_ns))
    rows.put(row.APPLIED, row.applied_value(entry.term, entry.index))
    return answer


class Machine:
    """The index over an ordered store. Entries are applied one after another, by one task."""

    def __init__(self, kv: OrderedKV, config: Config):
        """Raise ConfigRefused if the numbers would break a promise."""
        self.kv, self.config = kv, checked(config)

    def apply(self, entry: Entry) -> Answer | None:
        """Apply an entry; None if it was applied before.

        Raises EntryMissing, and UnknownEntry or DamagedMessage for an entry that cannot be read. Then nothing has changed.
        """
        with self.kv.transaction() as rows:
            _, last = applied(rows)
            if entry.index > last + 1:
                raise EntryMissing(f"entry {entry.index} came after entry {last}")
            return apply_entry(rows, entry, self.config)

    def snapshot(self, voters: tuple[int, ...]) -> tuple[Position, list[tuple[bytes, bytes]]]:
        """Return the state with its place in the log."""
        with self.kv.snapshot() as rows:
            term, index = applied(rows)
            return Position(index, term, voters), list(rows.range(b"", None))

    def restore(self, rows: list[tuple[bytes, bytes]]) -> None:
        """Have the state of a snapshot, and no other."""
        self.kv.restore(rows)

    def dump(self) -> bytes:
        """Return the state as bytes: equal on all replicas at the same applied index, whatever store holds it."""
        with self.kv.snapshot() as rows:
            return snapshot.stream(rows.range(b"", None))[0]
