"""Safety: what Raft replicates is the index's state machine, so all nodes have the same rows after the same entries.

The machine that a node of Raft drives (impl/raft/machine.py). Its state is a `View` of rows, which nobody changes. An entry's
body is the time at which its proposer stamped it, and the entry of the index. A snapshot's content is the snapshot file of the
index.
"""

from typing import Any, NamedTuple

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index import entries, snapshot
from highwater.impl.codecs.index.rows import U64
from highwater.impl.codecs.index.snapshot import Position
from highwater.impl.index.answers import Answer
from highwater.impl.index.config import Config, checked, settings
from highwater.impl.index.kv import InvalidKey, View, Writing
from highwater.impl.index.machine import Entry, applied, apply_entry
from highwater.impl.raft.machine import Command, Machine


class Result(NamedTuple):
    """The outcome of an entry, and the term of the leader that took it."""

    term: int
    answer: Answer


def stamped(now_ns: int, command: Any) -> bytes:
    """Return the body of a Raft entry with a command of the index."""
    return U64.pack(now_ns) + entries.entry(command)


def unreadable(body: bytes) -> str | None:
    """Return why the body of a Raft entry cannot be applied, or None.

    A decoder takes messages in messages to a limit, and an entry has a block inside more of them than a request has. An entry
    above the limit stops each node that comes to it, so none is proposed.
    """
    try:
        entries.command_of(body[U64.size:])
    except Undecodable as error:
        return f"the command is nested too deep, or cannot be decoded for another reason: {error}"
    return None


def applied_to(view: View, command: Command, config: Config) -> tuple[View, Result]:
    """Return the state after an entry, and its result. Raises UnknownEntry or DamagedMessage if it cannot be read."""
    if len(command.body) < U64.size:
        raise entries.UnknownEntry("the entry has no time", field="time")
    writing = Writing(view, command.index)  # which is above the version of every node of `view`
    (at_ns,) = U64.unpack_from(command.body)
    answer = apply_entry(writing, Entry(command.index, command.term, at_ns, command.body[U64.size:]), config)
    assert answer is not None, "Raft applies an entry once"
    return View(writing.root), Result(command.term, answer)


def dump(view: View, ids: tuple[int, ...] = ()) -> bytes:
    """Return the state as a snapshot of the index. Its voters stand in Raft's own snapshot; a backup has another id in their
    place (highwater/index/restore.py)."""
    term, index = applied(view)
    return snapshot.encode(Position(index, term, ids), view.range(b"", None))


def load(content: bytes) -> View:
    """Return the state of a snapshot. Raises DamagedSnapshot."""
    writing = Writing(View(), 0)
    for key, value in snapshot.decode(content)[1]:
        try:
            writing.put(key, value)
        except InvalidKey as error:
            raise snapshot.DamagedSnapshot(str(error), field="rows") from None
    return View(writing.root)


def machine(config: Config) -> Machine:
    """Return the index as a machine for a node of Raft. Raises ConfigRefused."""
    numbers = checked(config)
    return Machine(View(), lambda view, command: applied_to(view, command, numbers), dump, load, entries.LEVEL,
                   settings=settings(numbers), check=lambda view, command: unreadable(command.body))
