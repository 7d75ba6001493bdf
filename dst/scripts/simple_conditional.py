"""Scripts of one object that is put if it has not changed, impl/protocols/simple_conditional.py."""

from highwater.dst.script import HANGS, LOST, Alone, Script, refuses_a_cache, same
from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import NotFound, OutcomeUnknown, PreconditionFailed, Unavailable, UpdateConflict
from highwater.impl.protocols.simple_conditional import SimpleConditional

encode = UPDATES.encode

KEY = "db/object"
GET, PUT = "get object", "update object"


def adds(update: str):
    return lambda value: value.with_update(update)


async def begun(alone: Alone, **options: object) -> SimpleConditional:
    database = SimpleConditional(alone.world, KEY, **options)  # pyright: ignore[reportArgumentType]  # the script's options
    await database.initialise(Manifest())
    same(alone.sent(), ["create object"])
    return database


async def updates(alone: Alone) -> None:
    database = await begun(alone)
    await database.initialise(Manifest().with_update("another first content"))
    alone.sent()
    found = await database.update("a", adds("a"))
    same((found.value, found.version), (Manifest(("a",)), (await alone.real.get(KEY)).version))
    same(alone.sent(), [GET, PUT])
    await database.update("b", adds("b"))
    same(alone.sent(), [PUT])
    await alone.real.put(KEY, encode(Manifest(("x",))))
    same((await database.update("c", adds("c"))).value.updates, ("x", "c"))
    same(alone.sent(), [PUT, GET, PUT])
    same(alone.counted, ["update_conflicts"])
    same((await database.current()).value.updates, ("x", "c"))
    alone.sent()
    alone.fails("update", KEY, Unavailable)
    await alone.raises(Unavailable, database.update("d", adds("d")))
    same(alone.sent(), [PUT])
    alone.fails("update", KEY, HANGS)
    await alone.cancels(database.update("d", adds("d")))
    alone.sent()
    await database.update("e", adds("e"))
    same(alone.sent(), [GET, PUT])
    await alone.real.delete(KEY)
    await alone.raises(NotFound, database.current())
    await alone.raises(NotFound, database.update("f", adds("f")))


async def initialise_that_fails(alone: Alone) -> None:
    database = SimpleConditional(alone.world, KEY)
    for how in (Unavailable, OutcomeUnknown):
        alone.fails("create", KEY, how)
        await alone.raises(how, database.initialise(Manifest()))
        await alone.raises(NotFound, database.current())


async def attempts(alone: Alone) -> None:
    database = await begun(alone)
    alone.fails("update", KEY, PreconditionFailed, 2)
    await alone.raises(UpdateConflict, database.update("a", adds("a"), 2))
    same(alone.sent(), [GET, PUT] * 2)
    alone.fails("update", KEY, PreconditionFailed)
    await database.update("a", adds("a"), 2)
    alone.fails("update", KEY, PreconditionFailed)
    await alone.raises(UpdateConflict, database.update("b", adds("b"), 1))


async def tells_a_doubt(alone: Alone) -> None:
    database = await begun(alone)
    alone.fails("update", KEY, LOST)
    await alone.raises(OutcomeUnknown, database.update("a", adds("a")))
    same(alone.sent(), [GET, PUT])
    same((await database.update("b", adds("b"))).value.updates, ("a", "b"))
    same(alone.sent(), [GET, PUT])


async def checks_a_doubt(alone: Alone) -> None:
    database = await begun(alone, resolve="check")
    alone.fails("update", KEY, LOST)
    same((await database.update("a", adds("a"))).value.updates, ("a",))
    same(alone.sent(), [GET, PUT, GET])
    alone.fails("update", KEY, OutcomeUnknown)
    same((await database.update("b", adds("b"))).value.updates, ("a", "b"))
    same(alone.sent(), [PUT, GET, PUT])
    same(alone.counted, ["updates_in_doubt"] * 2)
    alone.fails("update", KEY, OutcomeUnknown, 2)
    await alone.raises(OutcomeUnknown, database.update("c", adds("c"), 2))
    alone.fails("update", KEY, OutcomeUnknown)
    alone.fails("update", KEY, PreconditionFailed)
    await alone.raises(OutcomeUnknown, database.update("c", adds("c"), 2))
    alone.fails("update", KEY, OutcomeUnknown)
    alone.fails("update", KEY, Unavailable)
    await alone.raises(OutcomeUnknown, database.update("c", adds("c")))
    alone.sent()
    await database.update("d", adds("d"))
    same(alone.sent(), [GET, PUT])


async def many(alone: Alone) -> None:
    """An update in doubt is found among many later ones."""
    database, other = await begun(alone, resolve="check"), SimpleConditional(alone.world, KEY)
    names = [f"{i}" for i in range(100)]
    await database.update("first", adds("first"))

    async def applied_late() -> None:
        await alone.real.update(KEY, encode(Manifest(("first", "a"))), (await alone.real.get(KEY)).version)
        for name in names:
            await other.update(name, adds(name))

    alone.fails("update", KEY, OutcomeUnknown)
    alone.fails("get", KEY, applied_late)
    same((await database.update("a", adds("a"))).value.updates, ("first", "a", *names))


async def without_ids(alone: Alone) -> None:
    """A value must hold the update's id, unless values may recur."""
    database = await begun(alone)
    await alone.raises(ValueError, database.update("a", adds("b")))
    same(alone.sent(), [GET])
    recurring = SimpleConditional(alone.world, KEY, recurs=True)
    same((await recurring.update("a", lambda value: value)).value, Manifest())


class Lines:
    """A codec of one's own: a line for each update."""

    def encode(self, value: Manifest) -> bytes:
        return "\n".join(value.updates).encode()

    def decode(self, body: bytes) -> Manifest:
        return Manifest(tuple(body.decode().split("\n")))


async def another_codec(alone: Alone) -> None:
    database = await begun(alone, codec=Lines(), resolve="check")
    await alone.real.put(KEY, b"x")
    alone.fails("update", KEY, LOST)
    same((await database.update("a", adds("a"))).value.updates, ("x", "a"))
    same((await alone.real.get(KEY)).body, b"x\na")
    same((await database.current()).value.updates, ("x", "a"))


async def refused(alone: Alone) -> None:
    for options in ({"resolve": "neither"}, {"resolve": "check", "recurs": True}):
        await alone.raises(ValueError, begun(alone, **options))
    refuses_a_cache(lambda store: SimpleConditional(alone.world._replace(store=store), KEY))


SCRIPTS: tuple[Script, ...] = (updates, initialise_that_fails, attempts, tells_a_doubt, checks_a_doubt, many, without_ids,
    another_codec, refused)
