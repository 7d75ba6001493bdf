"""The checker notices damaged traces; with any of its checks switched off it misses some damage."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from typer.testing import CliRunner

from highwater.cli.trace import app as command
from highwater.gate.damage import explained as row
from highwater.gate.damage import simulated
from highwater.gate.exits import BAD_INPUT, HARNESS, INCOMPLETE
from highwater.traces import Trace as CommonTrace
from highwater.traces.damage import kills
from highwater.traces.damage.damage import EDITS, IN_PLACE, KINDS_OF_DAMAGE, damages, spread
from highwater.traces.damage.kills import Good, Tally, kind_of, measure
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.protocols import baseline, knowledge
from highwater.traces.damage.protocols import sequenced_metadata_boundary as boundary
from highwater.traces.damage.survivors import GENERAL
from highwater.traces.event import EMPTY, Event, from_json
from highwater.traces.protocols.sequenced_metadata_boundary import Trace
from highwater.traces.store import Store

GOLDEN = Path(__file__).parents[1] / "golden/good.ndjson"
SEEDS = range(12)


@pytest.fixture(scope="module")
def good() -> list[Good]:
    return list(simulated(SEEDS))


@pytest.fixture(scope="module")
def tally(good) -> Tally:
    return measure(good)


def test_every_survivor_is_explained(tally):
    assert tally.holes == []
    assert sum(tally.survived.values()) == sum(tally.tried.values()) - sum(tally.noticed.values())


def rate(tally: Tally, *kinds: str, fields: str = "") -> float:
    cells = [cell for cell in tally.tried if cell[1] in kinds or (cell[2] and cell[2] in fields.split())]
    return sum(tally.noticed[cell] for cell in cells) / sum(tally.tried[cell] for cell in cells)


def test_most_is_noticed(tally):
    assert {cell[1] for cell in tally.tried} == set(KINDS_OF_DAMAGE) and {cell[2] for cell in tally.tried} == {"", *EDITS}
    assert rate(tally, fields="key keys status truncated awaited client kind op version") > 0.9
    assert rate(tally, "duplicate") > 0.8 and rate(tally, "swap, same client") > 0.8


@pytest.mark.parametrize("event, damage", [
    ("create: 200", "drop"), ("create: 200", "duplicate"), ("create: 200", "repeat"), ("get: 200", "duplicate"),
    ("create boundary: 200", "duplicate"), ("delete: 204", "duplicate"), ("told committed", "duplicate")])
def test_some_damage_is_always_noticed(tally, event, damage):
    cell = event, damage, ""
    assert tally.tried[cell] and (tally.noticed[cell] == tally.tried[cell] or damage == "drop")


OFF = {  # a check that is switched off -> damage that is then not fully noticed
    "form": lambda m: m.setattr(Trace, "_well_formed", lambda trace, e: None),
    "numbers": lambda m: m.setattr(Trace, "_replied", lambda trace, e: None),
    "the store": lambda m: m.setattr(Store, "judge", lambda store, e: ""),
    "what was told": lambda m: m.setattr(Trace, "_told", lambda trace, e: None),
    "what nobody waits for": lambda m: m.setattr(Trace, "_arrived", lambda trace, e: None),
    "the callers' history": lambda m: m.setattr(boundary, "damage", lambda events, where, final: []),
}


@pytest.mark.parametrize("check", OFF)
def test_a_check_that_is_switched_off_is_missed(check, good, tally, monkeypatch):
    OFF[check](monkeypatch)
    for trace in good:  # what a refiner keeps of events it has taken for good
        trace.begin().refiner.forget()
    few = measure(good)
    for trace in good:
        trace.begin().refiner._start_tables()
    assert few.holes, f"nobody misses {check}"
    assert sum(few.noticed.values()) / sum(few.tried.values()) < sum(tally.noticed.values()) / sum(tally.tried.values())


def test_each_equivalence_explains_something(tally):
    rare = {"another is old", "another advanced", "never read since", "nobody waits", "told a moment off", "true as well",
            "not applied either way", "gone either way", "heard or not", "never shown again", "dead is dead",
            "condition of no effect"}
    assert set(boundary.EQUIVALENCES) - set(tally.survived) <= rare


def test_nothing_is_explained_without_its_equivalence(good):
    with mock.patch.dict(boundary.EQUIVALENCES):  # which puts them back in their order
        for name in ("they commute", "told a moment off"):  # the second is the first, and more
            del boundary.EQUIVALENCES[name]
        found = measure(good[:4])
    assert found.holes and all("swap" in hole for hole in found.holes)


def test_a_trace_that_is_not_good_is_refused(good):
    with pytest.raises(ValueError, match="of the undamaged trace is refused"):
        measure([good[0]._replace(events=good[0].events[1:])])


# --- other protocols, with survivors that are only partly explained

OTHERS = {"sequenced_write": 0.89, "simple_conditional": 0.88}  # -> so much is noticed at least


@pytest.fixture(scope="module", params=OTHERS)
def other(request) -> tuple[str, list[Good], Tally]:
    good = list(simulated(range(3), request.param))
    return request.param, good, measure(good)


def noticed_of(tally: Tally) -> float:
    return sum(tally.noticed.values()) / sum(tally.tried.values())


def test_another_protocol_is_damaged_in_every_way(other):
    stem, _, tally = other
    assert {cell[1] for cell in tally.tried} == set(KINDS_OF_DAMAGE)
    assert {cell[2] for cell in tally.tried} >= {"", *EDITS} - {"keys"}  # where nothing is listed there are no keys
    assert noticed_of(tally) > OTHERS[stem]


def test_what_nothing_explains_is_said_to_be_unexplained(other):
    _, good, _ = other
    tally = measure([trace._replace(of=trace.of._replace(equivalences=GENERAL)) for trace in good])
    survived = sum(tally.tried.values()) - sum(tally.noticed.values())
    assert 0 < len(tally.holes) < survived / 2 and sum(tally.survived.values()) == survived
    assert sum(tally.unexplained.values()) == len(tally.holes) == tally.survived[""]
    assert [row[2] for row in kills.by_kind(tally)[1:2]] == [str(max(tally.unexplained.values()))]


@pytest.mark.parametrize("stem", ["database_clones", "db"])
def test_a_judge_that_cannot_go_on_from_the_middle_says_so(stem):
    with pytest.raises(ValueError, match="seed 0: the judge of this protocol cannot go on from the middle of a trace"):
        measure(simulated([0], stem))


MACHINERY = {  # a check that all Traces have in common, and that takes no step of the model -> its method
    "form": (CommonTrace, "_well_formed", None), "numbers": (CommonTrace, "_replied", None), "the store": (Store, "judge", "")}


@pytest.mark.parametrize("check", MACHINERY)
def test_a_check_of_another_protocol_that_is_switched_off_is_missed(check, other, monkeypatch):
    _, good, tally = other
    owner, method, passes = MACHINERY[check]
    monkeypatch.setattr(owner, method, lambda self, e: passes)
    for trace in good:
        trace.begin().refiner.forget()
    few = measure(good)
    for trace in good:
        trace.begin().refiner._start_tables()
    assert len(few.holes) > len(tally.holes) and noticed_of(few) < noticed_of(tally)


def test_row_of_the_gate_fails_if_a_check_is_off(monkeypatch):
    assert row("simple_conditional", 1).code == 0
    monkeypatch.setattr(Trace.__base__, "_replied", lambda trace, e: None)
    found = row("simple_conditional", 1)
    assert found.code == HARNESS and "pass without a reason" in found.message


# --- the damages

def test_damage_is_one_thing_in_one_place(good):
    events = spread(good[0].events)
    for i, e in enumerate(events):
        for found in damages(events, i):
            changed = Counter(events)
            changed.subtract(found.events)
            assert found.events != events and found.events[:i] == events[:i]
            if found.kind == "edit":
                after = found.events[i]
                assert [name for name in Event._fields if getattr(e, name) != getattr(after, name)] == [found.field]
                assert found.events[i + 1:] == events[i + 1:]
            elif found.kind in IN_PLACE:
                assert len(found.events) - len(events) == {"drop": -1, "duplicate": 1, "repeat": 1}.get(found.kind, 0)


def test_kinds_of_events_have_names():
    create = EMPTY._replace(client="Writer#0", kind="applied", op="create", key="db/gc/x.boundary", status=200)
    assert kind_of(create) == "create boundary: 200"
    assert kind_of(create._replace(awaited=False)) == "write: not awaited"
    assert kind_of(create._replace(kind="timeout", pending=True)) == "write: timeout, in flight"
    assert kind_of(EMPTY._replace(kind="told", op="read")) == "told read"


def test_a_trace_goes_on_from_where_another_was(good):
    trace = good[0].begin()
    events = good[0].events
    for e in events[:20]:
        trace.observe(e)
    states = (trace.refiner.states,)
    again = kills.resumed(trace, states)
    assert kills.refused(again, events[20:]) == "" and len(trace.events) == 20
    assert kills.refused(kills.resumed(trace, states), events[20:]) == "" and len(trace.events) == 20


# --- the command

def test_command_tells_kill_rates_of_a_file():
    result = CliRunner().invoke(command.app, ["damage", str(GOLDEN)])
    assert result.exit_code == 0, result.output
    assert "create: 200" in result.output and "a number is a name" in result.output


def test_command_fails_where_a_check_is_off(monkeypatch):
    monkeypatch.setattr(Store, "judge", lambda store, e: "")
    result = CliRunner().invoke(command.app, ["damage", str(GOLDEN)])
    assert result.exit_code == HARNESS and "not explained" in result.output and "good.ndjson: event" in result.output


@pytest.fixture
def unknown(monkeypatch) -> Iterator[None]:
    """Nothing is known of the baseline, whatever earlier tests of this process asked for."""
    monkeypatch.setattr(baseline, "KNOWLEDGE", Knowledge())
    knowledge.cache_clear()
    yield
    knowledge.cache_clear()


def test_command_takes_every_protocol_and_says_what_is_not_known(unknown):
    result = CliRunner().invoke(command.app, ["damage", "--protocol", "baseline", "--seeds", "0:1"])
    assert result.exit_code == INCOMPLETE, result.output
    assert "put: 200" in result.output and "unexplained" in result.output and "is not known" in result.output


@pytest.mark.parametrize("words, why", [(["--protocol", "paxos"], "there is no scenario 'paxos'"),
                                        (["--root", "x"], "describe recorded traces")])
def test_command_refuses_what_it_cannot_take(words, why):
    result = CliRunner().invoke(command.app, ["damage", *words])
    assert result.exit_code == BAD_INPUT and why in " ".join(result.output.split())


def test_command_refuses_a_trace_that_is_not_good():
    result = CliRunner().invoke(command.app, ["damage", str(GOLDEN.with_name("no_check.ndjson"))])
    assert result.exit_code == BAD_INPUT
    assert from_json(GOLDEN.read_text().splitlines()[0])
