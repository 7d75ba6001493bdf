"""A database that is opened for a range neither changes nor shows a key outside it."""

import pytest

from highwater.impl.db.db import Db, Options
from highwater.impl.db.pinned import DbReader
from highwater.impl.db.ranges import OutsideRange
from highwater.impl.db.writes import delete, merge, put
from highwater.impl.manifests.spans import Span
from highwater.impl.world import World
from tests.support.database import run

WITHIN = Options(poll_ms=0, span=Span(b"b", b"d"), merge=lambda key, value, operand: (value or b"") + operand)


async def begun(world: World) -> Db:
    """Write the keys a to e, and open the database for b and c."""
    db = await Db.open(world, "db", Options(poll_ms=0))
    await db.write([put(key, b"1") for key in (b"a", b"b", b"c", b"d")])
    await db.flush()
    await db.put(b"e", b"1")
    await db.close()
    return await Db.open(world, "db", WITHIN)


@pytest.mark.parametrize("batch", [[put(b"a", b"2")], [put(b"b", b"2"), delete(b"d")], [merge(b"d\0", b"2")]], ids=str)
def test_a_write_that_is_partly_outside_changes_nothing(batch):
    async def work(world: World) -> None:
        db = await begun(world)
        objects = [one.key for one in (await world.store.list_page("db/wal/")).entries]
        with pytest.raises(OutsideRange, match="is outside the range"):
            await db.write(batch)
        assert [one.key for one in (await world.store.list_page("db/wal/")).entries] == objects
        await db.write([put(b"b", b"2"), merge(b"c", b"2")])
        assert [await db.get(key) for key in (b"b", b"c")] == [b"2", b"12"]
        await db.close()
        every = await Db.open(world, "db", Options(poll_ms=0, merge=WITHIN.merge))
        assert [one async for one in every.scan()] == [(b"a", b"1"), (b"b", b"2"), (b"c", b"12"), (b"d", b"1"), (b"e", b"1")]
        await every.close()

    run(work)


def test_reads_show_what_is_inside_and_those_wholly_outside_are_refused():
    async def work(world: World) -> None:
        db = await begun(world)
        reader = DbReader(db.manifests, "db", span=WITHIN.span)
        await reader.open()
        of_db, of_reader = db.snapshot(), reader.snapshot()

        async def keys(of, span: Span) -> list[bytes]:
            return [one[0] async for one in of.scan(span)]

        for of in (db, of_db, of_reader):
            for span, shows in ((Span(), [b"b", b"c"]), (Span(b"a", b"c"), [b"b"]), (Span(b"c"), [b"c"])):
                assert await keys(of, span) == shows
            assert await of.get(b"b") is not None
            for key in (b"a", b"d", b"e"):
                with pytest.raises(OutsideRange, match="is outside the range"):
                    await of.get(key)
            for span in (Span(b"a", b"b"), Span(b"d")):
                with pytest.raises(OutsideRange, match="is outside the range"):
                    await keys(of, span)
        await reader.close()
        await db.close()

    run(work)


@pytest.mark.parametrize("span", [Span(b"b", b"b"), Span(b"b", b"a")])
def test_a_range_without_keys_is_refused(span):
    with pytest.raises(ValueError, match="no key"):
        Options(span=span).check()
