"""Dead letters on a real index: what is kept is never lost, whichever request of a sweeper fails or is its last."""

import asyncio
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pytest

from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.messages import SUCCESS, PollRequest, QueryRequest, encode
from highwater.impl.errors import AlreadyExists, NotFound, OutcomeUnknown, StoreError, Unavailable
from highwater.impl.index.letters.kept import add_again, letters
from highwater.impl.index.letters.letter import ASIDE, QUEUE, REJECTED, InvalidLetter, key_of, letter_key, letter_of
from highwater.impl.index.letters.sweeper import Options, Sweeper
from highwater.impl.index.letters.writer import ADDED, KEPT, LetterTaken, Writer
from highwater.impl.index.letters.writer import Options as WriterOptions
from highwater.impl.index.library import Index, InvalidArgument, TooLate
from highwater.impl.index.service.codes import OverLimit
from highwater.impl.raft.faults import LeadershipLost, NotLeader
from highwater.impl.stores.local import LocalStore
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.world import World, list_all
from tests.impl.index.failing import Failing
from tests.impl.index.test_index_library import CONFIG, FAST, leads, result, worlds
from tests.impl.raft.virtual import run
from tests.support.metadata_index import block

ONE_BY_ONE = Options(at_once=1)
HASTY = WriterOptions(retry_ms=100, pause_ms=20, attempts=3)
TENANTS = ("t",)


class Folder(LocalStore):
    """A store of files without threads, for which virtual time does not wait."""

    async def _run(self, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)


class Scene:
    """An index and a store."""

    def __init__(self, index: Index, store: Any):
        self.index, self.store = index, store

    def world(self, store: Any = None) -> World:
        of = self.index.world
        return World(store or self.store, of.clock, of.ids, of.metrics)

    def sweeper(self, store: Any = None, add: Any = None, kind: type[Sweeper] = Sweeper,
                options: Options = ONE_BY_ONE) -> Sweeper:
        return kind(self.world(store), add or self.index.add, lambda: True, options)

    def writer(self, store: Any = None, add: Any = None) -> Writer:
        return Writer(self.world(store), add or self.index.add, HASTY)

    def made(self, number: int, ago_s: float = 0) -> Any:
        """Return a block that was made now, or so long ago."""
        now_ms = self.index.world.clock.now_ms()
        return block(number, tenant="t", ulid=ulids.made(int(now_ms - ago_s * 1000), b"\0" * 8 + number.to_bytes(2)))

    async def put(self, made: Any) -> str:
        await self.store.create(key_of(made), encode(made))
        return key_of(made)

    async def keys(self, prefix: str = "") -> list[str]:
        return [entry.key for entry in await list_all(self.store, prefix)]

    async def found(self) -> list[str]:
        """Return the ULIDs that a query finds."""
        asked = QueryRequest(tenant_id=TENANTS, start_time=0, end_time=1 << 62, query="{}")
        return [one.id for one in (await self.index.query(asked)).blocks]


@pytest.fixture(params=["memory", "folder"])
def played(request, tmp_path) -> Callable[[Any], None]:
    """Return a function that plays a story on an index in virtual time, and a store."""
    def play(story: Any) -> None:
        async def work() -> None:
            store = MemoryStore() if request.param == "memory" else Folder(str(tmp_path))
            async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
                await leads(index)
                await story(Scene(index, store))

        run(work())

    return play


def told(error: StoreError) -> Any:
    """Return an `add` that fails."""
    async def add(_: Any) -> None:
        raise error

    return add


# --- writers

def test_a_block_that_can_be_added_leaves_no_letter(played):
    async def story(scene: Scene) -> None:
        assert await scene.writer().add(made := scene.made(1)) == ADDED
        assert await scene.found() == [made.id] and await scene.keys() == []

    played(story)


def test_a_kept_block_is_a_stale_read_until_it_is_swept(played):
    """«a read fails to observe the effects of a completed write»"""
    async def story(scene: Scene) -> None:
        made = scene.made(1)
        assert await scene.writer(add=told(NotLeader("1", ""))).add(made) == KEPT
        assert await scene.keys() == [f"dlq/1/t/{made.id}/meta.pb"]
        assert await scene.found() == [], "the write has completed, and no query finds it"
        await scene.sweeper().sweep()
        assert await scene.found() == [made.id] and await scene.keys() == []

    played(story)


def test_a_block_that_the_index_refuses_for_ever_is_not_kept(played):
    async def story(scene: Scene) -> None:
        bad = scene.made(1)
        bad.min_time = 0
        for made, error in ((scene.made(2, ago_s=60), TooLate), (bad, InvalidArgument)):
            with pytest.raises(error):
                await scene.writer().add(made)
        assert await scene.keys() == []

    played(story)


@pytest.mark.parametrize("applied", [False, True])
def test_a_writer_puts_its_letter_again_until_it_is_answered(played, applied):
    async def story(scene: Scene) -> None:
        made = scene.made(1)
        assert await scene.writer(Failing(scene.store, 1, applied), told(NotLeader("1", ""))).add(made) == KEPT
        assert letter_of(key_of(made), (await scene.store.get(key_of(made))).body) == made

    played(story)


def test_a_block_is_not_kept_if_neither_index_nor_store_answers(played):
    async def story(scene: Scene) -> None:
        class Dead:
            async def create(self, key: str, body: bytes) -> str:
                raise OutcomeUnknown("lost")

        with pytest.raises(OutcomeUnknown):
            await scene.writer(Dead(), told(NotLeader("1", ""))).add(scene.made(1))

    played(story)


def test_a_letter_of_another_block_with_the_same_ulid_is_not_taken_for_this_ones(played):
    async def story(scene: Scene) -> None:
        made = scene.made(1)
        other = block(2, tenant="t", ulid=made.id)
        assert await scene.writer(add=told(NotLeader("1", ""))).add(made) == KEPT
        with pytest.raises(LetterTaken):
            await scene.writer(add=told(NotLeader("1", ""))).add(other)
        assert await scene.writer(add=told(NotLeader("1", ""))).add(made) == KEPT

    played(story)


# --- sweeps

def test_a_bad_letter_stops_nobody_and_is_kept(played):
    async def story(scene: Scene) -> None:
        invalid, good = scene.made(3), scene.made(9)
        invalid.min_time = 0
        bad = {f"dlq/1/t/{scene.made(1).id}/meta.pb": b"\xff no protobuf", "dlq/0": b"", "dlq/1/t/x/meta.pb": encode(good),
               f"dlq/2/t/{good.id}/meta.pb": encode(good), key_of(invalid): encode(invalid)}
        for key, body in bad.items():
            await scene.store.create(key, body)
        await scene.put(good)
        await scene.sweeper().sweep()
        assert await scene.found() == [good.id]
        assert await scene.keys(QUEUE) == []
        assert {key: (await scene.store.get(key)).body for key in await scene.keys()} == {
            REJECTED + key.removeprefix(QUEUE): body for key, body in bad.items()}
        assert all(letter.state == "rejected" and letter.wrong for letter in await letters(scene.store))

    played(story)


def test_an_object_that_is_no_letter_by_its_size_stays_and_stops_nobody(played):
    async def story(scene: Scene) -> None:
        await scene.store.create("dlq/0/t/huge/meta.pb", bytes((4 << 20) + 1))
        made = scene.made(1)
        await scene.put(made)
        await scene.sweeper().sweep()
        assert await scene.found() == [made.id] and await scene.keys() == ["dlq/0/t/huge/meta.pb"]

    played(story)


def test_a_second_bad_letter_under_one_key_gets_a_name_of_its_own(played):
    async def story(scene: Scene) -> None:
        key = f"dlq/1/t/{scene.made(1).id}/meta.pb"
        for body in (b"\xff1", b"\xff2", b"\xff1", b"\xff2"):
            await scene.store.create(key, body)
            await scene.sweeper().sweep()
        moved = await scene.keys()
        assert [(await scene.store.get(at)).body for at in moved] == [b"\xff1", b"\xff2"]
        assert {letter_key(at) for at in moved} == {key}

    played(story)


def test_a_letter_that_is_too_old_is_kept_aside_until_an_operator_decides(played):
    async def story(scene: Scene) -> None:
        made = scene.made(1, ago_s=60)  # the horizon is 10 s
        await scene.put(made)
        await scene.sweeper().sweep()
        aside = ASIDE + key_of(made).removeprefix(QUEUE)
        assert await scene.keys() == [aside] and await scene.found() == []
        assert [(letter.state, letter.block) for letter in await letters(scene.store)] == [("aside", made.id)]
        with pytest.raises(TooLate):
            await add_again(scene.store, aside, scene.index.add)
        assert await scene.keys() == [aside]

        async def past_horizon(of: Any) -> None:
            await scene.index.add(of, past_horizon=True)

        assert await add_again(scene.store, aside, past_horizon) == made.id
        assert await scene.found() == [made.id] and await scene.keys() == []

    played(story)


def test_an_operator_adds_a_rejected_letter_again_once_the_index_takes_it(played):
    async def story(scene: Scene) -> None:
        made = scene.made(1)
        await scene.put(made)
        await scene.sweeper(add=told(OverLimit("too many datasets"))).sweep()
        rejected = REJECTED + key_of(made).removeprefix(QUEUE)
        assert await scene.keys() == [rejected]
        assert await add_again(scene.store, rejected, scene.index.add) == made.id
        assert await scene.found() == [made.id] and await scene.keys() == []
        with pytest.raises(NotFound):
            await add_again(scene.store, rejected, scene.index.add)
        with pytest.raises(ValueError, match="no letter"):
            await add_again(scene.store, "segments/1", scene.index.add)
        await scene.store.create(rejected, b"\xff")
        with pytest.raises(InvalidLetter):
            await add_again(scene.store, rejected, scene.index.add)

    played(story)


def test_an_addition_without_an_answer_leaves_the_letter(played):
    async def story(scene: Scene) -> None:
        made = scene.made(1)
        await scene.put(made)

        async def lost(of: Any) -> None:
            await scene.index.add(of)
            raise LeadershipLost("lost")

        await scene.sweeper(add=lost).sweep()
        assert await scene.keys() == [key_of(made)] and await scene.found() == [made.id]
        await scene.sweeper().sweep()
        assert await scene.keys() == [] and await scene.found() == [made.id]

    played(story)


def test_a_node_that_does_not_lead_any_more_ends_its_sweep(played):
    async def story(scene: Scene) -> None:
        for number in range(5):
            await scene.put(scene.made(number))
        asked: list[str] = []

        async def deposed(of: Any) -> None:
            asked.append(of.id)
            raise NotLeader("1", "2")

        with pytest.raises(NotLeader):
            await scene.sweeper(add=deposed).sweep()
        assert len(asked) == 1 and len(await scene.keys()) == 5

    played(story)


def test_only_who_leads_sweeps_and_does_so_every_period():
    async def work() -> None:
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            scene, leading, sweeps = Scene(index, MemoryStore()), [False], []

            class Counted(Sweeper):
                async def sweep(self) -> None:
                    sweeps.append(self.world.clock.now_ms())
                    await super().sweep()
                    if len(sweeps) == 1:
                        raise Unavailable("lost")  # it goes on

            of = Counted(scene.world(), index.add, lambda: leading[0])
            running = asyncio.ensure_future(of.run())
            await asyncio.sleep(100)
            assert sweeps == []
            leading[0] = True
            await asyncio.sleep(60)
            assert len(sweeps) == 4 and {b - a for a, b in pairwise(sweeps)} == {15_000}
            running.cancel()

    run(work())


def test_two_sweepers_at_once_add_each_block_once(played):
    async def story(scene: Scene) -> None:
        made = [scene.made(number) for number in range(40)]
        for one in made:
            await scene.put(one)
        several = [scene.sweeper(options=Options(at_once=4)) for _ in range(2)]
        await asyncio.gather(*(one.sweep() for one in several))
        assert sorted(await scene.found()) == sorted(one.id for one in made) and await scene.keys() == []

    played(story)


def test_a_letter_that_comes_late_does_not_bring_back_a_block_that_was_compacted(played):
    async def story(scene: Scene) -> None:
        sources = [scene.made(number) for number in range(2)]
        for one in sources:
            await scene.index.add(one)
        while not (answer := await scene.index.poll(PollRequest(job_capacity=1))).compaction_jobs:
            await asyncio.sleep(0.1)
        (job,), (lease,) = answer.compaction_jobs, answer.assignments
        report = PollRequest()
        report.status_updates.add(name=job.name, token=lease.token, status=SUCCESS, compacted_blocks=result(job))
        await scene.index.poll(report)
        before = await scene.found()
        assert len(before) == 1 and before[0] not in [one.id for one in sources]
        await scene.put(sources[0])
        await scene.sweeper().sweep()
        assert await scene.found() == before and await scene.keys() == []

    played(story)


# --- each request may fail or be the last

class DeletesBeforeAdding(Sweeper):
    async def settle(self, entry: Any) -> None:
        body = (await self.world.store.get(entry.key)).body
        await self.world.store.delete(entry.key)
        try:
            await self.add(letter_of(entry.key, body))
        except InvalidLetter as error:
            await self.copy(entry.key, REJECTED, body, str(error))
        except TooLate as error:
            await self.copy(entry.key, ASIDE, body, str(error))


class DeletesBeforeCopying(Sweeper):
    async def copy(self, key: str, prefix: str, body: bytes, why: str) -> None:
        await self.world.store.delete(key)
        await super().copy(key, prefix, body, why)


class DeletesTheRejected(Sweeper):
    async def copy(self, key: str, prefix: str, body: bytes, why: str) -> None:
        if prefix != REJECTED:
            await super().copy(key, prefix, body, why)


class DeletesTheLate(Sweeper):
    async def copy(self, key: str, prefix: str, body: bytes, why: str) -> None:
        if prefix != ASIDE:
            await super().copy(key, prefix, body, why)


class TakesSilenceForAnAnswer(Sweeper):
    async def settle(self, entry: Any) -> None:
        real = self.add

        async def add(of: Any) -> None:
            try:
                await real(of)
            except LeadershipLost:
                pass

        self.add = add
        await super().settle(entry)


class EndsAtABadLetter(Sweeper):
    async def copy(self, key: str, prefix: str, body: bytes, why: str) -> None:
        raise AlreadyExists(key)

    async def one(self, entry: Any) -> None:
        await self.settle(entry)


async def harms(scene: Scene, kind: type[Sweeper]) -> list[str]:
    """Make each request of a sweeper fail or kill, and an addition go unanswered; return what is lost, and what is left."""
    harm, number = set(), 0
    for dies, applied, silent, at in product((False, True), (False, True), (False, True), range(1, 14)):
        there, number = {}, number + 3
        for n, name in enumerate(("good", "late", "bad")):
            made = scene.made(number + n, ago_s=60 if name == "late" else 0)
            await scene.store.create(key_of(made), b"\xff" if name == "bad" else encode(made))
            there[name] = made
        add = unanswered(scene.index, [there["good"].id] * silent)
        try:
            await scene.sweeper(Failing(scene.store, at, applied, dies), add, kind).sweep()
        except (asyncio.CancelledError, StoreError):
            pass
        harm |= {f"lost: {name}" for name in await lost(scene, there)}
        try:
            await scene.sweeper(kind=kind).sweep()
        except StoreError:
            pass
        harm |= {f"lost: {name}" for name in await lost(scene, there)}
        for key in await scene.keys(QUEUE):
            harm.add("left")
            await scene.store.delete(key)
    return sorted(harm)


def unanswered(index: Index, ulids_of: list[str]) -> Any:
    """Return an `add` that asks the index, but for the first addition of each of these blocks, which has neither effect nor
    answer."""
    async def add(of: Any) -> None:
        if of.id in ulids_of:
            ulids_of.remove(of.id)
            raise LeadershipLost("lost")
        await index.add(of)

    return add


async def lost(scene: Scene, there: dict[str, Any]) -> list[str]:
    keys, found = [letter_key(key) for key in await scene.keys()], await scene.found()
    return [name for name, made in there.items() if made.id not in found and key_of(made) not in keys]


def test_whichever_request_fails_or_kills_nothing_is_lost_or_left():
    async def work() -> None:
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            assert await harms(Scene(index, MemoryStore()), Sweeper) == []

    run(work())


@pytest.mark.parametrize("kind, harm", [
    (DeletesBeforeAdding, ["lost: bad", "lost: good", "lost: late"]), (DeletesBeforeCopying, ["lost: bad", "lost: late"]),
    (DeletesTheRejected, ["lost: bad"]), (DeletesTheLate, ["lost: late"]), (TakesSilenceForAnAnswer, ["lost: good"]),
    (EndsAtABadLetter, ["left"])])
def test_without_a_safeguard_that_is_noticed(kind, harm):
    async def work() -> None:
        async with Index.open(worlds("1")["1"], CONFIG, options=FAST) as index:
            await leads(index)
            assert await harms(Scene(index, MemoryStore()), kind) == harm

    run(work())
