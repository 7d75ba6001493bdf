"""Every mutant is killed by the expected failure; production code is not."""

import pytest

from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.mutants.sequenced_metadata_boundary import ORACLES
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import DEFAULT, mutants_of
from highwater.dst.scenarios.sequenced_metadata_boundary import production
from highwater.dst.search.hunt import hunt
from highwater.dst.simulate import simulate
from highwater.dst.zoo import CATALOGUE, expected, ids_of

BUDGET = 2_000  # as in the gate
HARMFUL = ("no_check", "check_before_create", "reported_though_refused", "delete_before_advance", "lost_reply_is_conflict",
           "refused_is_applied_again", "missing_is_asked_again")  # soon


def test_the_table_is_of_the_whole_zoo():
    assert set(ORACLES) == set(ZOO)
    assert all(by_model for by_model, _ in ORACLES.values())


def there_is(mutant: str) -> bool:
    protocol, _, name = mutant.rpartition("/")
    return name in mutants_of(protocol or DEFAULT).builds


def test_the_catalogue_is_whole_and_names_mutants_that_there_are():
    assert list(CATALOGUE) == [f"Z{i}" for i in range(1, 21)]
    for name, (what, mutants) in CATALOGUE.items():
        assert what and (isinstance(mutants, str) or all(there_is(mutant) for mutant in mutants)), name
    assert (ids_of(DEFAULT, "no_check"), ids_of(DEFAULT, "latest_deleted")) == ("Z1", "")


def test_a_mutant_of_another_protocol_is_not_labelled_by_its_name():
    assert "no_check" in mutants_of("log_gc").builds and "unchecked" in mutants_of("manifest_epochs").builds
    assert (ids_of("log_gc", "no_check"), ids_of("manifest_epochs", "unchecked")) == ("", "")
    assert (ids_of("wal_fencing", "unchecked"), ids_of("manifest_epochs", "fencing_swallowed")) == ("Z2", "Z19")


@pytest.mark.parametrize("name", ZOO)
def test_mutant_dies_of_what_it_should(name):
    waits, signatures = hunt(ZOO[name][1], 9, BUDGET)
    assert waits and all(signature.startswith(expected(name, True)) for signature in signatures), signatures


@pytest.mark.parametrize("name", HARMFUL)
def test_mutant_harms_its_callers(name):
    waits, signatures = hunt(ZOO[name][1], 3, 1500, by_model=False)
    assert waits and all(signature.startswith(expected(name, False)) for signature in signatures), signatures


def test_production_harms_nobody():
    assert hunt(production, 1, 300, by_model=False) == ([], set())


def test_a_failing_seed_fails_again_in_the_same_way():
    build = ZOO["refused_is_applied_again"][1]
    seed = next(seed for seed in range(BUDGET) if simulate(Run(seed), build).kind)
    first, again = simulate(Run(seed), build), simulate(Run(seed), build)
    assert (first.signature, first.digest, first.message) == (again.signature, again.digest, again.message)
