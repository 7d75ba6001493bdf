"""The ledger of the soak tests (tests/support/slatedb/ledger.py) refuses each read that shows a loss."""

import pytest

from tests.support.slatedb.ledger import NOTHING, Known, Ledger

ACKNOWLEDGED = {"a": "1", "b": "2", "merged x": "p"}


def written(*more: dict[str, str | None], told: bool = True) -> Ledger:
    """A ledger with an acknowledged batch, and further ones, which are acknowledged if `told`."""
    ledger = Ledger()
    ledger.acknowledged(ledger.tried(ACKNOWLEDGED))
    for batch in more:
        places = ledger.tried(batch)
        if told:
            ledger.acknowledged(places)
    return ledger


FOUND = {"a": "1", "b": "2", "merged x": "p;"}


@pytest.mark.parametrize("found", [
    {key: FOUND[key] for key in ("a", "merged x")},  # a value is lost
    FOUND | {"a": "0"}, FOUND | {"c": "1"},  # nobody has written it
    {"a": "1", "b": "2"}, FOUND | {"merged x": "p;p;"}, FOUND | {"merged x": "q;p;"},  # an operand: lost, twice, of nobody
])
def test_a_wrong_read_is_refused(found):
    ledger = written()
    ledger.shown(FOUND, ledger.known())
    with pytest.raises(AssertionError, match="keys are wrong"):
        ledger.shown(found, ledger.known())


def test_a_deleted_key_stays_deleted():
    ledger = written({"a": None})
    without = {"b": "2", "merged x": "p;"}
    ledger.shown(without, ledger.known())
    with pytest.raises(AssertionError, match="a shows '1'"):
        ledger.shown(FOUND, ledger.known())
    ledger.shown(FOUND, NOTHING)  # as a checkpoint from before may


def test_what_is_in_doubt_may_be_there_or_not():
    ledger = written({"a": "3", "b": None, "merged x": "q"}, told=False)
    for found in (FOUND, {"a": "3", "merged x": "p;q;"}):
        ledger.shown(found, ledger.known())
    with pytest.raises(AssertionError, match="keys are wrong"):
        ledger.shown(FOUND | {"merged x": "q;"}, ledger.known())


def test_a_later_read_of_one_reader_goes_not_back():
    ledger = written({"a": "3"}, told=False)
    seen = ledger.shown(FOUND | {"a": "3"}, ledger.known())
    with pytest.raises(AssertionError, match="a shows '1'"):
        ledger.shown(FOUND, seen)


def test_operands_keep_their_order():
    ledger = written({"merged x": "q"})
    ledger.shown(FOUND | {"merged x": "p;q;"}, ledger.known())
    with pytest.raises(AssertionError, match="out of order"):
        ledger.shown(FOUND | {"merged x": "q;p;"}, ledger.known())
    assert ledger.known().newer(NOTHING) == NOTHING.newer(ledger.known()) == ledger.known()
    assert Known({"a": 1}, {}).newer(Known({"a": 0, "b": 2}, {})) == Known({"a": 1, "b": 2}, {})
