"""Random lives of the metadata index are lives of its model: after each entry the two are compared. Without a safeguard one is
not."""

from collections import Counter

import pytest

from highwater.impl.codecs.index import names
from highwater.impl.codecs.index.messages import AddBlock
from highwater.impl.index import jobs, plan_update, tombstones, units
from highwater.model.protocols import metadata_fsm as m
from tests.impl.index.test_index_stories import STORIES
from tests.impl.index.test_index_walks import WINDOW_S, Walk
from tests.support.metadata_index import block
from tests.support.metadata_refinement import Judge, NotAStep

STEPS = 150


class Judged(Walk):
    """A walk beside its model. All blocks are of one shard, and writers' blocks are anonymous."""

    def __init__(self, seed: int):
        super().__init__(seed)
        self.judge = Judge(self, STEPS)

    def put(self, command, term=None):
        answer = super().put(command, term)
        self.judge.entry(command, answer, term or self.term)
        return answer

    def step(self, healed: bool = False):
        """Let time pass, and take a turn. Units are dropped more often than in other walks."""
        self.now_s += self.chance.choice([0, 1, 5, 40, 200]) if self.chance.randrange(25) else WINDOW_S // 3
        self.chance.choice([self.write, self.write, self.retry, self.retry, self.work, self.work, self.hear, self.hear,
                            self.old_plan, self.drop, self.elect])()

    def drop(self):
        """Drop any unit, so that some older one may stay."""
        with self.machine.kv.snapshot() as rows:
            there = sorted({unit for unit, _ in units.visible(rows)})
        if there and not self.chance.randrange(6):
            self.truncate(self.chance.choice(there))

    def elect(self):
        super().elect()
        self.now_s -= self.chance.choice([0, 0, 0, 0, 2000])  # the next leader's clock is far behind

    def write(self):
        """Write a block; some clocks are ahead."""
        self.number += 1
        made = block(self.number, self.now_s + self.chance.choice([0, 0, -3, 500, 4000]))
        self.objects.add(names.block_path(made.shard, "", made.id, 0))
        self.written.append(made)
        if self.chance.randrange(4):
            self.put(AddBlock(metadata=made))


def walked(seed: int) -> Judged:
    walk = Judged(seed)
    for _ in range(STEPS):
        walk.step()
    walk.quiesce()
    return walk


@pytest.mark.parametrize("seed", range(12))
def test_each_entry_is_a_step_of_the_model(seed):
    walked(seed)


def test_the_walks_take_every_action():
    taken = sum((walked(seed).judge.taken for seed in range(7, 19)), Counter())
    late = {"Propose", "LateJob", "Show", "Age", "Elect"}  # a late plan is judged as NewJob; time and terms are set
    assert taken.keys() == (m.INDEX.keys() | m.WORKER.keys()) - late
    assert min(taken[action] for action in ("Complete", "Confirm", "Forget", "HandOut", "Truncate", "Sweep")) > 10, taken


def given_up_and_forgotten(rows, name, index, now_ns, config):
    """Pyroscope's way: nobody compacts the sources of an evicted job."""
    plan = jobs.plan(rows, name)
    jobs.delete(rows, name)
    tombstones.take_back(rows, name, plan.tombstones)


KILLED = {  # safeguard -> the first walk that is not the model's without it
    "KEEP_REMOVED": 323, "KEEP_GONE": 0, "TOMB_CHECK": 3, "HORIZON": 0, "CLOCK": 25, "BLOCK_STATE": 3, "ONE_WINDOW": 1,
    "SOURCES_WAIT": 4,
    "TERM_CHECK": 2, "DROPPED": 0, "DROPPED_KEPT": 11, "TOKEN": 2, "JOB_EXISTS": 4, "SHARD_PREFIX_BOUND": 2, "CONFIRM": 1,
    "TAKE_BACK": 1, "REQUEUE": 18,
}
PATCHES = {name: patch for name, _, *patch in STORIES} | {"REQUEUE": [plan_update, "cancel", given_up_and_forgotten]}


def test_every_safeguard_of_the_model_is_switched_off():
    """TX is the transaction of one entry: its story is in test_index_stories.py."""
    names = m.Constants._fields
    assert KILLED.keys() == {*names[names.index("TOMB_CHECK"):]} - {"TX"}


@pytest.mark.parametrize("name, seed", KILLED.items(), ids=KILLED)
def test_without_a_safeguard_a_walk_is_not_the_models(monkeypatch, name, seed):
    where, function, without = PATCHES[name]
    monkeypatch.setattr(where, function, without)
    with pytest.raises(NotAStep):
        walked(seed)
