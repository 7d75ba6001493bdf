"""The search for an order of a log's requests agrees with trying all orders; its message if no order or no time is left."""

from itertools import combinations, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.traces.recorded.orders import NEVER, Refusal, Step, search


class Register:
    """A key with a value: what is put is read, until another is put. What a step is: ("put" | "get", value)."""

    def __init__(self):
        self.value, self.trail = 0, []

    def take(self, step):
        op, value = step.what
        if op == "get":
            return None if value == self.value else Refusal("Get", f"{value} is read, and there is {self.value}")
        self.trail.append(self.value)
        self.value = value
        return None

    def mark(self):
        return len(self.trail)

    def undo(self, mark):
        while len(self.trail) > mark:
            self.value = self.trail.pop()

    def digest(self):
        return self.value


def steps(*spans: tuple[int, int, str, int]) -> list[Step]:
    """(sent, answered, op, value)"""
    return [Step(number, sent, answered, op == "put", (op, value))
            for number, (sent, answered, op, value) in enumerate(sorted(spans))]


def has_order(given: list[Step]) -> bool:
    """Try every order, for every choice of the unanswered requests that were applied."""
    sure, doubtful = ([one for one in given if (one.answered == NEVER) == never] for never in (False, True))
    return any(fits(order) for n in range(len(doubtful) + 1) for some in combinations(doubtful, n)
               for order in permutations([*sure, *some]))


def fits(order: tuple[Step, ...]) -> bool:
    value = 0
    for at, one in enumerate(order):
        if any(later.answered < one.sent for later in order[at + 1:]):
            return False
        op, what = one.what
        if op == "get" and what != value:
            return False
        value = what if op == "put" else value
    return True


@st.composite
def logs(draw) -> list[Step]:
    n = draw(st.integers(1, 6))
    edges = draw(st.permutations(range(2 * n)))
    spans = []
    for i in range(n):
        sent, answered = sorted(edges[2 * i:2 * i + 2])
        op, value = draw(st.sampled_from(("put", "get"))), draw(st.integers(0, 2))
        spans.append((sent, NEVER if op == "put" and draw(st.integers(0, 4)) == 0 else answered, op, value))
    return steps(*spans)


@settings(max_examples=400, deadline=None)
@given(logs())
def test_it_finds_an_order_where_there_is_one_and_only_there(given):
    assert (search(given, Register()).verdict == "complete") == has_order(given)


def test_what_overlaps_may_have_come_in_another_order_than_the_answers():
    for value in (1, 2):
        assert search(steps((0, 9, "put", 1), (1, 8, "put", 2), (10, 11, "get", value)), Register()).verdict == "complete"


def test_what_has_no_answer_may_come_about_at_any_later_time_or_never():
    late = (0, NEVER, "put", 7)
    assert search(steps(late, (1, 2, "get", 0), (3, 4, "get", 7)), Register()).verdict == "complete"
    assert search(steps(late, (1, 2, "get", 0), (3, 4, "get", 0)), Register()).verdict == "complete"
    assert search(steps(late, (1, 2, "get", 7), (3, 4, "get", 0)), Register()).verdict == "stuck"


def test_where_there_is_none_it_tells_how_far_it_came_and_what_each_waits_for():
    found = search(steps((0, 1, "put", 1), (2, 3, "get", 1), (4, 5, "get", 2), (6, 7, "get", 1)), Register())
    assert (found.verdict, found.matched) == ("stuck", 2)
    (step, refusal), = found.refused
    assert (step.what, refusal.guard, refusal.why) == (("get", 2), "Get", "2 is read, and there is 1")


def test_a_point_from_which_nothing_leads_on_is_entered_once():
    """Eight puts at once, of which no order helps: 8! orders, and 8 * 2^8 points."""
    puts = [(n, 100, "put", 1 + n % 2) for n in range(8)]
    found = search(steps(*puts, (101, 102, "get", 3)), Register())
    assert found.verdict == "stuck" and found.matched == 8 and found.tried < 8 * 2 ** 8


def test_out_of_budget_is_not_a_verdict():
    puts = [(n, 100, "put", 1 + n % 2) for n in range(8)]
    assert search(steps(*puts, (101, 102, "get", 3)), Register(), budget=20).verdict == "undecided"
