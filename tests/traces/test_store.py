"""The store is judged by itself: each lie of a store in a good trace of each protocol is refused as a lie of the store."""

from collections import Counter
from copy import copy
from itertools import islice

import pytest

from highwater.dst.run_spec import Run
from highwater.dst.scenario import STORES, BaseShape, profile_in, rules_of
from highwater.dst.scenarios import STEMS, named
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.verdict import USUAL, beginner, options_of, recorded_of
from highwater.dst.world.profiles import PROFILES
from highwater.dst.world.store import SimulatedStore, profile_of
from highwater.traces.event import EMPTY, Event
from highwater.traces.follow import Acquaintances, follow
from highwater.traces.refine import Failure
from highwater.traces.store import ANY, Rules, Store
from tests.support.lies import Objects, lies

S3 = rules_of(profile_in(BaseShape()))
UNIQUE = rules_of(profile_of("gcs"))
LAGS = rules_of(profile_of("eventual"))
FIRST = {"p/1": ("a", b"one"), "p/3": ("c", b"three")}


def applied(op: str, key: str = "", status: int = 200, version: str = "", body: bytes = b"", condition: str = "",
            keys: str = "", more: bool = False, awaited: bool = True) -> Event:
    return EMPTY._replace(client="A#0", request=1, kind="applied", op=op, key=key, status=status, version=version, body=body,
                          condition=condition, keys=tuple(keys.split()), truncated=more, awaited=awaited)


def get(key: str, status: int = 200, version: str = "", body: bytes = b"") -> Event:
    return applied("get", key, status, version, body)


def update(key: str, condition: str, status: int = 200, version: str = "", body: bytes = b"") -> Event:
    return applied("update", key, status, version, body, condition)


def changed(key: str, condition: str, status: int = 200, version: str = "", body: bytes = b"") -> Event:
    return applied("get_if_changed", key, status, version, body, condition)


def ranged(key: str, first: int, last: int, status: int = 206, version: str = "", body: bytes = b"") -> Event:
    return applied("get_range", key, status, version, body, f"bytes={first}-{last}")


def page(keys: str, after: str = "", more: bool = False, prefix: str = "p/") -> Event:
    return applied("list", prefix, keys=keys, condition=after, more=more)


def told(store: Store, *events: Event) -> str:
    """Return why the last event is a lie; the others are none."""
    for e in events[:-1]:
        assert store.judge(e) == "", e
    return store.judge(events[-1])


PUT = applied("put", "p/2", version="b", body=b"two")
GONE = applied("delete", "p/1", 204)
TRUTHS: list[tuple[Event, ...]] = [
    (get("p/1", 200, "a", b"one"),), (get("p/2", 404),), (PUT, get("p/2", 200, "b", b"two"), page("p/1 p/2 p/3")),
    (applied("head", "p/1", version="a"),), (applied("head", "p/2", 404),),
    (applied("create", "p/2", version="b", body=b"two"),), (applied("create", "p/1", 412),),
    (GONE, get("p/1", 404), page("p/3"), applied("create", "p/1", version="a", body=b"one"), page("p/1 p/3")),
    (update("p/1", "a", 200, "x", b"new"), get("p/1", 200, "x", b"new")),
    (update("p/1", "c", 412, body=b"new"), get("p/1", 200, "a", b"one")),
    (update("p/2", "c", 404, body=b"new"), page("p/1 p/3")),
    (changed("p/1", "a", 304, "a"),), (changed("p/1", 'W/"a"', 304, "a"),), (changed("p/1", "c", 200, "a", b"one"),),
    (changed("p/2", "c", 404),),
    (ranged("p/1", 0, 1, version="a", body=b"on"),),
    (ranged("p/1", 2, 9, version="a", body=b"e"), get("p/1", 200, "a", b"one")),
    (ranged("p/1", 3, 9, 416), ranged("p/1", 0, 99, version="a", body=b"one")), (ranged("p/2", 0, 0, 404), page("p/1 p/3")),
    (ranged("p/3", 1, 2, version="c", body=b"hr"), ranged("p/3", 1, 3, version="c", body=b"hre"),
     update("p/3", "c", 200, "x", b"new"), ranged("p/3", 1, 2, version="x", body=b"ew")),
    (applied("delete", "p/2", 204),), (page("p/1", more=True), page("p/3", after="p/1")), (page("", prefix="q/"),),
    (page("p/1 p/3", prefix=""),), (page("p/3", after="p/2"),), (page("", after="p/3"),), (page("p/1 p/3", after="a"),),
]


@pytest.mark.parametrize("events", TRUTHS)
def test_truths_are_no_lies_for_a_judge_that_knows_the_beginning_and_for_one_that_does_not(events):
    assert told(Store(S3, FIRST), *events) == ""
    assert told(Store(), *events) == ""


LIES: list[tuple[str, tuple[Event, ...]]] = [  # part of the message, the events
    ("and not version z", (get("p/1", 200, "z", b"one"),)),
    ("its content is not what version a was", (get("p/1", 200, "a", b"two"),)),
    ("there is version a", (get("p/1", 404),)),
    ("there is nothing", (get("p/2", 200, "b", b"two"),)),
    ("there is nothing", (GONE, get("p/1", 200, "a", b"one"))),
    ("and not version z", (applied("head", "p/1", version="z"),)),
    ("there is version a", (applied("head", "p/1", 404),)),
    ("bytes=1-2 of version a is something else", (ranged("p/1", 1, 2, version="a", body=b"no"),)),
    ("bytes=1-2 of version a is something else", (ranged("p/1", 1, 2, version="a", body=b"n"),)),
    ("bytes=1-2 of version a is something else", (ranged("p/1", 1, 2, 416),)),
    ("bytes=3-4 of version a is something else", (ranged("p/1", 3, 4, version="a", body=b"e"),)),
    ("and not version z", (ranged("p/1", 1, 2, version="z", body=b"ne"),)),
    ("there is version a", (ranged("p/1", 1, 2, 404),)),
    ("there is nothing", (ranged("p/2", 1, 2, version="a", body=b"ne"),)),
    ("there is nothing", (GONE, ranged("p/1", 3, 4, 416))),
    ("it asks whether version a has changed", (changed("p/1", "a", 200, "a", b"one"),)),
    ("it asks whether version c has changed", (changed("p/1", "c", 304, "a"),)),
    ("there is version a, and not version c", (changed("p/1", "c", 304, "c"),)),
    ("there is version a, so it should be 412", (applied("create", "p/1", version="b", body=b"two"),)),
    ("there is version a, so it should be 412", (applied("create", "p/1", 409),)),
    ("there is nothing, so it should be 200", (applied("create", "p/2", 412),)),
    ("there is version a, so it should be 412", (update("p/1", "z", 200, "b", b"two"),)),
    ("there is version a, so it should be 200", (update("p/1", "a", 412),)),
    ("there is nothing, so it should be 404", (update("p/2", "z", 200, "b", b"two"),)),
    ("there is version a", (applied("delete", "p/1", 404),)),
    ("there is nothing", (applied("delete", "p/2", 404),)),
    ("was given before to another content", (applied("put", "p/2", version="a", body=b"two"),)),
    ("p/1 is there, and is not shown", (page("p/3"),)),
    ("p/3 is there, and is not shown", (page("p/1"),)),
    ("p/2 is there, and is not shown", (PUT, page("p/1 p/3"))),
    ("p/1 is there, and is not shown", (page("p/3", more=True),)),
    ("a key is there twice or out of order", (page("p/1 p/3 p/3"),)),
    ("a key is there twice or out of order", (page("p/3 p/1"),)),
    ("p/2, which is not there", (page("p/1 p/2 p/3"),)),
    ("p/1, which is not there", (GONE, page("p/1 p/3"))),
    ("which is not among the keys after p/1", (page("p/1 p/3", after="p/1"),)),
    ("which is not among the keys after q/", (page("p/1", prefix="q/"),)),
    ("no key follows", (page("p/1 p/3", more=True),)),
    ("not the last page", (page("", more=True),)),
    ("p/3 is there, and is not shown", (page("", after="p/1"),)),
]


@pytest.mark.parametrize(("why", "events"), LIES)
def test_lies_are_told_with_the_request_the_answer_and_what_is_there(why, events):
    lie, e = told(Store(S3, FIRST), *events), events[-1]
    assert why in lie and f"{e.op} of {e.key} by A#0, request 1, was answered with {e.status}" in lie


@pytest.mark.parametrize(("why", "events"), [  # the first events tell what the beginning was
    ("there is version a, and not version b", (get("x", 200, "a", b"1"), get("x", 200, "b", b"1"))),
    ("its content is not what version a was", (get("x", 200, "a", b"1"), get("x", 200, "a", b"2"))),
    ("there is nothing", (get("x", 404), get("x", 200, "a", b"1"))),
    ("there is an object", (applied("create", "x", 412), get("x", 404))),
    ("there is version a", (changed("x", "a", 304, "a"), applied("create", "x", version="b"))),
    ("its content is not", (applied("head", "x", version="a"), get("x", 200, "a", b"1"), get("x", 200, "a", b"2"))),
    ("there is nothing", (applied("delete", "x", 204), get("x", 200, "a", b"1"))),
    ("there is an object", (page("p/1"), get("p/1", 404))),
    ("there is nothing", (page("p/1"), get("p/2", 200, "a", b"1"))),
    ("there is nothing", (page("p/2", more=True), get("p/1", 200, "a", b"1"))),
    ("there is nothing", (page("p/2", more=True), page("", after="p/2"), applied("create", "p/9", 412))),
    ("p/1 is there", (get("p/1", 200, "a", b"1"), page("p/2"))),
    ("p/1, which is not there", (get("p/1", 404), page("p/1"))),
    ("there is nothing", (page("p/2", after="p/1", more=True), page("p/2"), applied("create", "p/9", 412))),
    ("given before", (applied("put", "x", version="a", body=b"1"), applied("put", "x", version="a", body=b"2"))),
    ("is something else", (ranged("x", 0, 2, version="a", body=b"abc"), ranged("x", 1, 3, version="a", body=b"cde"))),
    ("is something else", (ranged("x", 0, 4, version="a", body=b"abc"), ranged("x", 3, 4, version="a", body=b"d"))),
    ("is something else", (ranged("x", 0, 2, version="a", body=b"abc"), ranged("x", 2, 2, 416))),
    ("its content is not what", (ranged("x", 0, 1, version="a", body=b"ab"), get("x", 200, "a", b"acd"))),
    ("its content is not what", (ranged("x", 1, 5, version="a", body=b"b"), get("x", 200, "a", b"abc"))),
    ("of version a is something else", (get("x", 200, "a", b"ab"), ranged("x", 1, 1, version="a", body=b"a"))),
    ("there is version a", (ranged("x", 1, 1, version="a", body=b"b"), applied("head", "x", version="b"))),
    ("there is an object", (ranged("x", 1, 1, 416), get("x", 404))),
    ("there is nothing", (ranged("x", 1, 1, 404), get("x", 200, "a", b"1"))),
    ("given before", (ranged("x", 0, 0, version="a", body=b"1"), applied("put", "x", version="a", body=b"2"))),
])
def test_what_is_not_known_is_learned(why, events):
    assert why in told(Store(), *events)


@pytest.mark.parametrize("events", [
    (page("p/1"), get("p/1", 200, "a", b"1"), get("p/1", 200, "a", b"1")),
    (page("p/2", more=True), get("p/3", 200, "a", b"1")),  # a page says nothing of the keys after it
    (page("p/3", after="p/2"), get("p/1", 200, "a", b"1")),  # or before it
    (page("", more=True), get("p/1", 200, "a", b"1")), (page("p/1", more=True), page("", after="p/1")),
    (applied("put", "x", version="1", body=b"1"), applied("put", "y", version="1", body=b"2")),  # each key may count for itself
    (update("x", "a", 200, "b"),), (update("x", "a", 404), get("x", 200, "b", b"1")),
    (applied("create", "x", 412), update("x", "a", 412), update("x", "b", 200, "c")),
    (ranged("x", 0, 1, version="a", body=b"ab"), ranged("x", 2, 4, version="a", body=b"cde"), ranged("x", 9, 9, 416),
     ranged("x", 0, 9, version="a", body=b"abcdef"), get("x", 200, "a", b"abcdef")),
    (ranged("x", 0, 1, version="a", body=b"ab"), applied("put", "x", version="b", body=b"x"),
     ranged("x", 0, 1, version="b", body=b"x")),
])
def test_what_is_not_known_is_not_guessed(events):
    assert told(Store(), *events) == ""


def test_what_no_store_answers_is_left_to_the_form():
    for e in (get("p/1", 500), applied("list", "p/", 404), applied("move", "p/1"), applied("create", "p/1", 503)):
        assert told(Store(S3, FIRST), e) == "", e


def test_a_profile_is_judged_by_what_it_says():
    assert told(Store(S3), page("p/1", more=True)) == ""  # of the keys after it nothing is known
    ignores = rules_of(profile_of("mountx-2026-08"))
    over = applied("create", "p/1", version="b", body=b"two")
    assert told(Store(ignores, FIRST), over, update("p/1", "z", 200, "x")) == ""
    assert "should be 200" in told(Store(ignores, FIRST), applied("create", "p/1", 412))
    assert told(Store(rules_of(profile_of("azure")), FIRST), applied("create", "p/1", 409)) == ""
    assert told(Store(rules_of(profile_of("minio-2025-08")), FIRST), update("p/2", "z", 200, "b")) == ""
    assert told(Store(UNIQUE, FIRST), applied("delete", "p/2", 404)) == ""
    assert "given before" in told(Store(UNIQUE, FIRST), GONE, applied("create", "p/1", version="a", body=b"one"))
    assert told(Store(rules_of(profile_of("s3")), FIRST), page("", more=True), page("p/1 p/3", more=True)) == ""
    unordered = Store(rules_of(profile_of("s3express")), FIRST)
    assert told(unordered, page("p/3 p/1"), page("p/3", more=True), page("p/1", after="p/3")) == ""
    assert "twice" in told(unordered, page("p/3 p/1 p/3")) and "is not shown" in told(unordered, page("p/3"))


def test_a_store_whose_reads_lag_may_show_as_many_changes_ago_as_it_says():
    puts = [applied("put", "p/1", version=f"v{i}", body=b"%d" % i) for i in range(1, 5)]
    for lag in range(4):
        assert told(Store(LAGS, FIRST), *puts, get("p/1", 200, f"v{4 - lag}", b"%d" % (4 - lag))) == ""
    assert "no earlier" not in (lie := told(Store(LAGS, FIRST), *puts, get("p/1", 200, "a", b"one"))) and "version v4" in lie
    assert "version v4" in told(Store(LAGS, FIRST), *puts, get("p/1", 404))
    assert told(Store(LAGS, FIRST), PUT, page("p/1 p/3")) == "" and told(Store(LAGS, FIRST), GONE, page("p/1 p/3")) == ""
    assert "is not shown" in told(Store(LAGS, FIRST), *puts, page("p/3"))
    assert "should be 412" in told(Store(LAGS, FIRST), *puts, applied("create", "p/1", version="x"))  # only reads lag
    others = [applied("put", "p/2", version=f"w{i}", body=b"%d" % i) for i in range(3)]
    assert told(Store(LAGS, FIRST), puts[0], *others, get("p/1", 200, "a", b"one")) == ""  # of one object, not of all
    assert told(Store(LAGS), get("p/1", 404), get("p/1", 200, "a", b"one")) == ""
    assert told(Store(LAGS), get("p/1", 404), applied("create", "p/1", 412)) == ""  # a read tells nothing of now,
    assert told(Store(LAGS), page(""), applied("create", "p/1", 412)) == ""  # nor does a page
    assert told(Store(LAGS), puts[0], get("p/1", 200, "old", b"1")) == ""  # nor is it known what was there before


def test_a_store_that_is_not_known_may_do_what_any_does_that_a_scenario_draws():
    of = [rules_of(PROFILES[name]) for name in ("s3", "minio-2024-03", *STORES)]
    for field in ("create_exists", "update_missing", "delete_missing"):
        assert set(getattr(ANY, field)) >= {status for rules in of for status in getattr(rules, field)}
    assert 200 not in (*ANY.create_exists, *ANY.update_stale)
    assert all(rules.ordered and not rules.stale and 412 in ANY.update_stale for rules in of)
    assert Rules() == ANY and Store().rules == ANY


def test_a_copy_shares_nothing_that_changes():
    store = Store(LAGS._replace(stale=2), FIRST)
    again = copy(store)
    assert told(again, PUT, GONE, page("p/2 p/3")) == ""
    assert dict(store) == FIRST and told(store, page("p/1 p/3")) == "" and store.there == ["p/1", "p/3"]
    assert dict(again.anew()) == FIRST and Store().anew().objects is None


# --- all protocols

@pytest.fixture(scope="module", params=[stem for stem in STEMS if not named(stem).nodes])
def runs(request) -> tuple[str, list[tuple[Outcome, Objects]]]:
    """Return some runs in which nothing is tampered with: of the others no model judges the store."""
    outcomes = (of for of in (simulate(Run(seed, request.param)) for seed in range(100)) if not of.shape.broken)
    return request.param, [(of, beginning(request.param, of.shape)) for of in islice(outcomes, 6)]


def beginning(stem: str, shape: BaseShape) -> Objects:
    store = SimulatedStore(profile=profile_of(shape.store))
    named(stem).begin(store, shape)
    return {key: (found[0].version, found[0].body) for key, found in store.objects.items()}


def verdict(trace, events: list[Event]) -> str:
    try:
        for e in events:
            trace.observe(e)
    except Failure as failure:
        return f"{failure.kind} {failure.signature}"
    return ""


def followed(trace, events: list[Event]) -> str:
    """The same by traces/follow.py, after the good run."""
    rests = [*dict.fromkeys(e[2:] for e in events)]
    known = Acquaintances(trace.refiner)
    known.steps = [None if known.refiner.index.get(rest[0]) is None else known.step(rest) for rest in rests]
    try:
        numbers = [e.t_ms for e in events], [e.request for e in events], [rests.index(e[2:]) for e in events]
        follow(trace, numbers, rests, known)
    except Failure as failure:
        return f"{failure.kind} {failure.signature}"
    return ""


def test_every_lie_in_a_good_trace_is_a_lie_of_the_store(runs):
    stem, outcomes = runs
    judge, tried = named(stem).judge, Counter()
    for of, objects in outcomes:
        assert verdict(judge(of.shape), of.events) == followed(judge(of.shape), of.events) == ""
        once = Counter()
        for name, events in lies(of.events, objects, profile_of(of.shape.store).update_missing):
            if once[name] < 2:
                once[name] += 1
                found = verdict(judge(of.shape), events), followed(judge(of.shape), events)
                assert found == ("refinement refinement:store",) * 2, (stem, of.seed, name, found)
        tried += once
    ops = {e.op for of, _ in outcomes for e in of.events if e.kind == "applied"}
    assert {word for word in ("page", "content", "version used twice", "404") if any(word in name for name in tried)} >= (
        {"content", "404"} if "get" in ops else set()) | ({"page"} if "list" in ops else set()) | {"version used twice"}
    assert sum(tried.values()) > 40


def test_a_trace_of_a_file_is_judged_from_what_it_tells_and_by_the_profile_that_its_options_name(runs):
    stem, outcomes = runs
    for of, objects in outcomes[:max(1, round(named(stem).share * len(outcomes)))]:
        words = " ".join(named(stem).trace_options(of.shape))
        by_shape = "shape" in recorded_of(stem).takes
        for more in ("", f" --shape store={of.shape.store}")[:1 + by_shape]:
            options = options_of(words + more, USUAL._replace(protocol=stem))
            begin = beginner(of.events, options)
            assert verdict(begin(), of.events) == ""
            assert begin().store.rules == (ANY if "store=" not in words + more else rules_of(profile_of(of.shape.store)))
            certain = "a page that repeats its last key", "a page out of order", "a page without its last key"
            found = {name: verdict(begin(), events) for name, events in lies(of.events, objects, 200) if name in certain}
            assert all(said.startswith("refinement") for said in found.values()), (of.seed, found)


def test_a_store_that_lies_fails_the_run(monkeypatch):
    """The simulated store itself lies: its pages repeat their last key."""
    honest = SimulatedStore._list

    def repeats(store: SimulatedStore, prefix: str, after: str):
        reply = honest(store, prefix, after)
        return reply._replace(answer=reply.answer._replace(entries=(*reply.answer.entries, *reply.answer.entries[-1:])))

    monkeypatch.setattr(SimulatedStore, "_list", repeats)
    for stem in (stem for stem in STEMS if not named(stem).nodes):
        found = {simulate(Run(seed, stem)).signature for seed in range(4)}
        assert found & {"refinement:store"} or "list" not in (named(stem).needs or ("list",)), (stem, found)
