"""The journal of a campaign in a bucket: several drivers at once, replies that are lost, PUTs that land late. Each wave whose
driver was told that it is committed counts, no seed counts twice, and only one driver goes on."""

import asyncio
import json
from collections import Counter
from random import Random
from typing import Any

import pytest

from highwater.dst.campaign.bucket import journal
from highwater.dst.campaign.bucket.journal import Fenced, Journal, State
from highwater.dst.campaign.place import Part
from highwater.dst.campaign.what import CampaignError
from highwater.impl.errors import OutcomeUnknown, StoreError
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from highwater.impl.world import Object

LABEL = {"scenario": "some"}
SEEDS = 8


class Bad:
    """A store whose requests take their time. Replies are lost, and so are requests, or they land late."""

    def __init__(self, store: MemoryStore, random: Random):
        self.store, self.random, self.late, self.caches = store, random, [], False
        self.delete, self.list_page = store.delete, store.list_page

    async def wait(self) -> None:
        for _ in range(self.random.randrange(6)):
            await asyncio.sleep(0)

    async def get(self, key: str) -> Object:
        await self.wait()
        found = await self.store.get(key)
        await self.wait()
        return found

    async def create(self, key: str, body: bytes) -> str:
        fault = self.random.randrange(8)
        if fault == 0:  # lost, or late
            if self.random.randrange(2):
                self.late.append(asyncio.ensure_future(self.lands(key, body)))
            raise OutcomeUnknown("no reply")
        await self.wait()
        version = await self.store.create(key, body)
        await self.wait()
        if fault == 1:
            raise OutcomeUnknown("no reply")
        return version

    async def lands(self, key: str, body: bytes) -> None:
        for _ in range(self.random.randrange(60)):
            await asyncio.sleep(0)
        try:
            await self.store.create(key, body)
        except StoreError:
            pass


def part(epoch: int, seed: int) -> Part:
    return Part(f"rows/{epoch}/{seed}", 1, "", seed, seed + 1)


def missing(state: State) -> list[int]:
    return sorted(set(range(SEEDS)) - {part.low for part in state.parts})


async def drive(store: Any, told: list[Part], ends: Counter, random: Random) -> None:
    mine = Journal(system_world(store), "s3://here")
    for _ in range(random.randrange(40)):
        await asyncio.sleep(0)
    try:
        await mine.read()
        epoch = await mine.open(label=LABEL)
        for seed in missing(mine.state):
            for _ in range(random.randrange(10)):
                await asyncio.sleep(0)
            await mine.add(epoch, "wave", parts=[part(epoch, seed)])
            told.append(part(epoch, seed))
        await mine.add(epoch, "finished", summary={"by": epoch})
        ends["finished"] += 1
    except Fenced:
        ends["fenced"] += 1
    except OutcomeUnknown:
        ends["unknown"] += 1


async def campaign(seed: int, ends: Counter) -> tuple[State, list[Part]]:
    random, kept, told = Random(seed), MemoryStore(), []
    bad = Bad(kept, random)
    await asyncio.gather(*(drive(bad, told, ends, random) for _ in range(3)))
    await asyncio.gather(*bad.late)
    return await Journal(system_world(kept), "s3://here").read(), told


def judged(seeds: range) -> Counter:
    ends: Counter = Counter()
    for seed in seeds:
        state, told = asyncio.run(campaign(seed, ends))
        twice = [low for low, times in Counter(part.low for part in state.parts).items() if times > 1]
        assert not twice, f"seed {seed}: rows of {twice} count twice"
        assert set(told) <= set(state.parts), f"seed {seed}: a committed wave is lost"
        assert not state.summary or not missing(state), f"seed {seed}: finished, and seeds are missing"
    return ends


def test_three_drivers_at_once_lose_nothing_and_count_nothing_twice():
    ends = judged(range(400))
    assert min(ends["finished"], ends["fenced"]) > 100


def in_force(self: State, entry: dict, add: Any = State.add) -> None:
    """Count the waves of drivers that are no longer in force."""
    add(self, entry | {"epoch": self.epoch} if entry["kind"] == "wave" else entry)


async def not_fenced(self: Journal, epoch: int, kind: str, **fields: Any) -> None:
    """Go on although another driver has begun a later epoch."""
    while not await self._created(kind, epoch, "", fields):
        pass




def test_a_driver_that_goes_on_although_fenced_is_seen(monkeypatch):
    """Its waves do not count, though it was told that they are committed. If they counted, seeds would count twice."""
    monkeypatch.setattr(Journal, "add", not_fenced)
    with pytest.raises(AssertionError, match="a committed wave is lost"):
        judged(range(400))
    monkeypatch.setattr(State, "add", in_force)
    with pytest.raises(AssertionError, match="count twice"):
        judged(range(400))


def test_a_lost_reply_taken_for_a_conflict_is_seen(monkeypatch):
    async def created(self: Journal, kind: str, epoch: int, token: str, fields: dict) -> bool:
        before = len(self.entries)
        found = await real(self, kind, epoch, token, fields)
        return found and not (kind == "wave" and before % 3 == 0)  # told that it lost, it commits again

    real = Journal._created
    monkeypatch.setattr(Journal, "_created", created)
    with pytest.raises(AssertionError, match="count twice"):
        judged(range(50))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"id": 2, "kind": "wave", "epoch": 1, "token": "", "at_ms": 0}',
                                  b'{"id": 2, "kind": "opened", "epoch": "1", "token": "", "at_ms": 0, "label": {}}',
                                  b'{"id": 2, "kind": "other", "epoch": 1, "token": "", "at_ms": 0}', b"\xff",
                                  b'{"id": 2, "kind": "wave", "epoch": 1, "token": "", "at_ms": 0, "parts": [[1]]}',
                                  b'{"id": 3, "kind": "wave", "epoch": 1, "token": "", "at_ms": 0, "parts": []}'])
def test_a_file_that_is_no_entry_is_named(body):
    async def read() -> None:
        store = MemoryStore()
        await Journal(system_world(store), "s3://here/camp").open(label=LABEL)
        await store.create("campaign/00000000000000000002.campaign", body)
        await Journal(system_world(store), "s3://here/camp").read()

    with pytest.raises(CampaignError, match=r"campaign/0{19}2\.campaign in s3:..here.camp is no entry of a campaign"):
        asyncio.run(read())


def test_what_is_lost_is_missing_again_and_what_a_later_driver_opens_is_not_finished():
    first = {"kind": "opened", "epoch": 1, "token": "a", "at_ms": 0, "label": LABEL}
    wave = {"kind": "wave", "epoch": 1, "token": "b", "at_ms": 7, "parts": [part(1, 0), part(1, 1)]}
    lost = {"kind": "lost", "epoch": 1, "token": "c", "at_ms": 8, "names": [part(1, 0).name]}
    state = State([first, json.loads(json.dumps(wave)), lost])
    assert state.parts == [part(1, 1)] and state.waves == {2: [part(1, 1)]} and state.at_ms == {2: 7}
    state.add({"kind": "finished", "epoch": 1, "token": "d", "at_ms": 9, "summary": {"runs": 2}})
    assert state.summary
    state.add(first | {"epoch": 2})
    assert not state.summary and state.epoch == 2
    state.add(wave | {"parts": [part(1, 5)]})
    assert state.parts == [part(1, 1)] and journal.KINDS.keys() == {"opened", "wave", "lost", "finished"}


def test_an_entry_that_is_missing_before_others_is_named():
    async def read() -> None:
        store = MemoryStore()
        mine = Journal(system_world(store), "s3://here/camp")
        epoch = await mine.open(label=LABEL)
        for seed in range(3):
            await mine.add(epoch, "wave", parts=[part(epoch, seed)])
        await mine.check_end()
        await store.delete("campaign/00000000000000000002.campaign")
        again = Journal(system_world(store), "s3://here/camp")
        await again.read()
        await again.check_end()

    with pytest.raises(CampaignError, match=r"campaign/0{19}2\.campaign in s3:..here.camp is missing, and entries up to 4 are"):
        asyncio.run(read())
