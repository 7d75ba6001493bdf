"""Safety: while a session is remembered, each of its updates is applied exactly once, however often it is tried. Once the
session is forgotten, none of its updates is tried again.

An update that is recognised by its id needs that id in the content as long as anybody may ask for it. The ids of all updates
would grow forever. Here a client numbers its updates, and begins one only after it has finished the one before. So for each
session the content needs only the number of its last update, and it needs only the sessions used last.
"""

from collections.abc import Callable
from typing import Any, Protocol

from highwater.impl.errors import Indefinite
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Recognised

CAPACITY = 1000  # number of sessions that are remembered, about 40 bytes each

Table = tuple[tuple[str, int], ...]  # (session, number of its last update); the session used last comes last


class Value(Protocol):
    """A content with a table of sessions, such as impl/codecs/json/manifest.py's."""

    sessions: Table

    def _replace(self, **changes: Any) -> "Value":
        """Return the same content with another table."""
        ...


class SessionForgotten(Indefinite):
    """The session is not in the table, so nobody can tell any more whether its last update was applied."""

    def __init__(self, session: str, number: int):
        super().__init__(f"session {session!r} has been forgotten: whether its update {number} was applied is not known; it is "
                         "not tried again. Open another one, and look at the content")


def noted(table: Table, session: str, number: int, capacity: int = CAPACITY) -> Table:
    """Return the table after this update. If there are too many sessions, the one unused for longest is forgotten."""
    return (*((s, n) for s, n in table if s != session), (session, number))[-capacity:]


class Session:
    """One client's updates, one at a time.

    To survive a crash, store `id` and `number` durably before the first attempt of an update. A Session made of both continues
    the same update.
    """

    def __init__(self, metadata: MetadataStore, session: str = "", number: int = 0, capacity: int = CAPACITY):
        self.metadata, self.capacity = metadata, capacity
        self.id, self.number = session or metadata.world.ids.new_id(), number

    async def open(self) -> Committed | Recognised:
        """Register the session, once, before the first update. Raises what `update` raises, and may be called again then."""
        if self.number:
            raise ValueError(f"session {self.id!r} has begun update {self.number}: it was open")
        return await self.metadata.update_recognised(
            lambda value: self.id in dict(value.sessions),
            lambda _, value: value._replace(sessions=noted(value.sessions, self.id, 0, self.capacity)))

    async def update(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed | Recognised:
        """Apply the next update. Once it is begun, the previous one can no longer be asked for."""
        self.number += 1
        return await self.again(change, attempts)

    async def again(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed | Recognised:
        """Try the same update again, after an Indefinite error or a crash.

        Raises SessionForgotten, and what `update_recognised` raises.
        """
        number = self.number

        def holds(value: Value) -> bool | SessionForgotten:
            last = dict(value.sessions).get(self.id)
            if last is None:
                return SessionForgotten(self.id, number)
            if last > number:
                raise ValueError(f"session {self.id!r} has begun update {last} meanwhile: update {number} is over")
            return last == number

        def changed(next_id: int, value: Value) -> Value:
            after = change(next_id, value)
            return after._replace(sessions=noted(after.sessions, self.id, number, self.capacity))

        return await self.metadata.update_recognised(holds, changed, attempts)
