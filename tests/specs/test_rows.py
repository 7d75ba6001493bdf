"""Every row of specs/*.toml holds for its protocol's model, checked by one of our engines.

test_conform.py and `highwater verify` check the rows with FizzBee."""

import inspect
import re
from functools import cache
from importlib import import_module

import pytest

from highwater.conformance.conform import model_of
from highwater.model.core import Exploration, Model
from highwater.model.explore.reductions import Whole, merging_differs, symmetry_differs
from highwater.model.explore.tabulated import explore
from highwater.model.liveness import eventually
from highwater.specs.runs import deeper, rows

ROWS = rows()
STEMS = sorted({row.stem for row in ROWS})
SAFETY, LIVE = [row for row in ROWS if row.how != "live"], [row for row in ROWS if row.how == "live"]
PASSED, FAILED = ([row for row in SAFETY if row.expect == verdict] for verdict in ("PASSED", "FAILED"))
SMALL = [row for row in ROWS if row.states < (3_000 if row.how == "live" else 5_000)]


def named(row) -> str:
    return row.id


@cache
def instance(row_id: str) -> Model:
    return model_of(next(row for row in ROWS if row.id == row_id))


@cache
def explored(row_id: str) -> Exploration:
    return explore(instance(row_id))


@pytest.mark.parametrize("row", PASSED, ids=named)
def test_state_count_is_pinned(row):
    found = explored(row.id)
    assert (found.violated, found.complete, found.states, found.never) == (None, True, row.states, row.never)


@pytest.mark.parametrize("row", FAILED, ids=named)
def test_each_safeguard_off_fails(row):
    assert explored(row.id).violated == row.violates


@pytest.mark.parametrize("row", LIVE, ids=named)
def test_what_happens_in_the_end(row):
    assert bool(eventually(instance(row.id), [row.eventually])[row.eventually]) == (row.expect == "FAILED")


@pytest.mark.parametrize("row", [row for row in ROWS if row.deep], ids=named)
def test_what_is_deeper_is_the_same_question(row):
    """`highwater verify --deep` checks it with FizzBee."""
    larger = deeper(row)
    model = model_of(larger)
    judged = row.how != "live"
    found = explore(model if judged else model._replace(always={}, sometimes={}))
    if judged:
        assert (found.violated or "") == row.violates
    else:
        assert bool(eventually(model, [row.eventually])[row.eventually]) == (row.expect == "FAILED")
    whole = explore(model._replace(always={}, sometimes={})) if found.violated else found
    assert whole.complete and whole.states == larger.states
    assert larger.states > row.states or (row.how, larger.how) in (("check", "graph"), ("guided", "graph"))


@pytest.mark.parametrize("row", SMALL, ids=named)
def test_the_reductions_agree(row):
    of = Whole(instance(row.id), explored(row.id))
    assert symmetry_differs(of) == "" == merging_differs(of)
    if row.how != "live":
        assert of.symmetric.violated == (row.violates or None)


@pytest.mark.parametrize("stem", STEMS)
def test_every_safeguard_is_a_row(stem):
    constants = import_module(f"highwater.model.protocols.{stem}").Constants
    first = re.search(r"# Safeguards: .*\n\s+(\w+):", inspect.getsource(constants)).group(1)
    knobs = constants._fields[constants._fields.index(first):]
    assert {name for row in FAILED if row.stem == stem for name in row.constants} >= set(knobs)


# Where what no row shows can fail.
BESIDE = {"sequenced_metadata_boundary": {"KNOWN": "accepted", "BOUNDARY_FIRST": False},
          "manifest_compactions": {"CHECK": "compactions", "COMPACTORS": 3, "COLLECTORS": 1, "WRITERS": 0}}


@pytest.mark.parametrize("stem", STEMS)
def test_every_property_can_fail(stem):
    """A property fails either as the first that a row violates, or when it is checked alone."""
    module = import_module(f"highwater.model.protocols.{stem}")
    failed = [row for row in FAILED if row.stem == stem]
    held = module.ALWAYS.keys() - {row.violates for row in failed}
    beside = [module.model(module.Constants(**BESIDE[stem]))] if stem in BESIDE else []
    for of in (*(instance(row.id) for row in failed), *beside):
        held -= {name for name in sorted(held & of.always.keys())
                 if explore(of._replace(always={name: of.always[name]}, sometimes={})).violated}
    assert not held


@pytest.mark.parametrize("stem", STEMS)
def test_every_witness_is_met(stem):
    met = [instance(row.id).sometimes.keys() - {*row.never} for row in PASSED if row.stem == stem]
    assert set().union(*met) == set(import_module(f"highwater.model.protocols.{stem}").SOMETIMES)
