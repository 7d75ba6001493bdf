"""Scripts of the boundary file, impl/protocols/boundary_object.py."""

from highwater.dst.script import LOST, Alone, Script, fails_with, refuses_a_cache, same
from highwater.impl.errors import AlreadyExists, OutcomeUnknown, PreconditionFailed, Unavailable
from highwater.impl.layout import U64, InvalidId, Namespace
from highwater.impl.protocols.boundary_object import (
    BoundaryLost,
    InvalidBoundary,
    ObjectStoreBoundaryObject,
    ObjectVersionBehindBoundary,
    parse,
)

FILES = Namespace("db", "manifest")
KEY = FILES.boundary_key
GET, ASK, CREATE, UPDATE = (f"{op} manifest.boundary" for op in ("get", "get_if_changed", "create", "update"))


def made(alone: Alone, attempts: int = 100) -> ObjectStoreBoundaryObject:
    return ObjectStoreBoundaryObject(alone.world, FILES, attempts)


async def read(alone: Alone) -> None:
    boundary = made(alone)
    same(await boundary.read(), 0)
    same(boundary.at_least, 0)
    await alone.real.put(KEY, b"7")
    same(await boundary.read(), 7)
    same(await boundary.read(), 7)
    same(boundary.at_least, 7)
    same(alone.sent(), [GET, GET, ASK])
    alone.fails("get_if_changed", KEY, Unavailable)
    await alone.raises(Unavailable, boundary.read())


async def advance(alone: Alone) -> None:
    boundary = made(alone)
    await boundary.advance(0)
    same(alone.sent(), [GET])
    await boundary.advance(3)
    same(alone.sent(), [GET, CREATE])
    await boundary.advance(5)
    same(alone.sent(), [ASK, UPDATE])
    same(boundary.seen, (5, (await alone.real.get(KEY)).version))
    await boundary.advance(5)
    await boundary.advance(4)
    same(alone.sent(), [ASK, ASK])
    for wrong in (-1, U64):
        await alone.raises(InvalidId, boundary.advance(wrong))
    await boundary.advance(U64 - 1)
    same((await alone.real.get(KEY)).body, b"%d" % (U64 - 1))
    same(alone.counted.count("boundary_advance_attempts"), 3)
    for impossible in (-1, U64):
        await alone.raises(InvalidId, boundary.advance(impossible))
    same(alone.warnings, [])


async def advance_that_fails(alone: Alone) -> None:
    boundary = made(alone)
    alone.fails("create", KEY, lambda: alone.real.put(KEY, b"2"))  # another collector
    await boundary.advance(3)
    same(alone.sent(), [GET, CREATE, GET, UPDATE])
    alone.fails("update", KEY, LOST)
    await boundary.advance(4)
    same(alone.sent(), [ASK, UPDATE, ASK])
    alone.fails("update", KEY, lambda: alone.real.put(KEY, b"9"))
    await boundary.advance(5)
    same(alone.sent(), [ASK, UPDATE, ASK])
    same(boundary.at_least, 9)
    same(len(alone.warnings), 3)
    alone.fails("update", KEY, Unavailable)
    await alone.raises(Unavailable, boundary.advance(10))
    same(alone.sent(), [ASK, UPDATE])
    same(len(alone.warnings), 4)


async def advance_without_end(alone: Alone) -> None:
    boundary = made(alone, 3)
    alone.fails("create", KEY, AlreadyExists, 2)
    await boundary.advance(1)
    alone.fails("update", KEY, PreconditionFailed, 2)
    await boundary.advance(2)
    alone.fails("update", KEY, PreconditionFailed, 3)
    alone.sent()
    await alone.raises(OutcomeUnknown, boundary.advance(3))
    same(alone.sent(), [ASK, UPDATE] * 3)


async def check(alone: Alone) -> None:
    boundary = made(alone)
    await alone.real.put(KEY, b"7")
    await boundary.check(8)
    for file_id in (7, 1):
        await alone.raises(ObjectVersionBehindBoundary, boundary.check(file_id), id=file_id, boundary=7)
    same(alone.counted.count("stale_writes_rejected"), 2)
    same(alone.counted.count("boundary_check_latency_ms"), 3)
    same(len(alone.warnings), 2)
    for boundary_now in (10**6, 2**63):
        await alone.real.put(KEY, b"%d" % boundary_now)
        await alone.raises(ObjectVersionBehindBoundary, boundary.check(boundary_now - 1), boundary=boundary_now)
        await boundary.check(boundary_now + 1)


async def damaged(alone: Alone) -> None:
    for body in (b"", b"x", b"-1", b"1.5", b"%d" % U64, "\N{ARABIC-INDIC DIGIT THREE}".encode()):
        await alone.real.put(KEY, body)
        await alone.raises(InvalidBoundary, made(alone).read())
        fails_with(InvalidBoundary, lambda body=body: parse(KEY, body))
    same(parse(KEY, b" 7\n"), 7)
    same(parse(KEY, b"%d" % (U64 - 1)), U64 - 1)
    boundary = made(alone)
    await alone.real.put(KEY, b"7")
    await boundary.read()
    await alone.real.put(KEY, b"6")
    await alone.raises(InvalidBoundary, boundary.read())
    await alone.real.put(KEY, b"7")
    same(await boundary.read(), 7)
    await alone.real.delete(KEY)
    await alone.raises(BoundaryLost, boundary.read())


async def caches(alone: Alone) -> None:
    refuses_a_cache(lambda store: ObjectStoreBoundaryObject(alone.world._replace(store=store), FILES))


SCRIPTS: tuple[Script, ...] = (read, advance, advance_that_fails, advance_without_end, check, damaged, caches)
