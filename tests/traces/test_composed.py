"""The mapping of a database: each part refuses what is none of its actions, and the failure names the part."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import named
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.world.faults import NONE
from highwater.impl.codecs.json.manifest import DATABASE, Checkpoint
from highwater.impl.codecs.json.ssts import name_of
from highwater.impl.codecs.json.wal import Record, WalManifest, encode_manifest
from highwater.impl.codecs.manifest import Manifest
from highwater.traces.event import Event
from highwater.traces.explain.explain import explain, replay
from highwater.traces.protocols.database.contents import (
    BUMP,
    CHECKPOINTS,
    CLAIM,
    COMPACTION,
    FLUSH,
    Change,
    change_of,
)
from highwater.traces.protocols.database.log import Log
from highwater.traces.protocols.database.parts import constants, refiners_of
from highwater.traces.protocols.database_metadata import COMPACTIONS, MANIFEST, WAL
from highwater.traces.refine import Failure
from highwater.traces.store import Store

STEM = "database_metadata"
OF = named(STEM)
SHAPE = OF.shape(writers=2, appends=2, compactors=2, compactions=1, readers=1, reads=1, operators=1, changes=2, collectors=1,
                 rounds=3, flush_every=1, min_age_ms=1, apart_ms=300, pause_ms=60, audit=False)
ONE, TWO, THREE = (name_of([Record(f"0-{i}", 1, b"0.%d" % i)]) for i in range(3))
KEPT = Checkpoint("0.1", 2, 0)


# --- the change of a manifest, by its content alone

BASE = Manifest(writer_epoch=1, compactor_epoch=1, l0=(ONE, TWO), replay_after_wal_id=3, checkpoints=(KEPT,), updates=("0.1",))


@pytest.mark.parametrize("after, change", [
    (BASE._replace(writer_epoch=2), Change(CLAIM)),
    (BASE._replace(compactor_epoch=2), Change(BUMP)),
    (BASE._replace(l0=(ONE, TWO, THREE), replay_after_wal_id=5), Change(FLUSH, (THREE,))),
    (BASE._replace(replay_after_wal_id=4), Change(FLUSH)),  # of a fence
    (BASE._replace(l0=(TWO,), compacted=(ONE,)), Change(COMPACTION, (ONE,))),
    (BASE._replace(l0=(), compacted=(ONE, TWO)), Change(COMPACTION, (ONE, TWO))),
    (BASE._replace(checkpoints=()), Change(CHECKPOINTS)),
    (BASE._replace(checkpoints=(KEPT._replace(expiry_ms=9),), updates=("0.1", "0.2")), Change(CHECKPOINTS)),
])
def test_a_change_is_one_of_one_role(after, change):
    assert change_of(DATABASE.encode(BASE), DATABASE.encode(after)) == change


@pytest.mark.parametrize("after", [
    BASE,
    BASE._replace(writer_epoch=3),
    BASE._replace(writer_epoch=2, compactor_epoch=2),
    BASE._replace(writer_epoch=2, l0=(ONE, TWO, THREE), replay_after_wal_id=5),
    BASE._replace(l0=(ONE, TWO, THREE)),  # replay_after stays
    BASE._replace(l0=(ONE, TWO, ONE), replay_after_wal_id=5),  # a record twice
    BASE._replace(l0=(TWO, ONE), replay_after_wal_id=5),
    BASE._replace(l0=(ONE,)),
    BASE._replace(l0=(ONE,), compacted=(THREE,)),
    BASE._replace(l0=(TWO,), compacted=(ONE,), checkpoints=()),
    BASE._replace(updates=()),
    BASE._replace(updates=("0.1", "0.1")),
    BASE._replace(checkpoints=(KEPT, KEPT)),
])
def test_a_difference_of_no_role_is_none(after):
    assert change_of(DATABASE.encode(BASE), DATABASE.encode(after)) is None


# --- good traces, and what is made of them

@pytest.fixture(scope="module")
def good() -> list[Outcome]:
    """Return runs without faults, of all roles."""
    found = [simulate(Run(seed, STEM, strategy="times", shape=SHAPE, weights=NONE)) for seed in range(12)]
    assert not any(of.kind for of in found), [of.signature for of in found]
    return found


def refused(events: list[Event]) -> str:
    """Return the signature of a trace's failure; "" if it passes. The store of the trace is not known."""
    trace = OF.trace_of(SHAPE)
    trace.store = Store()
    try:
        for e in events:
            trace.observe(e)
    except Failure as failure:
        return failure.signature
    return ""


def test_good_traces_pass(good):
    assert {refused(of.events) for of in good} == {""}


Edit = Callable[[list[Event], int], list[Event] | None]  # returns the events with a change at a place; None: not there


def edited(outcomes: list[Outcome], edit: Edit) -> Iterator[list[Event]]:
    for of in outcomes:
        for at in range(len(of.events)):
            if events := edit(of.events, at):
                yield events


def is_check(e: Event, key: str) -> bool:
    return e.kind == "applied" and e.key == key and e.op.startswith("get")


def without_check(of: str, role: str) -> Edit:
    """Return an edit that leaves out the read of a boundary after a create."""
    where = MANIFEST if of == "manifest" else COMPACTIONS

    def edit(events: list[Event], at: int) -> list[Event] | None:
        e = events[at]
        before = next((old for old in events[at - 1::-1] if old.client == e.client), None) if at else None
        if not (is_check(e, where.boundary_key) and e.client.startswith(role) and before and before.op == "create"):
            return None
        return [*events[:at], *events[at + 1:]]

    return edit


def without_second_read(events: list[Event], at: int) -> list[Event] | None:
    """Leave out the listing of manifests between a writer's create of a WAL object and the response."""
    e, told = events[at], next((later for later in events[at + 1:] if later.client == events[at].client), None)
    if e.op == "list" and e.key == MANIFEST.prefix and told and (told.kind, told.op) == ("told", "committed"):
        return [*events[:at], *events[at + 1:]]
    return None


def put_otherwise(kind: str, change: Callable[[Manifest, Manifest], Manifest]) -> Edit:
    """Return an edit of the content of a manifest that is put, and that makes this change. `change(before, after)`."""
    def edit(events: list[Event], at: int) -> list[Event] | None:
        e = events[at]
        if not (e.op == "create" and e.status == 200 and e.key.startswith(MANIFEST.prefix)):
            return None
        before = next((old.body for old in events[at - 1::-1] if old.op == "create" and old.status == 200 and old.key < e.key
                       and old.key.startswith(MANIFEST.prefix)), DATABASE.encode(Manifest()))
        found = change_of(before, e.body)
        if found is None or found.kind != kind:
            return None
        body = DATABASE.encode(change(DATABASE.decode(before), DATABASE.decode(e.body)))
        return [*events[:at], e._replace(body=body)]

    return edit


def deleted_too_early(events: list[Event], at: int) -> list[Event] | None:
    """Let a collector delete a WAL object that it spares, as it is ahead of replay_after."""
    e, puts = events[at], [old.body for old in events[:at] if old.op == "create" and old.status == 200
                           and old.key.startswith(MANIFEST.prefix)]
    if not (puts and e.client.startswith("Collector") and e.op == "list" and e.key == WAL.prefix and e.keys):
        return None
    if (WAL.file_id(e.keys[-1]) or 0) <= DATABASE.decode(puts[-1]).replay_after_wal_id:
        return None
    return [*events[:at + 1], Event(e.t_ms, e.request + 1, e.client, "applied", "delete", e.keys[-1], "", 204, "", b"")]


def told_otherwise(op: str, body: bytes, instead: str = "") -> Edit:
    """Return an edit of a response that names something."""
    def edit(events: list[Event], at: int) -> list[Event] | None:
        e = events[at]
        if (e.kind, e.op) != ("told", op) or not (e.body or op == "read"):
            return None
        return [*events[:at], e._replace(body=body, op=instead or op, keys=())]

    return edit


def as_before(before: Manifest, after: Manifest) -> Manifest:
    return before


@pytest.mark.parametrize("edit, signatures", [
    (without_check("manifest", "Writer"), {"refinement:wal.Writer.List", "told:flushed"}),
    (without_check("manifest", "Compactor"), {"refinement:evidence",
                                              "refinement:claims.Compactor.Read|ReadFenced|ReadLanded|ReadUnpinned"}),
    (without_check("compactions", "Compactor"), {"told:opened", "told:compacted", "refinement:evidence",
                                                 "refinement:claims.Compactor.Read|ReadFenced|ReadLanded|ReadUnpinned"}),
    (without_check("manifest", "Operator"), {"told:taken", "told:renewed", "told:dropped", "told:ended"}),
    (without_second_read, {"told:committed"}),
    (put_otherwise(CLAIM, as_before), {"refinement:history"}),
    (put_otherwise(CLAIM, lambda before, after: before._replace(writer_epoch=before.writer_epoch + 2)), {"refinement:history"}),
    (put_otherwise(BUMP, lambda before, after: after._replace(compactor_epoch=before.compactor_epoch, writer_epoch=9)),
     {"refinement:history"}),
    (put_otherwise(FLUSH, lambda before, after: after._replace(replay_after_wal_id=after.replay_after_wal_id + 1)),
     {"refinement:wal.Writer.Claim|FlushNext|LoseManifest|CheckpointNext|LoseCheckpoint"}),
    (put_otherwise(FLUSH, lambda before, after: after._replace(l0=before.l0)),
     {"refinement:wal.Writer.Claim|FlushNext|LoseManifest|CheckpointNext|LoseCheckpoint"}),
    (put_otherwise(FLUSH, lambda before, after: after._replace(l0=(*before.l0, THREE))),
     {"refinement:wal.Writer.Claim|FlushNext|LoseManifest|CheckpointNext|LoseCheckpoint"}),
    (put_otherwise(COMPACTION, lambda before, after: after._replace(compacted=before.compacted)), {"refinement:history"}),
    (deleted_too_early, {"refinement:wal.Collector.Delete"}),
    (told_otherwise("opened", b"9"), {"told:opened", "refinement:IndexError"}),
    (told_otherwise("compacted", b"", "fenced"), {"told:fenced"}),
    (told_otherwise("committed", b"1.0", "fenced"), {"told:fenced"}),
    (told_otherwise("read", b"9.9"), {"told:read"}),
    (told_otherwise("taken", b"9.9"), {"told:taken"}),
], ids=[f"edit{number}" for number in range(18)])
def test_the_right_part_refuses(good, edit, signatures):
    found = {refused(events) for events in edited(good, edit)}
    assert found and found <= signatures, found


def test_an_epoch_that_is_claimed_twice_is_refused(good):
    """Let a writer's second claim be put a second time, under the next id, by the other writer."""
    found = set()
    for of in good:
        for at, e in enumerate(of.events):
            if e.op == "create" and e.status == 200 and e.key.startswith(MANIFEST.prefix) and e.client.startswith("Writer"):
                key = MANIFEST.key((MANIFEST.file_id(e.key) or 0) + 1)
                other = "Writer#1" if e.client == "Writer#0" else "Writer#0"
                found.add(refused([*of.events[:at + 1], e._replace(request=e.request + 1_000, client=other, key=key)]))
    assert "" not in found and {signature.partition(".")[0] for signature in found} == {"refinement:manifest"}


def test_a_fence_behind_replay_after_is_one_of_an_overtaken_writer():
    """A writer lists the WAL in two pages. Between them a later writer flushes, and a collector deletes what was listed."""
    refiner = refiners_of(constants(2, 1, 1, 1, 1))["wal"]

    def log(overtaken: bool) -> Log:
        refiner.begin()
        log = Log(refiner)
        numbers = count(1)

        def asks(client: str, op: str, key: str, status: int = 200, **more: Any) -> None:
            log.request(Event(0, next(numbers), client, "applied", op, key, more.pop("condition", ""), status,
                              "v" if op == "create" else "", b"", **more))

        def claims(client: str, epoch: int, replay_after: int = 0, kind: str = CLAIM) -> None:
            form = encode_manifest(WalManifest(epoch, replay_after))
            log.put(client, Change(kind), form)
            log.decide(client, True, form)

        claims("Writer#0", 1)
        if overtaken:
            claims("Writer#1", 2)
            asks("Writer#1", "list", WAL.prefix, condition=WAL.key(0))
            asks("Writer#1", "create", WAL.key(1))
            log.observe(Event(0, next(numbers), "Writer#1", "applied", "get_if_changed", "db/wal.manifest", "v", 304, "v", b""))
        asks("Writer#0", "list", WAL.prefix, condition=WAL.key(0), keys=(WAL.key(1),) * overtaken, truncated=True)
        if overtaken:
            claims("Writer#1", 2, 1, FLUSH)
            log.observe(Event(0, next(numbers), "Collector#0", "applied", "get", "db/wal.manifest", "", 200, "v",
                              encode_manifest(WalManifest(2, 1))))
            asks("Collector#0", "delete", WAL.key(1), 204)
        asks("Writer#0", "list", WAL.prefix, condition=WAL.key(1 if overtaken else 0))
        asks("Writer#0", "create", WAL.key(2 if overtaken else 1))
        return log

    assert log(overtaken=True).there == [2] and log(overtaken=False).there == [1]


# --- explanations

def test_an_explanation_names_the_part_and_its_line(good):
    events = next(edited(good, without_check("manifest", "Writer")))
    trace = OF.trace_of(SHAPE)
    with pytest.raises(Failure) as failure:
        for e in events:
            trace.observe(e)
    text = explain(events, failure.value, OF.trace_of(SHAPE))
    assert text.startswith("refinement:wal.Writer.List\nwal: Writer#")
    assert "Writer.wal.List needs" in text and "(model/protocols/wal_fencing.py:" in text
    assert "epochs.CreateNext" in text and "wal.Claim" in text  # the steps of each part at one event


def test_a_trace_that_records_follows_the_same_states(good):
    for of in good[:3]:
        trace = OF.trace_of(SHAPE)
        trace.store = Store()
        for e in of.events:
            trace.observe(e)
        rows = replay(of.events, trace).rows
        assert rows[-1].after == trace.refiner.unpacked()[0]
        assert {part.partition(".")[0] for row in rows for _, part, _ in row.steps} == {
            "manifest", "compactions", "epochs", "claims", "wal"}
