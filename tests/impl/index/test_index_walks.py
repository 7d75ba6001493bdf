"""Seeded walks of writers that retry, workers that die, a cleaner and three replicas: the promises hold at each step."""

import random
from collections import Counter

import pytest

from highwater.impl.codecs.index import names, snapshot
from highwater.impl.codecs.index.entries import UnknownEntry, command_of
from highwater.impl.codecs.index.entries import entry as entry_of
from highwater.impl.codecs.index.messages import AddBlock, DamagedMessage
from highwater.impl.codecs.index.snapshot import Position
from highwater.impl.index import jobs, removed, tombstones, units
from highwater.impl.index.answers import ABORTED, INVALID, OK
from highwater.impl.index.config import Config, Level, S
from highwater.impl.index.kv import MemoryKV
from highwater.impl.index.machine import Entry, Machine
from highwater.impl.stores.ordered_lmdb import LmdbKV
from tests.support.metadata_damage import damage, damaged_bytes
from tests.support.metadata_index import START_S, Story, block, progress, success

WALK = Config(query_ns=S, retry_ns=S, horizon_ns=900 * S, delay_ns=1000 * S, lease_ns=60 * S, failures=2,
              retry_failed_ns=200 * S, jobs=4, levels=(Level(3, 200 * S), Level(2, 500 * S)), tombstones=2, hand_outs=2)
WINDOW_S = 6 * 3600


class Walk(Story):
    """A random life of the index. Its chances are of one seed."""

    def __init__(self, seed: int, kv=None):
        super().__init__(WALK, kv)
        self.chance = random.Random(seed)
        self.number, self.written, self.working, self.plans_kept, self.ingested = 0, [], [], [], Counter()
        self.dropped = False

    def step(self, healed: bool = False):
        self.now_s += self.chance.choice([0, 1, 5, 40]) if self.chance.randrange(60) else WINDOW_S // 3
        choices = [self.work, self.work, self.hear] if healed else [
            self.write, self.write, self.retry, self.work, self.work, self.hear, self.hear, self.old_plan, self.truncate_one,
            self.elect]
        self.chance.choice(choices)()

    def write(self):
        self.number += 1
        made = block(self.number, self.now_s + self.chance.choice([0, 0, -3, 500]), shard=self.chance.randrange(1, 3),
                     tenant=self.chance.choice(["", "", "t"]))
        made.compaction_level = 1 if made.tenant else 0
        self.objects.add(names.block_path(made.shard, made.string_table[made.tenant], made.id, made.compaction_level))
        self.written.append(made)
        if self.chance.randrange(4) and self.add(made).code == "OK":
            self.ingested[f"d{self.number}"] += 1

    def retry(self):
        if self.written:
            made = self.chance.choice(self.written[-12:] if self.chance.randrange(3) else self.written)
            if self.add(made).code == "OK":
                self.ingested[made.string_table[-1]] += 1

    def add(self, made):
        return self.put(AddBlock(metadata=made))  # its object is written already, or deleted

    def work(self):
        """A worker polls; its answer may be lost."""
        done = self.poll(capacity=self.chance.choice([0, 1, 1, 2, 2]))
        if self.chance.randrange(5):
            self.working += done.assigned_jobs

    def hear(self):
        """A worker reports; it may die before or after, and may have lost its job."""
        if not self.working:
            return
        given = self.working.pop(self.chance.randrange(len(self.working)))
        there = self.states().get(given.state.name)
        has_lost_it = there is None or there.token != given.state.token
        match self.chance.randrange(6):
            case 0:
                return
            case 1 | 2:
                done = self.poll((progress(given),), 0)
                assert not (has_lost_it and done.updated_jobs), "who has lost its job renews it"
                self.working.append(given)
            case 3:
                plan = self.get_plan((success(given),), self.chance.randrange(3))
                self.plans_kept.append((plan, {given.state.name: self.result(given.plan)}, self.term))
            case _:
                done = self.finish(given, bool(self.chance.randrange(3)), capacity=self.chance.randrange(2))
                assert not (has_lost_it and done.completed_jobs), "who has lost its job ends it"
                if not self.chance.randrange(4):
                    self.finish(given)

    def old_plan(self):
        """A plan is proposed late, or a second time, perhaps in another term."""
        if self.plans_kept:
            plan, results, term = self.chance.choice(self.plans_kept)
            self.update_plan(plan, results, made_in=term)

    def truncate_one(self):
        if self.chance.randrange(12) == 0 and self.now_s > WINDOW_S:
            with self.machine.kv.snapshot() as rows:
                there = sorted({unit for unit, _ in units.visible(rows)})
            old = [unit for unit in there if unit.partition.end_ns < (START_S + self.now_s) * S]
            if old:
                self.dropped = True
                self.truncate(self.chance.choice(old), version=self.chance.choice([0, 0, 1]))

    def elect(self):
        if self.chance.randrange(6) == 0:
            self.term += self.chance.randrange(1, 3)
            self.put(None)
            self.now_s -= self.chance.choice([0, 0, 30])  # the next leader's clock is behind

    def quiesce(self):
        """Let all workers be well, until nothing is left to do."""
        self.working.clear()
        for _ in range(60):
            self.now_s += 300
            self.put(None)
            for given in self.poll(capacity=9).assigned_jobs:
                self.finish(given)
            self.poll((), 0, self.delete(self.overdue()))
            if not (self.waiting() or self.states() or self.tombstones()):
                return


def walked(seed: int, steps: int = 120, kv=None) -> Walk:
    walk = Walk(seed, kv)
    for _ in range(steps):
        walk.step()
        walk.check()
    return walk


@pytest.mark.parametrize("seed", range(25))
def test_the_promises_hold_at_each_step(seed):
    walk = walked(seed)
    walk.quiesce()
    walk.check()
    assert not walk.states() and not walk.waiting(), "a queued block is not compacted"
    assert not walk.tombstones(), "a removed object is not deleted"
    if not walk.dropped:
        assert set(walk.data()) == set(walk.ingested), "what was acknowledged is not there"
    else:
        assert set(walk.data()) <= set(walk.ingested)


def test_the_walks_reach_what_they_are_for():
    reached, codes = Counter(), Counter()
    real = Walk.put

    class Watched(Walk):
        def put(self, command, term=None):
            answer = real(self, command, term)
            codes[answer.code] += 1
            if answer.value is not None:
                for field in ("new_jobs", "assigned_jobs", "updated_jobs", "completed_jobs", "evicted_jobs", "deleted"):
                    reached[field] += len(getattr(answer.value, field))
            return answer

    for seed in range(12):
        walk = Watched(seed)
        for _ in range(120):
            walk.step()
        walk.quiesce()
    for field in ("new_jobs", "assigned_jobs", "updated_jobs", "completed_jobs", "deleted"):
        assert reached[field] > 20, reached
    assert codes["FAILED_PRECONDITION"] and codes["ABORTED"] and codes["OK"] > 500, codes


@pytest.mark.parametrize("seed", range(100, 106))
def test_replicas_are_equal_byte_for_byte(seed, tmp_path):
    """A map in memory, lmdb, and a replica that begins from a snapshot, at the same applied index each."""
    walk = walked(seed, 100)
    other = LmdbKV(tmp_path / "rows")
    in_lmdb, in_memory, late = Machine(other, WALK), Machine(MemoryKV(), WALK), Machine(MemoryKV(), WALK)
    cut = len(walk.log) // 2
    for number, entry in enumerate(walk.log):
        answers = [machine.apply(entry) for machine in (in_lmdb, in_memory)]
        assert answers[0] == answers[1]
        if number == cut:
            file = snapshot.encode(*in_lmdb.snapshot((1, 2, 3)))
            assert file == snapshot.encode(*in_memory.snapshot((1, 2, 3)))
            position, rows = snapshot.decode(file)
            assert position == Position(entry.index, entry.term, (1, 2, 3))
            late.restore(rows)
        if number > cut:
            late.apply(entry)
        if number % 20 == 0:
            assert in_lmdb.dump() == in_memory.dump()
    assert in_lmdb.dump() == in_memory.dump() == late.dump() == walk.machine.dump()
    other.close()


def tried(seed: int, inputs: int, folder) -> Counter:
    """Apply damaged entries to two replicas, each to the same state; return what they were answered."""
    walk, codes = Walk(seed), Counter()
    for _ in range(80):
        walk.step()
    bodies = [entry.body for entry in walk.log if entry.body]
    other = LmdbKV(folder / f"rows{seed}")
    replica = Machine(other, WALK)
    replica.restore(walk.machine.snapshot(())[1])
    for number in range(inputs):
        body = walk.chance.choice(bodies)
        if number % 3:
            command = command_of(body)
            for _ in range(walk.chance.choice([1, 1, 2, 4])):
                damage(command, walk.chance)
            body = entry_of(command)
        else:
            body = damaged_bytes(body, walk.chance)
        given = Entry(walk.machine.snapshot(())[0].index + 1, walk.chance.choice([1, walk.term]), START_S * S, body)
        before, told = walk.machine.dump(), []
        for machine in (walk.machine, replica):
            try:
                told.append(machine.apply(given).code)
            except (UnknownEntry, DamagedMessage) as error:
                told.append(type(error).__name__)
                assert machine.dump() == before
        assert told[0] == told[1] and walk.machine.dump() == replica.dump()
        codes[told[0]] += 1
    other.close()
    return codes


def test_damaged_entries_are_refused_or_answered_and_nothing_crashes(tmp_path):
    codes = sum((tried(seed, 150, tmp_path) for seed in range(8)), Counter())
    assert min(codes[code] for code in (OK, INVALID, ABORTED, "DamagedMessage")) > 20, codes


@pytest.mark.parametrize("module, function, without", [
    (removed, "is_removed", lambda rows, named: False),
    (jobs, "holds", lambda job, token: True),
    (tombstones, "take_back", lambda rows, job, carried: None),
    (tombstones, "is_inside", lambda window, ulid: True),
], ids=["TOMB_CHECK", "TOKEN", "TAKE_BACK", "SHARD_PREFIX_BOUND"])
def test_a_walk_notices(monkeypatch, module, function, without):
    monkeypatch.setattr(module, function, without)
    for seed in range(60):
        try:
            walk = walked(seed)
            walk.quiesce()
            walk.check()
            assert not walk.states() and not walk.waiting() and not walk.tombstones()
        except AssertionError:
            return
    pytest.fail("no walk has noticed")
