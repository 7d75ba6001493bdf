"""Scripts of sessions, impl/protocols/update_ids.py."""

from highwater.dst.script import Alone, Script, check, same
from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import AlreadyExists, OutcomeUnknown
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Recognised, manifest_store
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists
from highwater.impl.protocols.update_ids import CAPACITY, Session, SessionForgotten, noted

encode = UPDATES.encode

FILES = Namespace("db", "manifest")


async def begun(alone: Alone) -> MetadataStore:
    store = manifest_store(alone.world, "db")
    await store.initialise(Manifest())
    return store


def adds(update: str):
    return lambda _, manifest: manifest.with_update(update)


async def session(alone: Alone) -> None:
    store = await begun(alone)
    session = Session(store)
    same((session.id, session.number, session.capacity), ("id1", 0, CAPACITY))
    same((await session.open()).value.sessions, (("id1", 0),))
    same(type(await session.open()), Recognised)
    same((await session.update(adds("a"))).value, Manifest(("a",), (), (("id1", 1),)))
    same(type(await session.again(adds("a"))), Recognised)
    same((await session.update(adds("b"))).value.updates, ("a", "b"))
    await alone.raises(ValueError, session.open())
    continued = Session(store, "id1", 2)
    same(type(await continued.again(adds("b"))), Recognised)
    alone.fails("create", "manifest/", AlreadyExists)
    await alone.raises(ObjectVersionExists, continued.update(adds("c"), 1), id=5)
    same(type(await continued.again(adds("c"), 1)), Committed)
    await alone.raises(ValueError, session.again(adds("b")))  # another process has gone on
    found = await continued.update(lambda _, m: m._replace(sessions=(("other", 5), *m.sessions)))
    same(found.value.sessions, (("other", 5), ("id1", 4)))
    alone.fails("create", "manifest/", OutcomeUnknown)
    await alone.raises(OutcomeUnknown, continued.update(adds("d"), 1))
    same((await continued.again(adds("d"))).value.updates, ("a", "b", "c", "d"))


async def forgotten(alone: Alone) -> None:
    store = await begun(alone)
    first, second = (Session(store, name, capacity=1) for name in ("one", "two"))
    await first.open()
    await second.open()
    error = await alone.raises(SessionForgotten, first.update(adds("a")))
    check("'one'" in str(error) and "update 1 " in str(error), f"{error} names session and update")
    same((await second.update(adds("b"))).value.updates, ("b",))


async def forgotten_by_a_file_off_history(alone: Alone) -> None:
    """Between its LIST and its GET another file takes the place of a collected one. What that file lacks is not forgotten."""
    store = await begun(alone)
    session = Session(store, "one")
    await session.open()

    async def replaced() -> None:
        body = (await alone.real.get(FILES.key(2))).body
        await alone.real.create(FILES.key(3), body)
        await alone.real.put(FILES.boundary_key, b"2")
        await alone.real.put(FILES.key(2), encode(Manifest(("late",))))

    alone.sent()
    alone.fails("get", FILES.key(2), replaced)
    same((await session.update(adds("a"))).id, 4)
    same(alone.sent(), ["list manifest", "get 2.manifest", "get manifest.boundary", "list manifest", "get 3.manifest",
                        "create 4.manifest", "get_if_changed manifest.boundary"])


async def tables(alone: Alone) -> None:
    same(noted((("a", 1), ("b", 2)), "a", 2), (("b", 2), ("a", 2)))
    same(noted((("a", 1), ("b", 2)), "c", 0, 2), (("b", 2), ("c", 0)))
    same(noted((), "c", 0, 2), (("c", 0),))
    full = tuple((f"{i}", 1) for i in range(1000))
    same(noted(full, "new", 0), (*full[1:], ("new", 0)))
    same(noted(full, "7", 2), (*full[:7], *full[8:], ("7", 2)))


SCRIPTS: tuple[Script, ...] = (session, forgotten, forgotten_by_a_file_off_history, tables)
