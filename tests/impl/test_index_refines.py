"""Random lives of the metadata index are lives of its model: after each entry the two are compared. Without a safeguard one is
not."""

from collections import Counter

import pytest

from highwater.impl.codecs.index import names
from highwater.impl.codecs.index.messages import AddBlock
from highwater.impl.index import add, jobs, machine, plan_update, removed, replace, tombstones
from tests.impl.test_index_stories import only_in_a_free_tombstone, sources_that_wait_or_not
from tests.impl.test_index_walks import Walk
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

    def write(self):
        self.number += 1
        made = block(self.number, self.now_s + self.chance.choice([0, 0, -3, 500]))
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


@pytest.mark.parametrize("seed", range(20))
def test_each_entry_is_a_step_of_the_model(seed):
    walked(seed)
