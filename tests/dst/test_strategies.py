"""Strategies, in reading order: requests that commute; the bugs that each strategy finds in a toy; their picks on a tape."""

from collections import Counter
from copy import deepcopy
from itertools import combinations
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.dst.run_spec import Run
from highwater.dst.scenarios.sequenced_metadata_boundary import length
from highwater.dst.sim.choose import Lenient, drawing
from highwater.dst.sim.dependency import dependent
from highwater.dst.sim.kernel import Client, Event, Kernel, Request
from highwater.dst.sim.strategies import PCT, PORTFOLIO, POS, STRATEGIES, Random, racing, request_of
from highwater.dst.simulate import simulate
from highwater.dst.world.faults import NONE
from highwater.dst.world.store import SimulatedStore

# --- the dependency relation

KEYS = ["gc/m", "m/1", "m/2", "m/3", "n/1"]
BODIES = [b"a", b"b"]
VERSIONS = [SimulatedStore().put("m/1", body, 0).version for body in BODIES]
STORES = st.tuples(st.dictionaries(st.sampled_from(KEYS), st.sampled_from(BODIES)), st.sampled_from([1, 2, 1000]))
REQUESTS = st.one_of(
    st.builds(Request, st.sampled_from(["create", "put"]), st.sampled_from(KEYS), st.sampled_from(BODIES)),
    st.builds(Request, st.just("update"), st.sampled_from(KEYS), st.sampled_from(BODIES), st.sampled_from(VERSIONS)),
    st.builds(Request, st.sampled_from(["get", "head", "delete"]), st.sampled_from(KEYS)),
    st.builds(Request, st.just("get_range"), st.sampled_from(KEYS), st.just(b""), st.sampled_from(["bytes=0-0", "bytes=1-9"])),
    st.builds(Request, st.just("get_if_changed"), st.sampled_from(KEYS), st.just(b""), st.sampled_from(VERSIONS)),
    st.builds(Request, st.just("list"), st.sampled_from(["m/", "n/"]), st.just(b""), st.sampled_from(["", *KEYS])))


def commute(held: dict[str, bytes], page_size: int, one: Request, other: Request) -> bool:
    """Return whether both orders give the same replies and the same store. (Objects in the store are older than new ones.)"""
    first = SimulatedStore(page_size)
    for key, body in held.items():
        first.put(key, body, 0)
    second = deepcopy(first)

    def apply(store: SimulatedStore, request: Request) -> tuple:
        op, key, body, condition = request
        return store.apply(op, key, body, condition, 7)

    one_then_other = apply(first, one), apply(first, other)
    other_then_one = apply(second, other), apply(second, one)
    return one_then_other == other_then_one[::-1] and (first.objects, first.keys) == (second.objects, second.keys)


@settings(max_examples=1500, deadline=None, derandomize=True)
@given(STORES, REQUESTS, REQUESTS)
def test_what_is_not_dependent_commutes(store, one, other):
    assert dependent(one, other) == dependent(other, one)
    assert dependent(one, other) or commute(*store, one, other)


def test_what_is_dependent_mostly_matters():
    """For most pairs that are called dependent, there is a store in which their order matters."""
    stores = [({}, 1000), *[(dict.fromkeys(KEYS, body), 1000) for body in BODIES]]
    puts = [Request(op, key, body, version) for key in KEYS[:3] for body in BODIES
            for op, version in (("create", ""), ("put", ""), ("update", VERSIONS[0]), ("update", VERSIONS[1]))]
    others = [Request("list", "m/", b"", after) for after in ("", "m/1")] + [
        Request(op, key) for op in ("get", "head", "delete") for key in KEYS[:3]] + [
        Request("get_if_changed", key, b"", version) for key in KEYS[:3] for version in VERSIONS]
    pairs = [pair for pair in combinations(puts + others, 2) if dependent(*pair)]
    idle = [pair for pair in pairs if all(commute(*store, *pair) for store in stores)]
    assert len(idle) / len(pairs) < 0.15
    assert {tuple(sorted(request.op for request in pair)) for pair in idle} <= IDLE


# Both put the same body, or an update puts what is there already.
IDLE = {("update", "update"), ("put", "put"), ("create", "create"), ("put", "update"), ("get_if_changed", "update")}


# --- a toy: each owner has so many steps; a run is the order in which they are taken

def run_toy(strategy, seed: int, steps: dict[str, int], length: int = 0) -> str:
    """E.g. "aabab": a letter for each step."""
    strategy.begin(drawing(seed, "toy"), length or sum(steps.values()))
    taken, number = [], 0
    left = dict(steps)
    waiting = [Event(0, number := number + 1, owner, None, (owner,)) for owner in left]
    while waiting:
        event = waiting.pop(strategy.pick(waiting))
        taken.append(event.owner)
        strategy.ran(event, waiting)
        left[event.owner] -= 1
        if left[event.owner]:
            waiting.append(Event(len(taken), number := number + 1, event.owner, None, (event.owner,)))
    return "".join(taken)


BUGS = {  # depth -> (steps of each owner, the order that is the bug: that of these steps, others anywhere)
    1: ({"a": 5, "b": 5}, lambda run: run.endswith("a")),
    2: ({"a": 6, "b": 2}, lambda run: "abba" in run),
    3: ({"a": 4, "b": 4}, lambda run: "abb" in run and "bab" in run),
    4: ({"a": 2, "b": 2, "c": 1}, lambda run: run == "abcba"),  # the owner that is delayed first continues last
}


@pytest.mark.parametrize("depth", BUGS)
def test_pct_finds_a_bug_of_its_depth_as_often_as_the_theorem_says(depth):
    steps, bug = BUGS[depth]
    n, k = len(steps), sum(steps.values())
    least = 1 / (n * k ** (depth - 1))
    runs = 6000
    found = sum(bug(run_toy(PCT(depth), seed, steps)) for seed in range(runs))
    assert found >= 0.8 * least * runs, f"{found} of {runs}, where {least * runs:.1f} are promised"  # its noise: +-20 %


def test_pct_of_too_small_a_depth_does_not():
    steps, bug = BUGS[4]
    assert not any(bug(run_toy(PCT(1), seed, steps)) for seed in range(1000))
    assert not any(bug(run_toy(PCT(2), seed, steps)) for seed in range(1000))


def test_pct_draws_its_depth_and_uses_its_length():
    strategy, depths = PCT(), Counter()
    for seed in range(400):
        strategy.begin(drawing(seed, "toy"), 50)
        depths[1 + len(strategy.changes)] += 1
        assert all(1 <= step <= 50 for step in strategy.changes)
    assert set(depths) == {2, 3, 4, 5} and min(depths.values()) > 50


def test_random_takes_each_order():
    orders = Counter(run_toy(Random(), seed, {"a": 2, "b": 2}) for seed in range(3000))
    assert len(orders) == 6 and 3000 / 8 * 0.8 < orders["aabb"] < 3000 / 4 * 1.2


def put(owner: str, key: str, number: int) -> Event:
    return Event(0, number, owner, None, (Client(owner), 0, number, Request("put", key)))


def test_pos_takes_each_order_of_what_races_evenly_and_asks_no_more_of_the_rest():
    """Two owners with three puts each to one key have 20 orders. A race amid many other steps is as likely."""
    def run(strategy, seed: int, keys: dict[str, list[str]]) -> str:
        strategy.begin(drawing(seed, "toy"), 20)
        left, number, taken = {owner: list(of) for owner, of in keys.items()}, 0, []
        waiting = [put(owner, of.pop(0), number := number + 1) for owner, of in left.items()]
        while waiting:
            event = waiting.pop(strategy.pick(waiting))
            if request_of(event).key == "shared":
                taken.append(event.owner)
            strategy.ran(event, waiting)
            if left[event.owner]:
                waiting.append(put(event.owner, left[event.owner].pop(0), number := number + 1))
        return "".join(taken)

    evenly = Counter(run(POS(), seed, {"a": ["shared"] * 3, "b": ["shared"] * 3}) for seed in range(4000))
    assert len(evenly) == 20 and min(evenly.values()) > 4000 / 20 / 3
    # b's one shared put comes first, though six steps of its own lie before it, and none before a's
    lopsided = {"a": ["shared"], "b": ["own"] * 6 + ["shared"]}
    first = {of: sum(run(of(), seed, lopsided) == "ba" for seed in range(4000)) for of in (POS, Random)}
    assert first[POS] > 2 * first[Random] > 0


def test_what_is_no_request_races_with_nothing():
    request = Request("put", "k")
    assert racing(request, request) and not racing(request, None) and not racing(None, None)


def test_the_kernel_asks_the_schedule_and_time_goes_on_to_the_latest():
    taken = []
    kernel = Kernel(lambda events: len(events) - 1)
    for t_ms in (1, 5, 9):
        kernel.at(t_ms, f"at {t_ms}", lambda t_ms=t_ms: taken.append((t_ms, kernel.now_ms)))
    kernel.run(8, 100)
    assert taken == [(5, 5), (1, 5)]
    kernel.in_time()
    kernel.run(20, 100)
    assert taken[2:] == [(9, 9)]


# --- on the tape of a real run

UNTIMED = [name for name, of in STRATEGIES.items() if of]


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_tape_replays_strictly_without_its_strategy(name, monkeypatch):
    class Unasked:
        def begin(self, draw, length):
            pass

        def pick(self, events):
            raise AssertionError("the tape says what comes next")

        def ran(self, event, left):
            pass

    firsts = [simulate(Run(seed, strategy=name)) for seed in range(12)]
    assert {first.strategy for first in firsts} == {name}
    for other in UNTIMED:
        monkeypatch.setitem(STRATEGIES, other, Unasked)
    for seed, first in enumerate(firsts):
        assert (sum(site == "schedule" for site, _, _ in first.tape) > 0) == (name in UNTIMED)
        again = simulate(Run(seed, strategy="times"), tape=first.tape)
        assert (again.digest, again.kind, again.tape) == (first.digest, "", first.tape)


def test_the_portfolio_draws_all_of_them():
    drawn = Counter(simulate(Run(seed), by_model=False).strategy for seed in range(200))
    assert set(drawn) == set(PORTFOLIO) == set(STRATEGIES) and drawn["times"] > 70


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("fresh", [False, True])
def test_lenient_replay_survives_choices_taken_out_and_put_in(name, fresh):
    for seed in range(6):
        first = simulate(Run(seed, strategy=name))
        draw = drawing(seed, "edit")
        for _ in range(8):
            tape = list(first.tape)
            for _ in range(3):
                place = draw(len(tape))
                del tape[place:place + 1 + draw(4)]
                tape.insert(draw(len(tape)), ("schedule", draw(9), 9))
                tape.insert(draw(len(tape)), ("a site that is no more", 1, 2))
            edited = simulate(Run(seed), chooser=Lenient(seed, tape, fresh=fresh))
            assert edited.kind == ""
            strict = simulate(Run(seed), tape=edited.tape)
            assert (strict.digest, strict.kind) == (edited.digest, "")


def test_lenient_replay_of_the_whole_tape_is_the_run():
    for seed in range(10):
        first = simulate(Run(seed))
        assert simulate(Run(seed), chooser=Lenient(seed, first.tape)).digest == first.digest


def test_length_is_calibrated():
    """PCT's places of change are drawn from it: half of them would be in vain if it were twice as long as a run."""
    ratios = []
    for seed in range(200):
        outcome = simulate(Run(seed, strategy="random", weights=NONE), by_model=False)
        if outcome.shape.chaos > 3:  # else the run is cut short
            ratios.append(sum(site == "schedule" for site, _, _ in outcome.tape) / length(outcome.shape))
    ratios.sort()
    assert 0.5 < median(ratios) < 2
    assert ratios[len(ratios) // 10] > 0.5 and ratios[-len(ratios) // 10] < 2
