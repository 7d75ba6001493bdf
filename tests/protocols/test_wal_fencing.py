"""WAL fencing in order (counts, knobs: test_rows.py): known bugs of the real system as cases; the implementation."""

import asyncio

import pytest

from highwater.dst.mutants.wal_fencing import STAYS_OPEN, ClaimIsConcluded, StaysOpen
from highwater.dst.run_spec import Run, drawn_shape
from highwater.dst.scenarios.wal_fencing import production
from highwater.dst.simulate import simulate
from highwater.impl.codecs.json.wal import (
    InvalidWal,
    Record,
    WalManifest,
    decode_manifest,
    decode_record,
    encode_manifest,
    encode_record,
)
from highwater.impl.errors import Definite, Indefinite, OutcomeUnknown, PreconditionFailed, Unavailable
from highwater.impl.kv.wal import WalKv
from highwater.impl.layout import Namespace
from highwater.impl.protocols import wal_fencing
from highwater.impl.protocols.wal_fencing import Closed, Fenced, ManifestLost, ManifestVersionExists, Wal, collect
from highwater.impl.stores.cached import CachingStore
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from highwater.model.core import State, broken, init, moves
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.wal_fencing import ALWAYS, Constants, model, recoverable
from tests.support.stores.held import Held

pytest_plugins = ["tests.support.stores.fixtures"]


# --- the model

@pytest.mark.parametrize(("constants", "states"), [
    ({"MAX_LOST": 1}, 22_770), ({"MAX_PENDING": 1}, 42_969), ({"MAX_CRASHES": 1}, 5_672), ({"COLLECTORS": 2}, 7_152),
    ({"APPENDS": 2}, 16_860), ({"WRITERS": 3, "COLLECTORS": 0, "FLUSHES": 0}, 14_258)], ids=str)
def test_larger_instances_hold(constants, states):
    """Larger than a row may be."""
    found = explore(model(Constants(**constants)))
    assert (found.violated, found.complete, found.states) == (None, True, states)


def only(of, *names: str):
    """The model with these of its properties."""
    return of._replace(always={name: of.always[name] for name in names}, sometimes={})


# --- known bugs, each with its safeguard on as well

STALE_NEXT_ID = {"CHECK": "none"}  # 2: «stale WAL writer's next wal id was GC'd so its acked write is ignored on recovery»
FENCE_IN_COLLECTED_SLOT = {"ORDER": "list", "FENCE_AHEAD": False, "FENCE_GC": False, "CHECK": "none", "APPENDS": 2}  # 3
RESOLVED_AGAIN = {"RESOLVE_ONCE": False, "VALIDATE": "before"}  # 4: «too many or too few WALs»
NOT_FOUND_SKIPPED = {  # 4: «NotFound in replay must become Fenced»
    "MISSING_IS_FENCED": False, "VALIDATE": "before", "MAX_LOST": 1, "APPENDS": 0}
ID_BEFORE_EPOCH = {"ORDER": "fence", "COLLECTORS": 0, "FLUSHES": 0}  # 5: «wal id chosen before the epoch bump»
AHEAD_OF_FLUSHED = {"FLUSH_EXACT": False, "COLLECTORS": 0}  # 6: «replay_after_wal_id beyond what the flushed memtable holds»


@pytest.mark.parametrize(("bug", "mended", "violates"), [
    (STALE_NEXT_ID, {"CHECK": "epoch"}, "AckedIsDurable"),
    (STALE_NEXT_ID, {"FENCE_GC": False}, "AckedIsDurable"),
    (FENCE_IN_COLLECTED_SLOT, {"FENCE_AHEAD": True}, "OneWriterAcks"),
    (RESOLVED_AGAIN, {"RESOLVE_ONCE": True}, "ReplayIsContiguous"),
    (NOT_FOUND_SKIPPED, {"MISSING_IS_FENCED": True}, "ReplayIsContiguous"),
    (NOT_FOUND_SKIPPED, {"VALIDATE": "after"}, "ReplayIsContiguous"),
    (ID_BEFORE_EPOCH, {"ORDER": "claim"}, "AckedIsServed"),
    (ID_BEFORE_EPOCH, {"ORDER": "list"}, "AckedIsServed"),
    (AHEAD_OF_FLUSHED, {"FLUSH_EXACT": True}, "AckedIsDurable")], ids=str)
def test_a_known_bug_is_found_and_its_mend_holds(bug, mended, violates):
    assert explore(model(Constants(**bug))).violated == violates
    assert explore(model(Constants(**{**bug, **mended}))).violated is None


def test_a_fence_in_a_collected_slot_hides_records_even_where_appends_are_checked():
    """What the old writer acknowledged before the claim, past the slot of the fence, is not replayed."""
    constants = {**FENCE_IN_COLLECTED_SLOT, "CHECK": "epoch", "FENCE_GC": True}
    assert explore(only(model(Constants(**constants)), "AckedIsServed")).violated == "AckedIsServed"


def test_to_fence_before_the_claim_hides_records_from_the_later_writer_although_they_are_there():
    """«let two writers be open at once»: what is lost to it is in the log, past its fence."""
    found = explore(model(Constants(**ID_BEFORE_EPOCH)))
    end = found.trace[-1].state
    hidden = end.shared.acked - next(w.has for w in end.locals[:2] if w.pc == "Open" and w.epoch == end.shared.top)
    assert hidden and hidden <= recoverable(end.shared)


def test_to_check_the_boundary_alone_keeps_every_record():
    """Of replay_after, as of source 000's boundary file; who acknowledges may have been succeeded."""
    of = model(Constants(CHECK="boundary", MAX_LOST=1))
    assert explore(only(of, *(ALWAYS.keys() - {"OneWriterAcks"}))).violated is None
    assert explore(of).violated == "OneWriterAcks"


def test_what_is_replayed_after_the_range_was_resolved_again_is_too_much_or_too_little():
    of, found = model(Constants(**RESOLVED_AGAIN, MAX_LOST=1, APPENDS=0)), set()

    def told(c, s, w):
        right, got = range(w.since + 1, w.fence), [i for i, _ in w.got]
        if w.pc == "Open":
            found.update("much" for i in got if i not in right)
            found.update("little" for i in right if i not in got)
        return True

    assert explore(of._replace(always={"Told": ("Writer", told)}, sometimes={})).complete
    assert found == {"much", "little"}


# --- a few walks

def walked(of, state: State, *labels) -> State:
    for label in labels:
        state, = (step.state for step in moves(of, state) if step.label[:2] == label)
    return state


def by(i: int, *actions: str) -> list[tuple[str, str]]:
    return [(f"Writer#{i}", action) for action in actions]


START = ("ReadManifest", "Claim", "List", "CreateFence")
OPEN = (*START, "Validate")
REPLAY = (*START, "ReadNext", "Validate")


def test_the_old_writers_next_create_meets_the_fence_and_its_caller_is_told():
    of = model(Constants(APPENDS=2))
    after = walked(of, init(of), *by(0, *OPEN, "CreateNext", "Accept"), *by(1, *START, "ReadNext", "ReadNext", "Validate"),
                   *by(0, "CreateConflict"))
    old, new = after.locals[:2]
    assert after.shared.wal == (((),), ((0, 0),), ((),))
    assert (old.pc, after.shared.refused) == ("Fenced", {(0, 1)})
    assert (new.pc, new.has, new.got) == ("Open", {(0, 0)}, ((1, ()), (2, (0, 0))))


def test_an_object_that_lands_behind_the_boundary_is_not_acknowledged():
    """Bug 2, with the safeguard: the create succeeds, for the fence was collected; the read of the manifest tells."""
    of = model(Constants())
    after = walked(of, init(of), *by(0, *OPEN), *by(1, *REPLAY, "FlushNext"), ("Collector#0", "ReadManifest"))
    for slot in (1, 2):
        after, = (step.state for step in moves(of, after) if step.label == ("Collector#0", "Delete", (slot,)))
    after = walked(of, after, *by(0, "CreateNext", "Reject"))
    assert after.shared.wal[1] == ((0, 0),) and after.shared.manifest.replay_after == 2
    assert after.locals[0].pc == "Fenced" and not after.shared.acked and not after.shared.refused


def test_an_open_that_was_overtaken_may_fence_its_successor():
    """Told as it is: its fence is put in the next slot of a writer of a later epoch, which must open again; nothing is lost."""
    of = model(Constants(COLLECTORS=0))
    after = walked(of, init(of), *by(0, "ReadManifest", "Claim", "List"), *by(1, *OPEN),
                   *by(0, "FenceConflict", "CreateFence", "ReadNext", "ValidateFenced"), *by(1, "CreateConflict"))
    assert [w.pc for w in after.locals[:2]] == ["Fenced", "Fenced"] and after.shared.manifest.writer_epoch == 2


@pytest.mark.parametrize("validate", ["before", "after"])
def test_a_replay_that_is_judged_before_it_is_over_may_be_of_objects_that_are_not_of_the_log(validate):
    """Beyond what is known of the real system. Writer#1 is overtaken as it replays; what it is about to read is collected, and
    in the free slot lands a record of Writer#0, which is not acknowledged. An object that is gone would have told; this does
    not, and the writer serves a record that nobody will know later."""
    of = model(Constants(WRITERS=3, MAX_LOST=1, VALIDATE=validate))
    first, last = (["Validate"], []) if validate == "before" else ([], ["Validate"])
    start = [*START, *first]
    after = walked(of, init(of), *by(0, *start, *last),
                   *by(1, *START[:3], "LoseFence", "FenceConflict", "CreateFence", *first, "ReadNext"),
                   *by(2, *start, *["ReadNext"] * 3, *last, "FlushNext"), ("Collector#0", "ReadManifest"))
    after, = (step.state for step in moves(of, after) if step.label == ("Collector#0", "Delete", (2,)))
    after = walked(of, after, *by(0, "CreateNext", "Reject"), *by(1, "ReadNext"))
    overtaken = after.locals[1]
    if validate == "before":
        assert overtaken.pc == "Open" and overtaken.has == {(0, 0)} and not recoverable(after.shared)
        assert broken(of, after) == ["ReplayIsContiguous"]
    else:
        assert walked(of, after, *by(1, "ValidateFenced")).locals[1].pc == "Fenced"


@pytest.mark.parametrize("unknown", ["conclude", "recognise"])
def test_anothers_object_does_not_tell_that_its_own_was_never_there(unknown):
    """Beyond what is known of the real system. The record of Writer#0, whose reply was lost, is replayed, flushed and
    collected; in the free slot lands a fence that Writer#1 had sent, and no longer waits for."""
    of = model(Constants(MAX_LOST=1, MAX_PENDING=1, UNKNOWN=unknown))
    after = walked(of, init(of), *by(0, *OPEN), *by(1, *START[:3]), *by(0, "LoseCreate"),
                   *by(1, "SendFence", "FenceConflict", "CreateFence", "ReadNext", "ReadNext", "Validate", "FlushNext"),
                   ("Collector#0", "ReadManifest"))
    after, = (step.state for step in moves(of, after) if step.label == ("Collector#0", "Delete", (2,)))
    after = walked(of, after, ("", "ApplyPending"), *by(0, "CreateConflict", "ReadOther"))
    assert after.locals[0].pc == "Fenced" and after.shared.manifest.flushed == {(0, 0)} == after.locals[1].has
    assert broken(of, after) == (["RefusedIsNowhere"] if unknown == "conclude" else [])


# --- the implementation, on every store

async def opened(store, **options) -> Wal:
    return await wal_fencing.open(system_world(store), "db", **options)


def bodies(wal: Wal) -> list[bytes]:
    return [record.body for record in wal.records]


async def ids(store) -> list[int]:
    return [int(entry.key[7:27]) for entry in (await store.list_page("db/wal/")).entries]


class Told:
    """A store that notes each request, and does to some what a network may do: `faults[method]` are the fates of its next
    requests: None to pass it, or (error, whether it is applied, and what is awaited before the reply)."""

    def __init__(self, store):
        self.store, self.caches, self.seen, self.faults = store, False, [], {}

    def __getattr__(self, name: str):
        async def request(key, *rest):
            self.seen.append((name, key.removeprefix("db/")))
            fate = self.faults[name].pop(0) if self.faults.get(name) else None
            if fate is None:
                return await getattr(self.store, name)(key, *rest)
            error, applied, meanwhile = fate
            if applied:
                await getattr(self.store, name)(key, *rest)
            if meanwhile:
                await meanwhile()
            raise error
        return request


LOST = OutcomeUnknown("no reply")


def test_what_was_appended_is_there_after_any_number_of_flushes_opens_and_collections(stores):
    async def case():
        store, expected = stores.open(), []
        for round_ in range(3):
            wal = await opened(stores.open())
            assert bodies(wal) == expected and wal.epoch == round_ + 1
            for number in range(2):
                expected.append(b"%d.%d" % (round_, number))
                await wal.append(expected[-1])
            if round_ == 1:
                await wal.flush()
                await wal.flush()
                assert await collect(system_world(store), "db") == [1, 2, 3, 4, 5, 6]
        assert await ids(store) == [7, 8, 9]
        assert (await store.get("db/wal/00000000000000000007.sst")).body == b""  # a fence

    asyncio.run(case())


def test_the_requests_of_an_open_an_append_and_a_flush_are_the_models_actions():
    async def case():
        store = Told(MemoryStore())
        wal = await opened(store)
        assert store.seen == [
            ("get", "wal.manifest"), ("create", "wal.manifest"), ("list_page", "wal/"),
            ("create", "wal/00000000000000000001.sst"), ("get_if_changed", "wal.manifest")]
        store.seen.clear()
        await wal.append(b"a")
        assert store.seen == [("create", "wal/00000000000000000002.sst"), ("get_if_changed", "wal.manifest")]
        store.seen.clear()
        await wal.flush()
        assert store.seen == [("update", "wal.manifest")]
        await wal.flush()
        assert len(store.seen) == 1

    asyncio.run(case())


def test_the_old_writer_is_fenced_and_its_caller_is_told(stores):
    async def case():
        old = await opened(stores.open())
        await old.append(b"a")
        new = await opened(stores.open())
        with pytest.raises(Fenced):
            await old.append(b"b")
        with pytest.raises(Fenced):
            await old.append(b"c")
        with pytest.raises(Fenced):
            await old.flush()
        await new.append(b"d")
        assert bodies(new) == bodies(await opened(stores.open())) == [b"a", b"d"]
        assert issubclass(Fenced, Definite)

    asyncio.run(case())


def test_a_flush_of_a_writer_that_was_succeeded_is_refused(stores):
    async def case():
        old = await opened(stores.open())
        await old.append(b"a")
        await opened(stores.open())
        with pytest.raises(Fenced):
            await old.flush()

    asyncio.run(case())


async def stalled_append(stores, checked: bool):
    """Bug 2: the old writer's PUT is held; the new one opens and flushes; all is collected, the fence in the slot, too."""
    store, held = stores.open(), Held(stores.open(), "create", "wal/00000000000000000003")
    old = await opened(held)
    await old.append(b"a")
    if not checked:
        async def unchecked() -> None:
            pass
        old._refresh = unchecked
    append = asyncio.ensure_future(old.append(b"b"))
    await held.reached.wait()
    new = await opened(store)
    await new.flush()
    assert await collect(system_world(store), "db") == [1, 2, 3]
    held.release.set()
    try:
        await append
    finally:
        assert await ids(store) == [3] and bodies(await opened(store)) == [b"a"]  # it was put, and nobody replays it


def test_an_append_to_a_collected_slot_is_not_acknowledged(stores):
    with pytest.raises(OutcomeUnknown, match="succeeded by 2"):
        asyncio.run(stalled_append(stores, checked=True))


def test_without_the_check_it_is_acknowledged_and_lost(stores):
    asyncio.run(stalled_append(stores, checked=False))


def test_an_opener_that_stalls_before_its_fence_is_not_open(stores):
    """Bug 3: its fence lands in a slot that was flushed and collected."""
    async def case():
        store, held = stores.open(), Held(stores.open(), "create", "wal/00000000000000000002")
        old = await opened(store)
        late = asyncio.ensure_future(opened(held))
        await held.reached.wait()
        with pytest.raises(OutcomeUnknown):
            await old.append(b"a")  # put, but the epoch is claimed; the next writer has it
        new = await opened(store)
        await new.flush()
        assert await collect(system_world(store), "db") == [1, 2, 3]
        held.release.set()
        with pytest.raises(Fenced):
            await late
        await new.append(b"b")
        assert bodies(await opened(store)) == [b"a", b"b"]

    asyncio.run(case())


def test_a_replay_that_finds_an_object_gone_is_fenced(stores):
    """Bug 4: a third writer and a collection, while the second replays."""
    async def case():
        store, held = stores.open(), Held(stores.open(), "get", "wal/00000000000000000002")
        await (await opened(store)).append(b"a")
        second = asyncio.ensure_future(opened(held))
        await held.reached.wait()
        third = await opened(store)
        await third.append(b"b")
        await third.flush()
        assert await collect(system_world(store), "db") == [1, 2, 3, 4, 5]
        held.release.set()
        with pytest.raises(Fenced, match="gone"):
            await second

    asyncio.run(case())


def test_a_replay_that_met_what_is_not_of_the_log_is_not_served(stores):
    """The model's walk above: what was to be read next is collected, and a stale writer's record lands there."""
    async def case():
        store = stores.open()
        stale_store = Held(stores.open(), "create", "wal/00000000000000000002")
        stale = await opened(stale_store)
        append = asyncio.ensure_future(stale.append(b"stale"))
        await stale_store.reached.wait()
        held = Held(stores.open(), "get", "wal/00000000000000000002")
        told = Told(held)
        told.faults["create"] = [(LOST, True, None)]  # of its fence, so that the next slot gets another
        second = asyncio.ensure_future(opened(told))
        await held.reached.wait()
        third = await opened(store)
        await third.flush()
        assert await collect(system_world(store), "db") == [1, 2, 3, 4]
        stale_store.release.set()
        with pytest.raises(OutcomeUnknown):
            await append
        await asyncio.sleep(0)
        assert decode_record((await store.get("db/wal/00000000000000000002.sst")).body).body == b"stale"
        held.release.set()
        with pytest.raises(Fenced):
            await second
        assert bodies(await opened(store)) == []

    asyncio.run(case())


def test_a_crash_in_a_replay_that_has_been_flushed_in_part_loses_nothing(stores):
    """Bug 6: replay_after is the last id whose record is flushed, not the last that is there."""
    async def case():
        store, held = stores.open(), Held(stores.open(), "get", "wal/00000000000000000004")
        first = await opened(store)
        for body in (b"a", b"b", b"c"):
            await first.append(body)
        second = asyncio.ensure_future(opened(held, flush_every=1))
        await held.reached.wait()
        second.cancel()
        flushed = decode_manifest((await store.get("db/wal.manifest")).body)
        assert flushed.replay_after == 3 and [record.body for record in flushed.flushed] == [b"a", b"b"]
        assert await collect(system_world(store), "db") == [1, 2, 3]
        assert bodies(await opened(store, flush_every=2)) == [b"a", b"b", b"c"]

    asyncio.run(case())


def test_of_writers_that_open_at_once_each_has_an_epoch_of_its_own_and_one_at_most_appends(stores):
    async def case():
        wals = await asyncio.gather(*[opened(stores.open(), attempts=20) for _ in range(4)], return_exceptions=True)
        assert all(isinstance(wal, Wal | Fenced) for wal in wals)
        open_ = [wal for wal in wals if isinstance(wal, Wal)]
        assert len({wal.epoch for wal in open_}) == len(open_)
        done = await asyncio.gather(*[wal.append(b"%d" % wal.epoch) for wal in open_], return_exceptions=True)
        acked = [record.body for record in done if isinstance(record, Record)]
        assert len(acked) <= 1 and all(isinstance(told, Record | Fenced | OutcomeUnknown) for told in done)
        assert set(acked) <= set(bodies(await opened(stores.open())))

    asyncio.run(case())


# --- outcomes that are not known

@pytest.mark.parametrize("applied", [True, False])
def test_an_append_without_a_reply_is_put_again_and_recognised(stores, applied):
    async def case():
        store = Told(stores.open())
        wal = await opened(store)
        store.faults["create"] = [(LOST, applied, None)]
        await wal.append(b"a")
        await wal.append(b"b")
        assert bodies(await opened(stores.open())) == [b"a", b"b"]
        assert [name for name, _ in store.seen[5:9]] == (
            ["create", "create", "get", "get_if_changed"] if applied else ["create", "create", "get_if_changed", "create"])

    asyncio.run(case())


def test_what_is_in_doubt_and_meets_a_fence_stays_in_doubt(stores):
    """As its own may have been in that slot before the fence: the next test."""
    async def case():
        store = Told(stores.open())
        wal = await opened(store)
        store.faults["create"] = [(LOST, False, lambda: opened(stores.open()))]
        with pytest.raises(OutcomeUnknown, match="is taken"):
            await wal.append(b"a")
        with pytest.raises(Fenced):
            await wal.append(b"b")
        assert bodies(await opened(stores.open())) == []

    asyncio.run(case())


def test_what_is_in_doubt_was_flushed_although_another_object_is_in_its_slot():
    async def case():
        memory = MemoryStore()

        async def replaced():
            await (await opened(memory)).flush()
            await collect(system_world(memory), "db")
            await memory.create(Namespace("db", "wal").key(2), b"")  # of one that was to open, and is late

        store = Told(memory)
        wal = await opened(store)
        store.faults["create"] = [(LOST, True, replaced)]
        with pytest.raises(OutcomeUnknown, match="is taken"):
            await wal.append(b"a")
        assert bodies(await opened(memory)) == [b"a"]

    asyncio.run(case())


def test_what_is_in_doubt_and_meets_its_own_behind_a_successor_stays_in_doubt(stores):
    async def case():
        store = Told(stores.open())
        wal = await opened(store)
        store.faults["create"] = [(LOST, True, lambda: opened(stores.open()))]
        with pytest.raises(OutcomeUnknown):
            await wal.append(b"a")
        with pytest.raises(Fenced):
            await wal.append(b"b")
        assert bodies(await opened(stores.open())) == [b"a"]

    asyncio.run(case())


def test_what_is_in_doubt_and_was_collected_stays_in_doubt():
    async def case():
        memory = MemoryStore()

        async def succeed():
            await (await opened(memory)).flush()

        async def collected():
            await collect(system_world(memory), "db")

        store = Told(memory)
        wal = await opened(store)
        store.faults = {"create": [(LOST, True, succeed)], "get": [(Unavailable("not now"), False, collected)]}
        with pytest.raises(OutcomeUnknown, match="NotFound"):
            await wal.append(b"a")
        assert bodies(await opened(memory)) == [b"a"]

    asyncio.run(case())


def test_a_writer_that_never_gets_a_reply_closes_and_leaves_no_gap():
    async def case():
        store = Told(MemoryStore())
        wal = await opened(store, attempts=2)
        store.faults["create"] = [(LOST, False, None)] * 2
        with pytest.raises(OutcomeUnknown):
            await wal.append(b"a")
        for again in (wal.append(b"b"), wal.flush()):
            with pytest.raises(Closed):
                await again
        assert issubclass(Closed, Definite)
        assert bodies(await opened(store)) == []

    asyncio.run(case())


def test_an_append_whose_check_gets_no_answer_is_in_doubt():
    async def case():
        store = Told(MemoryStore())
        wal = await opened(store, attempts=2)
        store.faults["get_if_changed"] = [(Unavailable("down"), False, None)] * 2
        with pytest.raises(OutcomeUnknown):
            await wal.append(b"a")
        with pytest.raises(Closed):
            await wal.append(b"b")
        assert bodies(await opened(store)) == [b"a"]

    asyncio.run(case())


def test_an_append_that_the_store_refuses_has_not_been_done():
    async def case():
        store = Told(MemoryStore())
        wal = await opened(store)
        store.faults["create"] = [(Unavailable("slow down"), False, None)]
        with pytest.raises(Unavailable):
            await wal.append(b"a")
        await wal.append(b"b")
        assert bodies(await opened(store)) == [b"b"]

    asyncio.run(case())


@pytest.mark.parametrize("applied", [True, False])
def test_a_claim_a_fence_and_a_flush_without_a_reply_are_made_good(applied):
    async def case():
        store = Told(MemoryStore())
        await (await opened(store)).append(b"a")
        store.faults = {"update": [(LOST, applied, None)], "create": [(LOST, applied, None)]}
        wal = await opened(store)
        assert wal.epoch == (3 if applied else 2) and bodies(wal) == [b"a"] and wal.last_id == (4 if applied else 3)
        store.faults = {"update": [(LOST, applied, None)]}
        await wal.flush()
        await wal.append(b"b")
        assert bodies(await opened(store)) == [b"a", b"b"]

    asyncio.run(case())


def test_a_flush_without_a_reply_and_then_fenced_is_in_doubt():
    async def case():
        store = Told(MemoryStore())
        wal = await opened(store)
        await wal.append(b"a")
        store.faults["update"] = [(LOST, True, lambda: opened(store))]
        with pytest.raises(OutcomeUnknown, match="succeeded"):
            await wal.flush()

    asyncio.run(case())


def test_an_open_that_others_outrun_has_failed():
    async def case():
        store = Told(MemoryStore())

        async def another():
            await opened(store.store)

        async def get(key):
            found = await MemoryStore.get(store.store, key)
            await another()
            return found

        await another()
        store.get = get
        with pytest.raises(ManifestVersionExists):
            await opened(store, attempts=3)

    asyncio.run(case())


# --- what drawn runs do not find: mutants, by schedules of their own

async def opened_as(kind, store, attempts):
    wal = kind(system_world(store), "db", attempts)
    await wal._claim()
    await wal._replay(await wal._fence(), None)
    return wal


@pytest.mark.parametrize("kind, told", [(Wal, OutcomeUnknown), (ClaimIsConcluded, ManifestVersionExists)])
def test_an_open_whose_claim_had_no_reply_is_in_doubt_though_others_outrun_it_then(kind, told):
    async def case():
        store = Told(MemoryStore())
        await opened(store)
        store.faults["update"] = [(LOST, True, None), (PreconditionFailed("another was faster"), False, None)]
        with pytest.raises(told):
            await opened_as(kind, store, 2)
        manifest = decode_manifest((await store.get("db/wal.manifest")).body)
        assert manifest.writer_epoch == 2  # it has claimed one, and so fenced the first

    asyncio.run(case())


@pytest.mark.parametrize("kind, next_one, sends", [(Wal, Closed, []), (StaysOpen, Fenced, [("create", f"wal/{2:020}.sst")])])
def test_a_writer_that_cannot_read_what_it_has_met_after_a_lost_reply_is_closed(kind, next_one, sends):
    """Else its next append meets its own object, and is told of a successor that there is not."""
    async def case():
        store = Told(MemoryStore())
        wal = await opened_as(kind, store, 2)
        store.faults = {"create": [(LOST, True, None)], "get": [(Unavailable("no answer"), False, None)] * 2}
        with pytest.raises(OutcomeUnknown, match="could not be read"):
            await wal.append(b"a")
        store.seen.clear()
        with pytest.raises(next_one):
            await wal.append(b"b")
        assert store.seen == sends and bodies(await opened(store)) == [b"a"]

    asyncio.run(case())


def test_with_fewer_attempts_and_more_faults_simulation_finds_that_it_stays_open():
    build, fewer, weights = STAYS_OPEN

    def failed(build, seed):
        shape = drawn_shape(seed, "wal_fencing")._replace(**fewer)
        return simulate(Run(seed, scenario="wal_fencing", shape=shape, weights=weights), build).kind

    assert any(failed(build, seed) for seed in range(600))
    assert not any(failed(production, seed) for seed in range(200))


# --- what is there

def test_the_bytes_of_the_manifest_and_of_a_record():
    record = Record("01J", 3, b"hello")
    assert encode_record(record) == b'{"body":"aGVsbG8=","epoch":3,"id":"01J"}'
    manifest = WalManifest(4, 7, (record,))
    assert encode_manifest(manifest) == (
        b'{"flushed":[{"body":"aGVsbG8=","epoch":3,"id":"01J"}],"replay_after":7,"writer_epoch":4}')
    assert decode_record(encode_record(record)) == record and decode_record(b"") is None
    assert decode_manifest(encode_manifest(manifest)) == manifest


@pytest.mark.parametrize("garbage", [b"x", b"[]", b"{}", b'{"body":"?","epoch":1,"id":"a"}'], ids=str)
def test_garbage_is_a_clear_error_and_no_reason_to_skip_a_record(garbage):
    async def case():
        store = MemoryStore()
        await (await opened(store)).append(b"a")
        await store.put("db/wal/00000000000000000002.sst", garbage)
        with pytest.raises(InvalidWal, match="not a WAL object"):
            await opened(store)
        await store.put("db/wal.manifest", garbage)
        with pytest.raises(InvalidWal, match="not a WAL manifest"):
            await opened(store)

    asyncio.run(case())


def test_a_manifest_that_is_gone_is_an_error_and_no_acknowledgement():
    async def case():
        store = MemoryStore()
        wal = await opened(store)
        await store.delete("db/wal.manifest")
        with pytest.raises(OutcomeUnknown, match="gone"):
            await wal.append(b"a")
        assert issubclass(ManifestLost, Indefinite)

    asyncio.run(case())


def test_a_store_that_answers_from_memory_is_refused():
    with pytest.raises(ValueError, match="must not be read through a cache"):
        asyncio.run(opened(CachingStore(MemoryStore())))


# --- keys and values over it

def test_a_key_value_store_over_the_wal_reads_what_was_written(stores):
    async def case():
        kv = await WalKv.open(system_world(stores.open()), "db")
        await kv.put("a", b"1")
        await kv.put("b", b"\x00\xff")
        await kv.flush()
        await kv.put("a", b"2")
        assert [await kv.get(key) for key in "abc"] == [b"2", b"\x00\xff", None]
        again = await WalKv.open(system_world(stores.open()), "db")
        assert [await again.get(key) for key in "abc"] == [b"2", b"\x00\xff", None]
        with pytest.raises(Fenced):
            await kv.put("a", b"3")
        with pytest.raises(Fenced):
            await kv.get("a")
        assert await again.get("a") == b"2"

    asyncio.run(case())
