"""Ids in simulation: ULIDs of the client's clock, never repeated, and without choices on the tape."""

import pytest
from ulid import ULID

from highwater.dst.run_spec import Run, drawn_shape
from highwater.dst.scenarios import STEMS, named
from highwater.dst.simulate import simulate
from highwater.dst.world.ids import ClientIds

SEEDS = range(20)


def usual(seed, stem):
    """Without keys: stores of keys and values have ids of their own, which need not rise."""
    shape = drawn_shape(seed, stem)
    return Run(seed, stem, shape=shape._replace(keys=0) if stem == "baseline" else shape)


def asking(stem, given):
    """The scenario's own client, which asks for two ids before it begins, and again after each crash."""
    def build(world, *of):
        given.extend((world.clock.now_ms(), world.ids.new_id()) for _ in range(2))
        return named(stem).production(world, *of)

    return build


@pytest.mark.parametrize("stem", [stem for stem in STEMS if not named(stem).nodes])  # a node's ids decide its timeouts
def test_ids_are_a_function_of_the_run_and_given_once(stem):
    again = False
    for seed in SEEDS:
        given, other = [], []
        run = usual(seed, stem)
        outcome = simulate(run, asking(stem, given))
        simulate(run, asking(stem, other))
        assert given == other != []
        assert len({text for _, text in given}) == len(given)
        for now_ms, text in given:
            assert ULID.from_str(text).milliseconds == max(now_ms, 0) and len(text) == 26
        plain = simulate(run)
        assert outcome.tape == plain.tape
        if stem not in ("clones", "database_gc", "db_reader", "manifest_compactions", "manifest_epochs"):  # ids are names
            assert outcome.digest == plain.digest
        again = again or any(e.kind == "crash" for e in outcome.events)
    assert again, "no client has begun again"


class Still:
    def now_ms(self):
        return -5


def test_two_clients_at_one_time_and_one_that_begins_again():
    counts = [iter(range(9)), iter(range(9))]
    first, second, after_a_crash = (ClientIds(Still(), number, counts[number]) for number in (0, 1, 0))
    ids = [of.new_id() for of in (first, second, first, after_a_crash)]
    assert len(set(ids)) == 4 and all(ULID.from_str(text).milliseconds == 0 for text in ids)
