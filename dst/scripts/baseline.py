"""Scripts of writes under names of their own, impl/protocols/baseline.py."""

from highwater.dst.script import LOST, MANY, Alone, Script, fails_with, refuses_a_cache, same
from highwater.impl.errors import NotFound, OutcomeUnknown, Unavailable
from highwater.impl.protocols.baseline import Baseline, BaselineKv, InvalidRecord, body_of, record

FOLDER, INSTANCES = "db/baseline/", "db/baseline-instances/"


async def keys(alone: Alone, prefix: str) -> list[str]:
    return [entry.key.removeprefix(prefix) for entry in (await alone.real.list_page(prefix)).entries]


async def write(alone: Alone) -> None:
    base = Baseline(alone.world, "db")
    await base.write("b", b"2")
    await base.write("a", b"1")
    same(alone.sent(), ["put b", "put a"])
    same(await base.read("a"), b"1")
    await alone.raises(NotFound, base.read("c"))
    same(await base.recover(), {"a": b"1", "b": b"2"})
    same(await keys(alone, FOLDER), ["a", "b"])
    alone.sent()
    alone.fails("put", FOLDER, OutcomeUnknown)
    await alone.raises(OutcomeUnknown, base.write("c", b""))
    same(alone.sent(), ["put c"])
    await Baseline(alone.world, "").write("x", b"")
    same(await keys(alone, "baseline/"), ["x"])
    refuses_a_cache(lambda store: Baseline(alone.world._replace(store=store), "db"))


async def write_again(alone: Alone) -> None:
    base = Baseline(alone.world, "db", 2)
    alone.fails("put", FOLDER, OutcomeUnknown)
    await base.write("a", b"1")
    same(alone.sent(), ["put a"] * 2)
    same(alone.counted, ["writes_in_doubt"])
    alone.fails("put", FOLDER, OutcomeUnknown, 2)
    await alone.raises(OutcomeUnknown, base.write("b", b"1"))
    same(alone.sent(), ["put b"] * 2)
    alone.fails("put", FOLDER, Unavailable)
    await alone.raises(Unavailable, base.write("c", b"1"))
    same(alone.sent(), ["put c"])
    for attempts in (2, 3, 5):
        alone.fails("put", FOLDER, OutcomeUnknown)
        alone.fails("put", FOLDER, Unavailable, attempts - 1)
        await alone.raises(OutcomeUnknown, Baseline(alone.world, "db", attempts).write("d", b"1"))
        same(alone.sent(), ["put d"] * attempts)


async def store(alone: Alone) -> None:
    """The requests of puts and gets: an acknowledged put leaves nothing to look for."""
    kv = await BaselineKv.open(alone.world, "db")
    same(alone.sent(), ["list baseline-instances", "list baseline"])
    me = f"{1:020d}.id1"
    same(await kv.get("k"), None)
    for value in (b"1", b"2"):
        await kv.put("k", value)
        same(kv.doubtful["k"], [])
    same(await keys(alone, INSTANCES), [me])
    same(await keys(alone, FOLDER), [f"{me}.{k:020d}" for k in range(2)])
    same(len(alone.sent()), 3)
    same(await kv.get("k"), b"2")
    same(len(alone.sent()), 1)
    alone.fails("put", FOLDER, Unavailable)
    await alone.raises(Unavailable, kv.put("k", b"3"))
    same(kv.doubtful["k"], [])
    alone.fails("put", FOLDER, OutcomeUnknown)
    await alone.raises(OutcomeUnknown, kv.put("k", b"4"))
    alone.sent()
    same(await kv.get("k"), b"2")
    same([sent.partition(" ")[0] for sent in alone.sent()], ["get", "get"])
    alone.fails("put", FOLDER, LOST)
    await alone.raises(OutcomeUnknown, kv.put("k", b"5"))
    alone.fails("put", FOLDER, OutcomeUnknown)
    await alone.raises(OutcomeUnknown, kv.put("k", b"6"))
    alone.sent()
    same(await kv.get("k"), b"5")
    same(len(kv.doubtful["k"]), 1)
    same(await kv.get("k"), b"5")
    same([sent.partition(" ")[0] for sent in alone.sent()], ["get"] * 4)
    await kv.flush()
    same(alone.sent(), [])
    for value in (b"7", b"8"):
        alone.fails("put", FOLDER, LOST)
        await alone.raises(OutcomeUnknown, kv.put("k", value))
    same(await kv.get("k"), b"8")
    default = await BaselineKv.open(alone.world, "db")
    same(default.baseline.attempts, 1)


async def instances(alone: Alone) -> None:
    """Each instance takes a number above those that it finds, also above one that has only announced itself."""
    first = await BaselineKv.open(alone.world, "db")
    alone.fails("put", INSTANCES, OutcomeUnknown)
    await alone.raises(Unavailable, first.put("k", b"1"))
    same(await keys(alone, FOLDER), [])
    alone.fails("put", FOLDER, Unavailable)
    await alone.raises(Unavailable, first.put("k", b"1"))
    second = await BaselineKv.open(alone.world, "db", 2)
    same((first.me, second.me), (f"{1:020d}.id1", f"{2:020d}.id2"))
    same(second.baseline.attempts, 2)
    await second.put("k", b"2")
    await first.put("k", b"late")
    same(await (await BaselineKv.open(alone.world, "db")).get("k"), b"2")
    root = await BaselineKv.open(alone.world, "")
    await root.put("k", b"1")
    same(await keys(alone, "baseline-instances/"), [root.me])


async def strange_records(alone: Alone) -> None:
    same(body_of("key", b"value"), b"\0\0\0\3keyvalue")
    same(record("name", b"\0\0\0\3keyvalue"), ("key", b"value"))
    same(record("name", b"\0\0\0\3key"), ("key", b""))
    for body in (b"\0\0\0\4key", b"", b"\0\0\0\1\xff"):
        fails_with(InvalidRecord, lambda body=body: record("name", body))
    for name in ("strange", "x.y.z", "1.y", "\N{ARABIC-INDIC DIGIT THREE}.y.z", ".y.z"):
        await alone.real.put(FOLDER + name, body_of("k", b""))
        await alone.raises(InvalidRecord, BaselineKv.open(alone.world, "db"), name=name)
        await alone.real.delete(FOLDER + name)
    await alone.real.put(f"{INSTANCES}strange", b"")
    await alone.raises(InvalidRecord, BaselineKv.open(alone.world, "db"), name="strange")


async def many(alone: Alone) -> None:
    names = [f"{1:020d}.x.{k:020d}" for k in range(MANY)]
    for k, name in enumerate(names):
        await alone.real.put(FOLDER + name, body_of(f"{k}", b"%d" % k))
        await alone.real.put(f"{INSTANCES}{k + 1:020d}.x", b"")
    same([*await Baseline(alone.world, "db").recover()], names)
    kv = await BaselineKv.open(alone.world, "db")
    same(kv.me, f"{MANY + 1:020d}.id1")
    same([await kv.get(f"{k}") for k in (0, MANY - 1)], [b"0", b"%d" % (MANY - 1)])


SCRIPTS: tuple[Script, ...] = (write, write_again, store, instances, strange_records, many)
