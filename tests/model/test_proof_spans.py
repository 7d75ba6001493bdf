"""The facts about spans are proved for any keys; without its safeguard each has a counterexample."""

import pytest

from highwater.model.proofs.functions.spans import LEMMAS, REFUTED, counterexample


@pytest.mark.parametrize("name", LEMMAS)
def test_it_is_proved(name):
    assert counterexample(name) is None


@pytest.mark.parametrize("name, knobs", REFUTED, ids=[name for name, _ in REFUTED])
def test_without_its_safeguard_it_has_a_counterexample(name, knobs):
    assert counterexample(name, knobs)


def test_each_has_a_safeguard():
    assert list(dict.fromkeys(name for name, _ in REFUTED)) == list(LEMMAS)
