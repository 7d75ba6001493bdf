"""The composed model of a database and its clones: steps that the model of clones lacks, and bugs of the composition."""

from collections.abc import Iterator
from itertools import chain, combinations
from typing import Any

import pytest

from highwater.dst.mutants.database_clones import BUILDS
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import named
from highwater.dst.simulate import simulate
from highwater.dst.zoo import expected
from highwater.model.core import Model
from highwater.model.explore.plain import explore
from highwater.model.parts import below
from highwater.model.protocols.clones import Constants, Shared, Writer, model
from highwater.traces.explain.explain import replay, told
from highwater.traces.protocols.cloned.projection import compacted, seen_up_to
from highwater.traces.refine import Failure

STEM = "database_clones"


# --- steps that the model of clones lacks

def compacts(c: Constants, d: int, s: Shared, w: Writer) -> Iterator:
    """Replace any SSTs by one."""
    named = sorted(s.dbs[d].own.union(*(ssts for _, ssts in s.dbs[d].entries)))
    for old in chain.from_iterable(combinations(named, n) for n in range(1, len(named) + 1)) if below(w.k, c.SSTS) else ():
        after = compacted(s, d, frozenset(old), (d, w.k + 1))
        if after:
            yield (old,), after, w._replace(k=w.k + 1)


def sees(c: Constants, d: int, s: Shared, w: Writer) -> Iterator:
    for i in range(1, len(s.wal) + 1):
        if after := seen_up_to(s, d, i):
            yield (i,), after, w


def extended(c: Constants, **more: Any) -> Model:
    of = model(c)
    return of._replace(renamed={}, processes=tuple(
        one._replace(actions={**one.actions, **more}) if one.role == "Writer" else one for one in of.processes))


@pytest.mark.parametrize("constants", [
    {"SSTS": 2, "DETACHERS": 0}, {"SSTS": 2, "COLLECTORS": 0}, {"SSTS": 2, "TAKES": 2}, {"APPENDS": 2, "DETACHERS": 0},
    {"PARENTS": "01", "TAKES": 2, "TRIES": 2, "DETACHERS": 0}], ids=str)
def test_with_the_steps_of_a_database_every_property_of_clones_holds(constants):
    c = Constants(**constants)
    before, after = explore(model(c)), explore(extended(c, Compact=compacts, See=sees))
    assert after.violated is None and after.states > before.states


def test_a_step_that_names_what_is_not_there_would_break_one():
    def compacts_badly(c: Constants, d: int, s: Shared, w: Writer) -> Iterator:
        for choices, after, w2 in compacts(c, d, s, w):
            yield choices, after._replace(ssts=s.ssts), w2

    assert explore(extended(Constants(), Compact=compacts_badly)).violated == "CloneIsPinned"


# --- runs

SEEDS = {  # mutant -> its first failing seed, and the signature
    "finals_not_spared": (16, "refinement:manifest.Collector.Delete"),
    "ssts_of_checkpoints": (0, "refinement:clones.Collector.Collect"),
    "seen_not_spared": (4, "refinement:wal"),
    "others_collected": (10, "refinement:Collector.delete"),
    "pinned_last": (0, "refinement:clones.Cloner.Initialize"),
    "epoch_kept": (0, "refinement:epoch"),
    "copied_over": (0, "refinement:clones.put"),
    "copied_more": (1, "refinement:wal"),
    "not_copied": (0, "refinement:clones.Cloner.Initialize"),
    "seen_ahead": (1, "refinement:clones.create"),
    "opened_early": (6, "refinement:Writer.create"),
    "detached_from_checkpoints": (10, "refinement:clones.Detacher.Release"),
    "entry_first": (38, "refinement:clones.Detacher.Remove"),
    "entries_dropped": (0, "refinement:clones.sst"),
    "uploaded_later": (0, "refinement:clones.sst"),
    "replayed_unseen": (0, "refinement:history"),
    "entry_removed": (0, "refinement:clones.manifest"),
    "parent_released": (0, "refinement:Compactor.list"),
    "merged_dropped": (1, "refinement:history"),
    "inputs_not_pinned": (0, "refinement:history"),
}
HARM = {  # the same, judged by the store and the callers alone
    "finals_not_spared": (16, "history:manifest gone"),
    "ssts_of_checkpoints": (0, "history:sst gone"),
    "seen_not_spared": (6, "history:rows gone"),
    "others_collected": (10, "history:sst gone"),
    "copied_over": (0, "history:overwritten"),
    "not_copied": (0, "history:record not cloned"),
    "opened_early": (6, "liveness:clone"),
    "merged_dropped": (1, "history:lost update"),
}


def test_each_mutant_is_here():
    assert SEEDS.keys() == BUILDS.keys() and all(
        says.startswith(expected(name, by_model, STEM)) for by_model, found in ((True, SEEDS), (False, HARM))
        for name, (_, says) in found.items())


@pytest.mark.parametrize("name", SEEDS)
def test_a_mutant_dies_of_what_it_should(name):
    seed, says = SEEDS[name]
    assert simulate(Run(seed, STEM, mutant=name)).signature == says


@pytest.mark.parametrize("name", HARM)
def test_the_end_shows_what_it_has_done(name):
    seed, says = HARM[name]
    assert simulate(Run(seed, STEM, mutant=name), by_model=False).signature == says


def test_production_refines_and_does_all_that_it_is_about():
    """The seeds of the mutants among them."""
    found: set[str] = set()
    for seed in range(40):
        outcome = simulate(Run(seed, STEM))
        assert not outcome.kind, (seed, outcome.signature, outcome.message)
        found |= named(STEM).moments_of(outcome.events, outcome.shape)
    assert found == {"cloned", "detached", "sst collected", "clone compacted", "clone appended", "wal copied", "nested clone"}


@pytest.mark.parametrize("signature", ["refinement:clones.Cloner.Initialize", "safety:clones.CloneIsPinned"])
def test_a_failure_of_the_model_of_clones_is_explained(signature):
    outcome = simulate(Run(0, scenario=STEM, mutant="pinned_last"))
    replayed = replay(outcome.events, named(STEM).trace_of(outcome.shape))
    failure = replayed.error
    assert isinstance(failure, Failure) and failure.signature == outcome.signature == "refinement:clones.Cloner.Initialize"
    failure.signature = signature
    assert "Shared in the model" in told(replayed, failure)
