"""Check what one client alone is answered, and which requests it sends. Each script knows the one right answer.

The simulation judges what the calls do. It does not see the class of an error, a result that no caller is told, or a request
too many.
"""

from highwater import OutcomeUnknown, Unavailable
from highwater.dst.script import LOST, Alone, same

from .impl import FILES, TABLE, Conflict, Content, Table, decode, encode, name_of

MANY = 1_100  # files: more than a page of a listing has


async def table_of(alone: Alone) -> Content:
    """Return what the store holds, past the client's faults and counted requests."""
    return decode((await alone.real.get(TABLE)).body)


async def commits(alone: Alone) -> None:
    await alone.real.put(TABLE, encode(Content()))
    table = Table(alone.world)
    await table.append("0.0", b"data")
    same(alone.sent(), ["get table", "put 1-0.0", "update table"])
    same(await table_of(alone), Content(1, (name_of(1, "0.0"),)))


async def loses_a_conflict(alone: Alone) -> None:
    """Another writer commits just before the PUT of the table."""
    async def other() -> None:
        await alone.real.put(TABLE, encode(Content(1, (name_of(1, "1.0"),))))

    await alone.real.put(TABLE, encode(Content()))
    alone.fails("update", TABLE, other)
    await alone.raises(Conflict, Table(alone.world).append("0.0", b"data"))


async def commits_no_file_in_doubt(alone: Alone) -> None:
    await alone.real.put(TABLE, encode(Content()))
    alone.fails("put", FILES, LOST)
    await alone.raises(Unavailable, Table(alone.world).append("0.0", b"data"))
    same(alone.sent(), ["get table", "put 1-0.0"])


async def says_that_a_commit_is_in_doubt(alone: Alone) -> None:
    await alone.real.put(TABLE, encode(Content()))
    alone.fails("update", TABLE, LOST)
    await alone.raises(OutcomeUnknown, Table(alone.world).append("0.0", b"data"))


async def deletes_what_nobody_can_commit(alone: Alone) -> None:
    """Commit 1 is made: its loser's file is garbage, and a file for commit 2 is not."""
    kept, garbage, next_one = name_of(1, "0.0"), name_of(1, "1.0"), name_of(2, "1.0")
    await alone.real.put(TABLE, encode(Content(1, (kept,))))
    for name in (kept, garbage, next_one):
        await alone.real.put(FILES + name, b"data")
    same(await Table(alone.world).clean(), [garbage])
    same(alone.sent(), ["get table", "list data", "delete 1-1.0"])


async def deletes_from_every_page(alone: Alone) -> None:
    await alone.real.put(TABLE, encode(Content(1)))
    for k in range(MANY):
        await alone.real.put(FILES + name_of(1, f"1.{k}"), b"data")
    same(len(await Table(alone.world).clean()), MANY)


SCRIPTS = (commits, loses_a_conflict, commits_no_file_in_doubt, says_that_a_commit_is_in_doubt, deletes_what_nobody_can_commit,
           deletes_from_every_page)
