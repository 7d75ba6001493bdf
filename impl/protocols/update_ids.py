"""Safety: for as long as a session is remembered each of its updates is applied exactly once, however often it is tried;
once it is forgotten none is tried again.

An update that is recognised by its id needs that id in the content for as long as anybody may ask for it. Ids of all updates
would grow for ever. Here a client numbers its updates, and begins one when it has done with the one before: so the content
needs of each session no more than the number of its last update, and of sessions those that were used last.
"""

from collections.abc import Callable
from typing import Any, Protocol

from highwater.impl.errors import Indefinite
from highwater.impl.protocols.sequenced_metadata_boundary import Committed, MetadataStore, Recognised

CAPACITY = 1000  # sessions that are remembered: about 40 bytes each

Table = tuple[tuple[str, int], ...]  # (session, the number of its last update); the one that was used last at the end


class Value(Protocol):
    """What a content needs for this: impl/codecs/json/manifest.py has it."""

    sessions: Table

    def _replace(self, **changes: Any) -> "Value":
        """The same content with another table."""
        ...


class SessionForgotten(Indefinite):
    """The session is not in the table, so that nobody can tell any more whether its last update was applied."""

    def __init__(self, session: str, number: int):
        super().__init__(f"session {session!r} has been forgotten: whether its update {number} was applied is not known; it is "
                         "not tried again. Open another one, and look at the content")


def noted(table: Table, session: str, number: int, capacity: int = CAPACITY) -> Table:
    """The table after this update. Who was not heard of for longest is forgotten if there are too many."""
    return (*((s, n) for s, n in table if s != session), (session, number))[-capacity:]


class Session:
    """One client's updates, one at a time. `id` and `number` may be kept where a crash does not reach them, before the first
    attempt of an update: a Session made of both goes on with the same update."""

    def __init__(self, metadata: MetadataStore, session: str = "", number: int = 0, capacity: int = CAPACITY):
        self.metadata, self.capacity = metadata, capacity
        self.id, self.number = session or metadata.world.ids.new_id(), number

    async def open(self) -> None:
        """Once, before the first update. Raises what `update` raises, and may be called again then."""
        if self.number:
            raise ValueError(f"session {self.id!r} has begun update {self.number}: it was open")
        await self.metadata.update_recognised(
            lambda value: self.id in dict(value.sessions),
            lambda _, value: value._replace(sessions=noted(value.sessions, self.id, 0, self.capacity)))

    async def update(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed | Recognised:
        """The next update. Once it is begun, the one before can no longer be asked for."""
        self.number += 1
        return await self.again(change, attempts)

    async def again(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed | Recognised:
        """The same update, after an Indefinite error or a crash. Raises SessionForgotten, and as `update_recognised`."""
        number = self.number

        def holds(value: Value) -> bool:
            last = dict(value.sessions).get(self.id)
            if last is None:
                raise SessionForgotten(self.id, number)
            if last > number:
                raise ValueError(f"session {self.id!r} has begun update {last} meanwhile: update {number} is over")
            return last == number

        def changed(next_id: int, value: Value) -> Value:
            after = change(next_id, value)
            return after._replace(sessions=noted(after.sessions, self.id, number, self.capacity))

        return await self.metadata.update_recognised(holds, changed, attempts)
