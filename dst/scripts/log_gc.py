"""Scripts of a log with snapshots, impl/protocols/log_gc.py."""

from highwater.dst.script import LARGE, LOST, MANY, Alone, Script, fails_with, same
from highwater.impl.errors import NotFound, OutcomeUnknown, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import InvalidBoundary
from highwater.impl.protocols.log_gc import (
    AppendLog,
    Fold,
    InvalidSnapshot,
    NotRecovered,
    Recovered,
    texts_decoded,
    texts_encoded,
)

BOUNDARY = "log.boundary"
CHECK = f"get {BOUNDARY}"
LOG, SNAPSHOTS = Namespace("db", "log"), Namespace("db", "snapshot")


async def append_and_recover(alone: Alone) -> None:
    log = AppendLog(alone.world, "db")
    same(await log.recover(), Recovered(0, (), 0))
    same(alone.sent(), ["list snapshot", "get 1.log", CHECK])
    same([await log.append(entry) for entry in (b"a", b"\xff")], [1, 2])
    same(alone.sent(), ["list log", "create 1.log", CHECK, "create 2.log", CHECK])
    same(await log.recover(), Recovered(2, ("a", "\udcff"), 0))
    same(alone.sent(), ["list snapshot", "get 1.log", "get 2.log", "get 3.log", CHECK])
    await alone.real.create(LOG.key(3), b"another's")
    same(await log.append(b"c"), 4)
    same(alone.sent(), ["create 3.log", "create 4.log", CHECK])
    alone.fails("create", "log/", LOST)
    await alone.raises(OutcomeUnknown, log.append(b"d"))
    alone.sent()
    same(await log.append(b"e"), 6)
    same(alone.sent(), ["list log", "create 6.log", CHECK])
    alone.fails("create", "log/", "hangs")
    await alone.cancels(log.append(b"f"))
    alone.sent()
    same(await log.append(b"g"), 7)
    same(alone.sent(), ["list log", "create 7.log", CHECK])


async def snapshot(alone: Alone) -> None:
    log = AppendLog(alone.world, "db")
    same(await log.snapshot(), 0)
    for entry in (b"a", b"b"):
        await log.append(entry)
    alone.sent()
    same(await log.snapshot(), 2)
    same(alone.sent()[-1], "create 2.snapshot")
    same(await log.snapshot(), 2)
    same(alone.sent(), ["list snapshot", "get 2.snapshot", "get 3.log", CHECK])
    await log.append(b"c")
    alone.fails("create", "snapshot/", lambda: alone.real.create(SNAPSHOTS.key(3), texts_encoded(("a", "b", "c"))))
    same(await log.snapshot(), 3)
    same(await log.recover(), Recovered(3, ("a", "b", "c"), 3))


async def collect(alone: Alone) -> None:
    log = AppendLog(alone.world, "db")
    same(await log.collect(0), [])
    same(alone.sent(), ["list log"])
    for entry in b"abcd":
        await log.append(bytes([entry]))
        if entry in b"bc":
            await log.snapshot()
    alone.now += 10
    alone.sent()
    same(await log.collect(10), [])
    same(alone.sent(), ["list log", "list snapshot"])
    alone.fails("delete", "2.log", Unavailable)
    same(await log.collect(9), [1, 3])
    same(alone.sent(), ["list log", "list snapshot", "delete 2.snapshot", CHECK, f"create {BOUNDARY}", "delete 1.log",
                        "delete 2.log", "delete 3.log"])
    same((await alone.real.get(LOG.boundary_key)).body, b"3")
    same(len(alone.warnings), 1)
    await log.snapshot()
    same(await log.collect(0), [2])  # the last entry stays
    same((await log.recover()).state, ("a", "b", "c", "d"))


async def without_a_boundary(alone: Alone) -> None:
    """The essay's naive collection: no request for a boundary."""
    log = AppendLog(alone.world, "db", "min_age")
    for entry in (b"a", b"b"):
        await log.append(entry)
    same(await log.snapshot(), 2)
    alone.now += 10
    same(await log.collect(1), [1])
    same((await log.recover()).id, 2)
    same([sent for sent in alone.sent() if BOUNDARY in sent], [])
    fails_with(ValueError, lambda: AppendLog(alone.world, "db", "neither"))


async def another_fold(alone: Alone) -> None:
    """The state is the sum of all entries, which a snapshot holds in a form of its own."""
    total = Fold(100, lambda of, entry: of + int(entry), lambda of: b"total %d" % of, lambda body: int(body[6:]))
    log = AppendLog(alone.world, "db", fold=total)
    same(await log.recover(), Recovered(0, 100, 0))
    for entry in (b"1", b"2"):
        await log.append(entry)
    same(await log.snapshot(), 2)
    same((await alone.real.get(SNAPSHOTS.key(2))).body, b"total 103")
    await log.append(b"3")
    same(await log.recover(), Recovered(3, 106, 2))


async def overtaken(alone: Alone) -> None:
    """A snapshot is gone before it is read, again and again; a boundary that was read is ahead of all snapshots."""
    for times in (1, 2):
        here = Alone()
        log = AppendLog(here.world, "db", read_attempts=2)
        await log.append(b"a")
        await log.snapshot()
        here.fails("get", "1.snapshot", NotFound, times)
        here.sent()
        if times == 1:
            same((await log.recover()).id, 1)
        else:
            await here.raises(NotRecovered, log.recover())
            same(here.sent(), ["list snapshot", "get 1.snapshot"] * 2)
    log = AppendLog(alone.world, "db", read_attempts=1)
    await log.append(b"a")
    alone.fails("get", BOUNDARY, lambda: alone.real.put(LOG.boundary_key, b"1"))
    await alone.raises(NotRecovered, log.recover())
    same(alone.counted.count("recoveries_overtaken"), 1)
    await alone.raises(InvalidBoundary, log.recover())
    await alone.real.create(SNAPSHOTS.key(1), texts_encoded(("a",)))
    same((await log.recover()).snapshot, 1)


async def not_held(alone: Alone) -> None:
    """The same log appends and collects: what no snapshot holds is not deleted."""
    log = AppendLog(alone.world, "db")
    for entry in (b"a", b"b", b"c"):
        await log.append(entry)
    alone.now += 10
    same(await log.collect(9), [])
    await log.recover()
    same(await log.collect(9), [])


async def many(alone: Alone) -> None:
    for file_id in range(1, MANY + 1):
        await alone.real.create(LOG.key(file_id), b"x")
    log = AppendLog(alone.world, "db")
    same(await log.append(b"y"), MANY + 1)
    stale = AppendLog(alone.world, "other")
    same(await stale.append(b"a"), 1)
    for file_id in range(2, 102):
        await alone.real.create(Namespace("other", "log").key(file_id), b"another's")
    same(await stale.append(b"b"), 102)
    same((await log.recover()).state, (*["x"] * MANY, "y"))
    await log.snapshot()
    alone.now += 10
    same(await log.collect(9), [*range(1, MANY + 1)])
    same((await log.recover()).state, (*["x"] * MANY, "y"))


async def large_ids(alone: Alone) -> None:
    """An id may be any u64 but the last, and the boundary too: a recovery asks for the id after the last entry."""
    for latest in LARGE[:-1]:
        here = Alone()
        await here.real.create(SNAPSHOTS.key(latest - 1), texts_encoded(("a",)))
        await here.real.create(LOG.key(latest), b"b")
        log = AppendLog(here.world, "db")
        same([await log.append(b"c") for _ in range(4)], [*range(latest + 1, latest + 5)])
        same(await log.snapshot(), latest + 4)
        here.now += 10
        same(await log.collect(9), [*range(latest, latest + 4)])
        same(await log.recover(), Recovered(latest + 4, ("a", "b", *"cccc"), latest + 4))


async def strange_snapshots(alone: Alone) -> None:
    same(texts_encoded(("a", "b")), b'["a","b"]')
    same(texts_decoded(b'["a", "b"]'), ("a", "b"))
    same(texts_decoded(b"[]"), ())
    for body in (b"", b"{}", b'["a",1]', b"[1]", b'"a"'):
        fails_with(InvalidSnapshot, lambda body=body: texts_decoded(body))


SCRIPTS: tuple[Script, ...] = (append_and_recover, snapshot, collect, without_a_boundary, another_fold, overtaken,
    not_held, many, large_ids, strange_snapshots)
