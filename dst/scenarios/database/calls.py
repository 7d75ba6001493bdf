"""The calls of the callers of a database, and what is kept of them for the end."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from highwater.dst.actors import Actors, Said, said_by
from highwater.dst.sim.kernel import Client
from highwater.impl.db.merge import Shown
from highwater.impl.db.pinned import DbReader
from highwater.impl.manifests.spans import Span
from highwater.traces.histories.serial import Operation
from highwater.traces.histories.versions import Batch, Read
from highwater.traces.protocols.db import ROOT
from highwater.traces.protocols.db_calls import CALLS

BYTES = b"abcd"  # the keys, of one byte each
SPANS = (Span(), Span(b"b", b"d"), Span(b"c"), Span(b"", b"c"))
Pairs = tuple[tuple[bytes, bytes], ...]


class Kept(NamedTuple):
    """Facts for the end of the database at a root: an Asked, a View, a Taken, a Gone or a Read."""

    root: str
    what: Any


class Asked(NamedTuple):
    """A batch that a writer of this epoch was asked to write."""

    batch: Batch
    epoch: int


class View(NamedTuple):
    """The state that a call has shown: that of a writer, or that of a reader, which has no epoch."""

    place: int  # of the call in the history
    seq: int  # the rows up to this number
    epoch: int = 0


class Taken(NamedTuple):
    """A checkpoint that a caller was told it has."""

    place: int  # of the call in the history
    id: str
    lasts: bool  # it has no end


class Gone(NamedTuple):
    """The moment at which somebody was told that nothing is left of the database."""

    moment: int


def joined(key: bytes, found: bytes | None, operand: bytes) -> bytes:
    return (found or b"") + b"+" + operand


class Call:
    """A caller's call. It is in the history from its begin on."""

    def __init__(self, actors: Actors, client: Client, update: str = ""):
        actors.moments += 1
        self.actors, self.client, self.place = actors, client, len(actors.operations)
        actors.operations.append(Operation(client.name, actors.moments, None, "", update))

    def end(self, said: Said, what: bytes = b"") -> None:
        """Note the end of the call in the history, and tell the caller."""
        actors = self.actors
        actors.moments += 1
        actors.operations[self.place] = actors.operations[self.place]._replace(end=actors.moments, said=said.told)
        actors.tell(self.client, said.told, what, keys=said.keys)


async def asked(actors: Actors, client: Client, call: str, work: Awaitable[Any], **claims: Callable[[Any], str]) -> Said:
    """Await a call for as long as its caller waits, and tell the caller. `claims`: as in `said_by`."""
    of = Call(actors, client)
    said = await said_by(CALLS, call, actors.in_time(client, work), **claims)
    of.end(said)
    return said


async def read(actors: Actors, client: Client, seq: int, of: Any, epoch: int | None = None, root: str = ROOT) -> Said:
    """Read a key or a span of `of`, which shows the rows up to `seq`. With an `epoch` it is an open writer."""
    call, from_ms = Call(actors, client), actors.kernel.now_ms
    place = actors.choose(f"{client.name}.key", len(BYTES))
    if actors.choose(f"{client.name}.scans", 2):
        what, span, work = "scan", SPANS[place], pairs(of.scan(SPANS[place]))
    else:
        key = BYTES[place:place + 1]
        what, span, work = "get", Span(key, key + b"\0"), pair(key, of.get(key))
    said = await said_by(CALLS, what, actors.in_time(client, work))
    found: Pairs | None = said.value
    call.end(said, b"" if found is None else b"%d: %s" % (seq, b" ".join(b"=".join(row) for row in found)))
    if found is not None:
        actors.kept.append(Kept(root, Read(client.name, seq, from_ms, actors.kernel.now_ms, span, found)))
        if epoch is not None:
            actors.kept.append(Kept(root, View(call.place, seq, epoch)))
    return said


async def pairs(found: AsyncIterator[Any]) -> Pairs:
    return tuple([(one.key, one.merged(joined)) if isinstance(one, Shown) else one async for one in found])


async def pair(key: bytes, found: Awaitable[Any]) -> Pairs:
    value = await found
    return () if value is None else ((key, value.merged(joined) if isinstance(value, Shown) else value),)


def seq_of(reader: DbReader) -> int:
    """Return the number up to which a reader shows rows."""
    view = reader.pins.view
    assert view is not None, "it is open"
    return max([view.manifest.last_l0_seq, *(row.seq for table in view.tables for row in table.rows)])
