"""Every known-bad implementation dies, of what one expects; production does not."""

import pytest

from cli.dst import hunt
from dst.scenarios.sequenced_metadata_boundary import production
from dst.simulate import simulate
from dst.zoo import ZOO

BUDGET = 400
DIES_OF = {  # one of the signatures seen must be this
    "no_check": "told:committed",
    "check_before_create": "refinement:Writer.Accept|Reject",
    "reported_though_refused": "told:committed",
    "one_old_writer": "told:committed",
    "cached_boundary": "told:committed",
    "delete_before_advance": "refinement:Collector.Delete",
    "boundary_moves_backward": "refinement:Collector.Advance",
    "latest_deleted": "refinement:Collector.Advance",
    "age_ignored": "history:too young",
    "checkpoints_not_spared": "refinement:Collector.Delete",
    "reads_not_checked": "told:read",
    "lost_reply_is_conflict": "refinement:Writer.CreateNext",
    "refused_is_applied_again": "refinement:Writer.CreateNext",
}
HARMS = {  # what callers alone notice, with no model
    "no_check": "history:duplicate commit",
    "check_before_create": "history:duplicate commit",
    "reported_though_refused": "history:duplicate commit",
    "delete_before_advance": "history:duplicate commit",
    "lost_reply_is_conflict": "history:applied twice",
    "refused_is_applied_again": "history:applied twice",
}


def test_the_table_is_of_the_whole_zoo():
    assert set(DIES_OF) == set(ZOO)


@pytest.mark.parametrize("name", ZOO)
def test_mutant_dies(name):
    waits, signatures = hunt(ZOO[name][1], 9, BUDGET)
    assert waits and DIES_OF[name] in signatures


@pytest.mark.parametrize("name", HARMS)
def test_mutant_harms_its_callers(name):
    waits, signatures = hunt(ZOO[name][1], 3, 1500, by_model=False)
    assert waits and HARMS[name] in signatures


def test_production_harms_nobody():
    assert hunt(production, 1, 300, by_model=False) == ([], set())


def test_a_failing_seed_fails_again_in_the_same_way():
    build = ZOO["refused_is_applied_again"][1]
    seed = next(seed for seed in range(BUDGET) if simulate(seed, build).kind)
    first, again = simulate(seed, build), simulate(seed, build)
    assert (first.signature, first.digest, first.message) == (again.signature, again.digest, again.message)
