"""Safety: each file that the table names exists. Each acknowledged commit is in the table.

The code follows model.py request by request. It has no clock. A file's name begins with the number of the commit that it was
written for, so a cleaner needs no age to know which files nobody can commit any more.
"""

import json
from typing import NamedTuple

from highwater import Definite, OutcomeUnknown, PreconditionFailed, Unavailable, World
from highwater.impl.world import list_all

TABLE, FILES = "db/table", "db/data/"


class Conflict(Definite):
    """Another writer was faster. The commit is not applied, and never will be."""


class Content(NamedTuple):
    """The content of the table's object."""

    number: int = 0  # of the latest commit; it rises by one with each, so no content comes back
    names: tuple[str, ...] = ()  # of the data files, in the order of their commits


def encode(content: Content) -> bytes:
    return json.dumps(content._asdict()).encode()


def decode(body: bytes) -> Content:
    """Raises ValueError for other content."""
    content = json.loads(body)
    return Content(int(content["number"]), tuple(content["names"]))


def name_of(number: int, update: str) -> str:
    return f"{number:020d}-{update}"


def number_of(name: str) -> int:
    """Return the number of the commit that a file is for. Raises ValueError for a name of another form."""
    return int(name.partition("-")[0])


class Table:
    """The table as one client uses it."""

    def __init__(self, world: World):
        self.world = world

    # --- a writer

    async def append(self, update: str, data: bytes) -> None:
        """Add a file with this data to the table. No two commits may have the same `update`.

        Raises Conflict and Unavailable: nothing was committed. Raises OutcomeUnknown: it may be committed, now or later.
        """
        found = await self.world.store.get(TABLE)
        content = decode(found.body)
        number = content.number + 1
        name = name_of(number, update)
        await self.store_file(name, data)
        try:
            await self.put_table(encode(Content(number, (*content.names, name))), found.version)
        except PreconditionFailed:
            raise Conflict(f"{update!r}: another writer has made commit {number}") from None

    async def store_file(self, name: str, data: bytes) -> None:
        """Store a data file. Raises Unavailable: it may be there, now or later, but no table names it."""
        try:
            await self.world.store.put(FILES + name, data)
        except OutcomeUnknown as error:
            raise Unavailable(f"no response to the PUT of {name}") from error

    async def put_table(self, body: bytes, version: str) -> None:
        await self.world.store.update(TABLE, body, version)

    # --- a cleaner

    async def clean(self) -> list[str]:
        """Delete the files that nobody can commit any more. Return their names.

        Raises Unavailable and OutcomeUnknown: some of them may be left. The next call deletes them.
        """
        content = decode((await self.world.store.get(TABLE)).body)
        names = [entry.key.removeprefix(FILES) for entry in await list_all(self.world.store, FILES)]
        garbage = [name for name in names if self.is_garbage(name, content)]
        for name in garbage:
            await self.world.store.delete(FILES + name)
        return garbage

    def is_garbage(self, name: str, content: Content) -> bool:
        """Tell whether nobody can need the file, by the table that this cleaner read."""
        return number_of(name) <= content.number and name not in content.names
