"""Damages to the tie between a response and its requests: what they change, which are explained, and that they are noticed."""

from collections.abc import Callable
from typing import Any

import pytest
from typer.testing import CliRunner

from highwater.cli.trace import app as command
from highwater.gate.damage import simulated
from highwater.gate.exits import BAD_INPUT, INCOMPLETE
from highwater.traces import Trace as CommonTrace
from highwater.traces.damage import draw
from highwater.traces.damage.damage import Damage
from highwater.traces.damage.kills import reason
from highwater.traces.damage.knowledge import GENERALLY
from highwater.traces.damage.protocols.db_reader import KNOWLEDGE as OF_A_READER
from highwater.traces.damage.protocols.indexed import OF_AN_INDEX
from highwater.traces.damage.responses import ANOTHER, EARLY, EXCHANGE, KINDS, LOST, VALUE, WRONG, Ties, role_of, roles_of
from highwater.traces.damage.survivors import Survivor
from highwater.traces.event import EMPTY, Event
from highwater.traces.form import Keys, malformed
from highwater.traces.store import Store

ONE, TWO = "db/m/00000000000000000001.m", "db/m/00000000000000000002.m"
WHERE = Keys("db/", listed=("db/m/",))
LIST = EMPTY._replace(t_ms=1, request=3, client="Writer#0", kind="applied", op="list", key="db/m/", status=200)
PUT = LIST._replace(t_ms=2, request=6, op="create", key=ONE, version="1", body=b"0.0")
TOLD = EMPTY._replace(t_ms=2, client="Writer#0", kind="told", op="committed", body=b"0.0", keys=("put", "Done", "returned"))
OTHER = PUT._replace(t_ms=3, request=9, client="Writer#1/write 1", key=TWO, version="2", body=b"1.0")
TOLD_OTHER = TOLD._replace(t_ms=3, client="Writer#1", body=b"1.0")
GET = LIST._replace(t_ms=4, request=12, client="Reader#0", op="get", key=ONE, version="1", body=b"0.0")
READ = TOLD._replace(t_ms=4, client="Reader#0", op="read", keys=("get", "bytes", "returned"))
GOOD = [LIST, PUT, TOLD, OTHER, TOLD_OTHER, GET, READ]
UNKNOWN = TOLD._replace(op="unknown", keys=("put", "OutcomeUnknown", "indefinite"))
FAILED = TOLD._replace(op="failed", keys=("put", "Unavailable", "definite"))


def edits(good: list[Event], kind: str) -> list[Damage]:
    ties = Ties(good)
    return [Damage(how, "", i, to, events) for i in range(len(good)) for how, to, events in ties.at(i) if how == kind]


def test_response_moves_before_each_request_that_matters():
    assert [damage.events[:3] for damage in edits(GOOD, EARLY)[:2]] == [
        [TOLD._replace(t_ms=1), LIST, PUT], [LIST, TOLD, PUT]]
    assert [(damage.at, damage.to) for damage in edits(GOOD, EARLY)] == [(0, 2), (1, 2), (3, 4), (5, 6)]


def test_lost_request_reaches_no_store():
    lost = {damage.at: damage.events[damage.at] for damage in edits(GOOD, LOST)}
    assert lost == {0: LIST._replace(kind="timeout", status=0), 1: PUT._replace(kind="timeout", status=0, version=""),
                    3: OTHER._replace(kind="timeout", status=0, version=""),
                    5: GET._replace(kind="timeout", status=0, version="", body=b"")}
    assert edits([LIST, PUT], LOST) == [], "nobody was told anything"
    arrived = [PUT._replace(kind="timeout", status=0, version="", pending=True), PUT._replace(awaited=False), TOLD]
    assert edits(arrived, LOST) == []


def test_exchanged_contents_are_what_later_reads_show():
    (damage,) = edits(GOOD, EXCHANGE)
    one, two, read = (damage.events[i] for i in (1, 3, 5))
    assert [(e.version, e.body) for e in (one, two, read)] == [("2", b"1.0"), ("1", b"0.0"), ("2", b"1.0")]
    assert damage.to == 5 and [one.key, two.key, read.key] == [ONE, TWO, ONE]
    assert edits([PUT, OTHER._replace(body=PUT.body)], EXCHANGE) == edits([PUT, OTHER._replace(op="put")], EXCHANGE) == []
    of_range = GET._replace(op="get_range", condition="bytes=1-1", status=206, body=b".")
    assert edits([PUT, OTHER, of_range], EXCHANGE)[0].events[2] == of_range._replace(version="2", body=b".")
    assert edits([PUT, OTHER._replace(body=b"1"), of_range], EXCHANGE) == [], "the range has no byte of the other content"


def test_two_contents_of_one_object_are_exchanged():
    second = PUT._replace(op="update", condition="1", request=9, version="2", body=b"0.1")
    good = [PUT._replace(op="update", condition="0"), GET, second, GET._replace(version="2", body=b"0.1")]
    (damage,) = edits(good, EXCHANGE)
    assert [(e.condition, e.version, e.body) for e in damage.events] == [
        ("0", "2", b"0.1"), ("", "2", b"0.1"), ("2", "1", b"0.0"), ("", "1", b"0.0")]


def test_response_is_also_received_by_others():
    (to_one, to_two), (read_by_writer,) = edits(GOOD, ANOTHER), [d for d in edits(GOOD, WRONG) if d.at == 6]
    assert to_one.events[2:4] == [TOLD, TOLD._replace(client="Writer#1")]
    assert to_two.events[5] == TOLD_OTHER._replace(client="Writer#0")
    assert read_by_writer.events[6:] == [READ, READ._replace(client="Writer#0")]


def test_response_has_the_value_of_another():
    assert [(damage.at, damage.events[damage.at].body) for damage in edits(GOOD, VALUE)] == [(2, b"1.0"), (4, b"0.0")]


def test_steps_of_a_node_belong_to_its_callers():
    step = EMPTY._replace(client="Server#0", kind="step", op="apply")
    told = TOLD._replace(client="Server#0/writer0")
    good = [step._replace(t_ms=n) for n in range(5)] + [told._replace(t_ms=5)]
    assert [damage.at for damage in edits(good, EARLY)] == [2, 4]
    assert role_of("Server#0/writer0") == "writer" and roles_of([good, GOOD])["Writer"] == {"committed"}


@pytest.mark.parametrize("stem", ["database_metadata", "simple_conditional", "compaction_queue"])
def test_damage_changes_nothing_before_and_stays_well_formed(stem):
    (good,) = [one for one, _ in zip(simulated(range(5), stem), range(1), strict=False)]
    kinds = set()
    for kind in KINDS:
        for damage in edits(good.events, kind):
            kinds.add(kind)
            at, events = damage.at, damage.events
            assert (events[:at] == good.events[:at] and events[at] != good.events[at]) or kind in (ANOTHER, WRONG)
            rest = good.events[damage.to + 1:]
            assert events[len(events) - len(rest):] == rest
            assert [e.t_ms for e in events] == sorted(e.t_ms for e in events)
            if kind in (LOST, EXCHANGE) and events[at].kind != "step":
                assert not malformed(events[at], good.begin().namespace)
            if kind == EXCHANGE and events[at].kind != "step":
                store = Store()
                assert {store.judge(e) for e in events if e.kind == "applied"} == {""}
    assert kinds >= {EARLY, EXCHANGE, ANOTHER, WRONG, VALUE}


# --- survivors

def survivor(good: list[Event], damage: Damage, **more: Any) -> Survivor:
    return Survivor(good, damage, WHERE, {}, meaning=lambda e: sorted(e.body.split()), **more)


def explained(good: list[Event], kind: str, number: int = 0, **more: Any) -> str:
    return reason(survivor(good, edits(good, kind)[number], **more), GENERALLY)


REPEATED = [LIST, LIST._replace(request=6), READ._replace(client="Writer#0")]
BOTH = [GET, GET._replace(client="Reader#1"), READ, READ._replace(client="Reader#1", body=b"9")]
OF_ONE = [PUT, TOLD, LIST._replace(client="Reader#0"), READ]
POLLED = TOLD._replace(client="Server#0/worker0", op="polled", body=b"", keys=("poll", "Response", "returned", "leases="))
LEASED = POLLED._replace(keys=(*POLLED.keys[:3], "leases=a-T-S1-L0/7"))
WORKERS = [LEASED, POLLED._replace(client="Server#0/worker1")]


@pytest.mark.parametrize(("name", "found"), [
    ("says nothing", lambda: explained([LIST, PUT, UNKNOWN], EARLY)),
    ("", lambda: explained([LIST, PUT, TOLD], EARLY)),
    ("had no effect", lambda: explained([LIST, FAILED], EARLY)),
    ("", lambda: explained([LIST, PUT, FAILED], EARLY)),
    ("known before", lambda: explained(REPEATED, EARLY, 1)),
    ("", lambda: explained(REPEATED, EARLY, 0)),
    ("", lambda: explained([LIST, PUT, LIST._replace(request=9), TOLD], EARLY, 2)),  # the read after the write is another one
    ("asked the same", lambda: explained(BOTH, ANOTHER, 0)),
    ("", lambda: explained([GET, GET._replace(client="Reader#1", status=404), *BOTH[2:]], ANOTHER, 0)),
    ("", lambda: explained(GOOD, ANOTHER)),
    ("received elsewhere", lambda: explained(OF_ONE, WRONG, 0, roles=lambda: {"Reader": frozenset({"committed"})})),
    ("", lambda: explained(OF_ONE, WRONG, 0)),
    ("", lambda: explained(GOOD, VALUE)),
    ("received at that moment", lambda: explained([PUT, TOLD, TOLD._replace(body=b"0.1")], VALUE, 0)),
    ("", lambda: explained([PUT, TOLD, PUT._replace(request=9, key=TWO), TOLD._replace(body=b"0.1")], VALUE, 0)),
    ("lost in vain", lambda: explained([LIST, LIST._replace(request=6), FAILED], LOST)),
    ("", lambda: explained([LIST, PUT, TOLD], LOST, 1)),
    ("", lambda: explained([LIST, PUT, FAILED], LOST, 0)),
    ("contents mean the same", lambda: explained([PUT._replace(body=b"a b"), OTHER._replace(body=b"b a")], EXCHANGE)),
    ("", lambda: explained([PUT, OTHER], EXCHANGE)),
    ("", lambda: explained(WORKERS, ANOTHER)),
    ("says nothing", lambda: explained(WORKERS, ANOTHER, 1)),
    ("", lambda: reason(survivor(WORKERS, edits(WORKERS, ANOTHER)[0]), OF_AN_INDEX)),
    ("", lambda: reason(survivor(WORKERS, edits(WORKERS, VALUE)[1]), OF_AN_INDEX)),
])
def test_survivor_is_explained_only_if_its_response_is_true(name: str, found: Callable[[], str]):
    assert found() == name


def test_reader_reads_a_manifest_again_after_its_response():
    refreshes = GET._replace(client="Reader#0/refresher", key="db/manifest/00000000000000000002.manifest")
    told = READ._replace(client="Reader#0")

    def found(before: Event) -> str:
        good = [before, refreshes, told]
        return reason(survivor(good, next(one for one in edits(good, EARLY) if one.at == 1)), OF_A_READER)

    assert found(PUT._replace(client="Reader#0", key=refreshes.key)) == "followed later"
    assert found(PUT._replace(client="Reader#0")) == ""
    assert found(PUT._replace(client="Reader#1", key=refreshes.key)) == ""


# --- drawn damages

def test_requests_behind_a_claim_are_dropped_and_reordered():
    check = LIST._replace(t_ms=2, request=9, op="get", key=TWO, status=404)
    found = {(label, damage.at) for label, damage in draw.labelled([LIST, PUT, check, TOLD], Ties([LIST, PUT, check, TOLD]))}
    assert {(draw.NO_READ, 0), (draw.NO_WRITE, 1), (draw.NO_READ, 2), (draw.EARLY_READ, 1)} <= found
    of_nothing = draw.labelled([LIST, PUT, check, UNKNOWN], Ties([LIST, PUT, check, UNKNOWN]))
    assert not {label for label, _ in of_nothing} & {draw.NO_READ, draw.NO_WRITE, draw.EARLY_READ}


def test_drawn_damages_are_noticed_or_explained():
    traces = list(simulated(range(4), "sequenced_write"))
    found = list(draw.drawn(traces, 45))
    assert {one.label for one in found} == {*draw.LABELS} - {draw.EARLY_READ} and draw.by_label(found)[-1][1] == "45"
    assert [one for one in found if one.survivor and not one.reason] == []
    assert [one.label for one in draw.drawn(traces, 45)] == [one.label for one in found]
    assert draw.by_label(found) == draw.by_label(list(draw.drawn(traces, 45)))


def test_judge_that_ignores_responses_is_found(monkeypatch):
    monkeypatch.setattr(CommonTrace, "_told", lambda self, e: None)
    found = list(draw.drawn(simulated(range(4), "sequenced_write"), 45))
    holes = {one.label for one in found if one.survivor and not one.reason}
    assert holes >= {EARLY, ANOTHER, WRONG, VALUE}


def test_judge_of_several_models_is_tested_too():
    assert len(list(draw.drawn(simulated([0], "db"), 9))) == 9


def test_command_draws_and_lists_what_is_accepted(monkeypatch):
    words = ["damage", "--protocol", "sequenced_write", "--seeds", "0:2", "--draw", "18"]
    result = CliRunner().invoke(command.app, words)
    assert result.exit_code == 0 and "told another role" in result.output and "UNEXPLAINED" not in result.output
    monkeypatch.setattr(CommonTrace, "_told", lambda self, e: None)
    result = CliRunner().invoke(command.app, words)
    assert result.exit_code == INCOMPLETE and "UNEXPLAINED" in result.output
    assert CliRunner().invoke(command.app, ["damage", "--draw", "-1"]).exit_code == BAD_INPUT
