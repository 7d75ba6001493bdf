"""The judge of a sequential object that is given as a function: known histories, and all orders tried by hand."""

import itertools
from random import Random

import pytest

from highwater.traces.histories.sequential import Call, unexplained


def appending(state: tuple, asked: tuple) -> tuple[tuple, object]:
    """A list that grows: ("append", x) returns the length, ("read",) the list."""
    if asked[0] == "read":
        return state, state
    return (*state, asked[1]), len(state) + 1


def append(value: str, called: int, returned: int | None, result: int | None = None) -> Call:
    return Call(("append", value), called, returned, result)


def read(called: int, returned: int, *result: str) -> Call:
    return Call(("read",), called, returned, result)


@pytest.mark.parametrize("history", (
    [],
    [append("a", 0, 1, 1), append("b", 2, 3, 2), read(4, 5, "a", "b")],
    [append("a", 0, 5, 2), append("b", 1, 4, 1), read(6, 7, "b", "a")],  # at once, in either order
    [append("a", 0, None), read(1, 2), read(3, 4, "a")],  # its effect came late
    [append("a", 0, None), read(1, 2), read(3, 4)],  # or never
))
def test_histories_of_a_list_are_explained(history):
    assert unexplained(history, (), appending) == ""


@pytest.mark.parametrize("history,why", (
    ([append("a", 0, 1, 1), read(2, 3)], r"1 calls have an order, .*: \('read',\) \[2, 3\] -> \(\)"),  # stale
    ([append("a", 0, 1, 1), append("b", 2, 3, 1)], "'b'"),  # one is lost
    ([append("a", 0, 1, 1), read(2, 3, "a", "a")], "'read'"),  # applied twice
    ([append("a", 0, None), read(1, 2, "a"), read(3, 4)], "'read'"),  # it was there, and is gone
    ([append("a", 2, 3, 1), read(0, 1, "a")], "'read'"),  # read before it was written
    ([append("a", 0, 1, 1), append("b", 2, 3, 2), read(4, 5, "b", "a")], "'read'"),  # time is not respected
))
def test_histories_that_no_list_has_are_not(history, why):
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(unexplained(history, (), appending))


def test_a_call_that_returned_before_it_was_made_is_no_history():
    with pytest.raises(ValueError, match="returned before it was made"):
        unexplained([append("a", 1, 1, 1)], (), appending)


def tried(history: list[Call]) -> bool:
    """Try all orders of all answered calls and any of the others."""
    answered = [call for call in history if call.returned is not None]
    others = [call for call in history if call.returned is None]
    for number in range(len(others) + 1):
        for some in itertools.combinations(others, number):
            for order in itertools.permutations([*answered, *some]):
                if in_time(order) and results(order):
                    return True
    return False


def in_time(order) -> bool:
    return not any(later.returned is not None and later.returned < earlier.called
                   for place, earlier in enumerate(order) for later in order[place + 1:])


def results(order) -> bool:
    state: tuple = ()
    for call in order:
        state, result = appending(state, call.asked)
        if call.returned is not None and result != call.result:
            return False
    return True


def test_the_search_agrees_with_all_orders_tried_by_hand():
    random, verdicts = Random(1), [0, 0]
    for _ in range(600):
        times = random.sample(range(20), 10)
        history = []
        for n, (called, returned) in enumerate(sorted(pair) for pair in zip(times[::2], times[1::2])):
            if random.random() < 0.5:
                some = tuple(random.sample(["v0", "v1", "v2"], random.randrange(3)))
                history.append(read(called, returned, *some))
            else:
                known = random.random() < 0.7
                history.append(append(f"v{n}", called, returned if known else None, random.randrange(1, 4) if known else None))
        good = tried(history)
        verdicts[good] += 1
        assert (unexplained(history, (), appending) == "") == good, history
    assert min(verdicts) > 20
