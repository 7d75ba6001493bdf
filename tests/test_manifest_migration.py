"""The migration from V1 to V2 manifests in reading order: the model's counts, its knobs, the source's sentences as cases."""

from itertools import pairwise

import pytest

from cli.conform import model_of
from model.manifest_migration import Constants, Shared, Writer, may_begin, model
from model.tabulated import explore
from specs.manifest import rows

ROWS = {row.id: row for row in rows() if row.stem == "manifest_migration"}
LENGTHS = {"migration_newer_fields_dropped": 7, "migration_out_of_order": 5, "migration_old_remains": 8,
           "migration_old_comes_late": 12}


@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.expect == "PASSED"], ids=lambda row: row.id)
def test_it_holds(row):
    found = explore(model_of(row))
    assert (found.violated, found.states, found.complete, found.never) == (None, row.states, True, ())


@pytest.mark.parametrize("name", LENGTHS)
def test_each_safeguard_off_has_its_counterexample(name):
    found = explore(model_of(ROWS[name]))
    assert (found.violated, len(found.trace) - 1) == (ROWS[name].violates, LENGTHS[name])


def test_with_everything_at_once_it_holds():
    found = explore(model(Constants(WRITERS=3, UPDATES=1, FIRST=1, MAX_PENDING=1)))
    assert (found.violated, found.states, found.complete) == (None, 30_599, True)


def test_the_late_manifest_comes_after_all_that_the_source_asks_for():
    """«Once no V1 manifests remain on disk»: none did, when phase 3 began, and nobody was in phase 1."""
    trace = explore(model_of(ROWS["migration_old_comes_late"])).trace
    (before,) = [state for (_, state), ((who, what, _), _) in pairwise(trace)
                 if what == "Upgrade" and state.shared.phases[int(who[-1])] == 2]
    assert min(before.shared.phases) == 2 and all(version == 2 for _, version, _ in before.shared.files)
    assert before.shared.pool[0][1] == 1


def test_phases_begin_in_order():
    shared = Shared(((2, 2, frozenset()),), (), (0, 1), frozenset(), False)
    assert may_begin(Constants(), shared, 1, Writer()) and not may_begin(Constants(), shared, 2, Writer())
    shared = shared._replace(phases=(2, 2))
    assert may_begin(Constants(), shared, 3, Writer(sealed=True)) and not may_begin(Constants(), shared, 3, Writer())
