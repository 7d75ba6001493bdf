"""Explanations of failures are true: the listed events led to the failure, and the nearest passing run passes.

The clocks of an exported log respect happens-before. FizzBee follows a good run to its end, and a bad one not."""

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli.console import console
from highwater.cli.dst.explain import explain_command, look, text_of
from highwater.cli.dst.export import export_command, shiviz
from highwater.cli.dst.timeline import page_of
from highwater.cli.main import app
from highwater.conformance.guided import TooLarge, guided
from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import STEMS, mutants_of, named
from highwater.dst.scenarios.sequenced_metadata_boundary import Shape, namespace, production, trace_of
from highwater.dst.search.nearest import FAULTS, changes_of, drawn_with, nearest, without
from highwater.dst.sim.choose import Lenient, drawing
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.world.faults import FATES
from highwater.dst.world.network import READS
from highwater.dst.world.store import refusals
from highwater.impl.layout import Namespace
from highwater.specs.fizzbee.check import Fizz
from highwater.specs.fizzbee.errors import FizzMissing
from highwater.traces.event import Event
from highwater.traces.explain.causes import History, changes, moments
from highwater.traces.explain.explain import explain, in_the_model, reply, request, table

ROOT = Path(__file__).resolve().parents[2]
SMALL = Shape(writers=2, commits=1, rounds=1, readers=1, reads=1, min_age_ms=60, think_ms=1, audit=False)
MUTANTS = ("reported_though_refused", "boundary_moves_backward", "delete_before_advance", "age_ignored",
           "lost_reply_is_conflict")
RUN = CliRunner()


@cache
def failing(mutant: str, kind: str = "", shape: Shape | None = None) -> Outcome:
    """The first run of a mutant that fails (as `kind`)."""
    for seed in range(3000):
        found = simulate(Run(seed, shape=shape), ZOO[mutant][1])
        if found.kind and kind in ("", found.kind, found.signature):
            return found
    raise AssertionError(f"{mutant} does not fail")


def test_a_failure_is_explained_where_a_machine_of_its_own_is_the_judge():
    """The model of traces/protocols/db.py has no shared state of its own to show."""
    found = simulate(Run(1, "db", mutant="uploaded_later"))
    assert found.failure
    text = explain(found.events, found.failure, named("db").trace_of(found.shape))
    assert text.startswith("refinement:sst\n") and "The last events" in text and "Shared" not in text


# --- what mattered

@pytest.mark.parametrize("mutant", MUTANTS)
def test_what_mattered_leads_to_the_failing_event(mutant):
    told = look(failing(mutant), mutant, search=False)
    assert told.failing and told.causes
    known = {cause.number for cause in told.causes} | set(told.failing)
    for cause in told.causes:
        assert cause.number < cause.to <= max(told.failing) and cause.to in known and cause.why
    assert [cause.number for cause in told.causes] == sorted({cause.number for cause in told.causes} - set(told.failing))
    assert len(told.causes) < len(told.replayed.rows)


def test_the_boundary_that_refused_a_writer_mattered():
    told = look(failing("reported_though_refused", "told:committed"), search=False)
    events, last = [row.event for row in told.replayed.rows], told.failing[0]
    key = namespace(told.outcome.shape).boundary_key
    numbers = {cause.number for cause in told.causes}
    moved = [number for number, e in enumerate(events[:last]) if changes(e) and e.key == key]
    asked = [number for number, e in enumerate(events[:last]) if e.client == events[last].client and e.key == key]
    assert asked[-1] in numbers and max(number for number in moved if number < asked[-1]) in numbers
    put = next(number for number, e in enumerate(events) if e.op == "create" and b'"%b"' % events[last].body in e.body)
    assert put in numbers  # the update that it was told of


def expected(events: list, number: int, where: Namespace) -> dict[str, int | None]:
    """Find the earlier events that an event met, by a plain search."""
    e, before = events[number], range(number - 1, -1, -1)
    key = e.keys[-1] if e.op == "list" and e.keys else e.key
    late = e.kind == "applied" and not e.awaited and e.op in ("create", "update", "put", "delete")
    moved = next((n for n in before if changes(events[n]) and events[n].key == where.boundary_key), None)
    behind = moved is not None and e.op == "create" and changes(e) and where.file_id(e.key) <= int(events[moved].body)
    return {
        "write": next((n for n in before if e.kind == "applied" and changes(events[n]) and events[n].key == key), None),
        "gave up": next((n for n in before if late and events[n].request == e.request), None),
        "told": next((n for n in range(number) if e.op == "committed" and events[n].op == "create"
                      and events[n].client == e.client and b'"%b"' % e.body in events[n].body), None),
        "behind": moved if behind else None,
    }


def test_direct_causes_are_what_an_event_met():
    met = dict.fromkeys(("write", "gave up", "told", "behind"), 0)
    for seed in range(60):
        outcome = simulate(Run(seed))
        where = namespace(outcome.shape)
        history = History(outcome.events, trace_of(outcome.shape), lambda number, client: None)
        for number in range(len(outcome.events)):
            links = {link.number for link in history.links(number)}
            for kind, cause in expected(outcome.events, number, where).items():
                if cause is not None:
                    met[kind] += 1
                    assert cause in links, (seed, number, kind)
    assert all(met.values()), met


WITHOUT_NAMES = ("store_primitives", "database_gc", "db_reader", "clones", "database_clones", "db", "raft",
                 "raft_membership", "consistent_read", "log_snapshot", "metadata_fsm", "compaction_queue",
                 "dlq_recovery", "index_retention", "index_reads")


@pytest.mark.parametrize("stem", [stem for stem in STEMS if stem not in WITHOUT_NAMES])
def test_an_update_is_known_by_its_name_in_whatever_carries_it(stem):
    told = 0
    for seed in range(60):
        outcome = simulate(Run(seed, scenario=stem))
        trace = named(stem).trace_of(outcome.shape)
        history = History(outcome.events, trace, lambda number, client: None)
        for number, e in enumerate(outcome.events):
            if (e.op, e.client.partition("#")[0]) == ("committed", trace.writer):
                brought = [link.number for link in history.links(number) if "put the update" in link.why]
                put = [outcome.events[cause] for cause in brought]
                assert any(changes(of) for of in put) and all(of.client == e.client for of in put), (seed, number)
                told += 1
    assert told


@pytest.mark.parametrize("mutant", ["lost_reply_is_conflict", "conflict_is_anothers", "conflict_is_mine"])
def test_an_entry_of_a_log_that_arrived_late_mattered_to_what_came_of_it(mutant):
    of, found, refused = named("sequenced_write"), 0, 0
    for seed in range(300):
        shape = of.shape(log=True, recognise=seed % 2 == 0, store=("s3", "gcs", "r2")[seed % 3])
        outcome = simulate(Run(seed, scenario="sequenced_write", shape=shape), mutants_of("sequenced_write").builds[mutant][1])
        if not outcome.kind:
            continue
        told = look(outcome, mutant, search=False)
        events, last = [row.event for row in told.replayed.rows], told.failing[0]
        late = [number for number, e in enumerate(events[:last])
                if changes(e) and not e.awaited and e.body == events[last].body]
        assert set(late) <= {cause.number for cause in told.causes}, seed
        found, refused = found + len(late), refused + (f"429: too many writes to one key: {shape.store} " in text_of(told))
    assert found and (refused or mutant == "lost_reply_is_conflict")


def test_a_refusal_is_told_as_one_with_the_stores_reason():
    of = named("sequenced_write")
    met = {}
    for store in ("gcs", "s3", "azure"):
        for seed in range(60):
            shape = of.shape(store=store, log=True, recognise=True, writers=3)
            outcome = simulate(Run(seed, scenario="sequenced_write", shape=shape))
            history = History(outcome.events, of.trace_of(outcome.shape), lambda number, client: None, refusals(store))
            for number in range(len(outcome.events)):
                before = outcome.events[history.before[number]]
                if history.before[number] >= 0 and before.kind == "refused":
                    met[store, before.status if before.op not in READS else "read"] = next(iter(history.links(number))).why
    why = "too many writes to one key: gcs takes one in 1,000 ms, 10 ms in a run"
    assert f"was refused (429: {why})" in met["gcs", 429]
    assert "was refused (409: another write to that key was under way)" in met["s3", 409]
    assert "was answered 503, and could not tell whether that was applied" in met["azure", 503]
    assert "was refused (503)" in met["azure", "read"]
    assert not any("longer" in why for why in met.values())


def test_an_empty_listing_is_told_as_one():
    e = Event(1, 1, "Writer#0", "applied", "list", "db/wal/", "", 200, "", b"")
    assert reply(e) == "200: nothing" and reply(e._replace(truncated=True)) == "200: nothing, and more"
    assert reply(e._replace(keys=("db/wal/00000000000000000001.sst",))) == "200: id 1"
    assert reply(e._replace(kind="refused", status=503)) == "503 unavailable"


def test_a_request_that_nobody_waits_for_mattered_from_where_it_was_sent():
    told = look(failing("boundary_moves_backward", "refinement:.ApplyPending"), search=False)
    late = told.replayed.rows[told.failing[0]].event
    assert not late.awaited
    gave_up = next(number for number, row in enumerate(told.replayed.rows) if row.event.request == late.request)
    assert gave_up in {cause.number for cause in told.causes}


def test_of_a_caller_that_was_misled_the_false_guard_of_the_step_before_is_told():
    text = text_of(look(failing("reported_though_refused", "told:committed"), "reported_though_refused"))
    guard = re.search(r"\nAt event \d+, Accept needs w.n \+ 1 > boundary_seen\(c, s, w\) \((\S+):(\d+)\): (.*)", text)
    values = [int(value) for value in re.findall(r" is (\d+)", guard[3])]
    line = (ROOT / guard[1]).read_text().splitlines()[int(guard[2]) - 1]
    assert "boundary_seen(c, s, w)" in line and values[0] + 1 <= values[1]


def test_of_a_caller_that_was_told_too_early_the_step_that_was_left_out_is_told():
    """And not that some other step was impossible."""
    told = look(failing("reads_not_checked", "told:read"), "reads_not_checked")
    left_out = re.search(r"\nBefore Reader#\d tells its caller it does ReadAccept \((\S+):(\d+)\), and no", text_of(told))
    assert "def read_accept(" in (ROOT / left_out[1]).read_text().splitlines()[int(left_out[2]) - 1]
    assert " needs " not in text_of(told)
    assert "tells its caller it does ReadAccept, and no event was that." in page_of(told)


# --- the nearest run that passes

@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_nearest_passing_run_passes_and_is_one_choice_away(mutant):
    outcome = failing(mutant)
    told = look(outcome, mutant)
    for change, other, parts in told.nearest.passing[:3]:
        tape = without(outcome.tape, change)
        again = simulate(Run(outcome.seed, strategy=outcome.strategy), ZOO[mutant][1], chooser=Lenient(outcome.seed, tape))
        assert (again.kind, again.digest) == ("", other.digest)
        site, choice, _ = outcome.tape[change.place]
        assert choice > 0 and tape[:change.place] == outcome.tape[:change.place] and tape[change.place][:2] == (site, 0)
        assert len(outcome.tape) - len(tape) == (drawn_with(outcome.tape, change.place) if change.kind == FAULTS else 0)
        for x, y in zip(outcome.events[:parts], other.events[:parts]):
            assert x._replace(t_ms=0, request=0) == y._replace(t_ms=0, request=0)
        assert f"if {change.words}," in text_of(told) or f"Nor if {change.words}." in text_of(told)


def test_the_words_of_a_change_are_what_befell():
    """Each fault that the network told of is a change, of the right client, in order."""
    for seed in range(40):
        seen: list = []
        outcome = simulate(Run(seed), watch=lambda *what, seen=seen: seen.append(what))
        issued, found = {}, []
        for _, what, client, _ in seen:
            if what == "issue":
                issued[client] = issued.get(client, 0) + 1
            else:
                found.append((client, issued.get(client, 0), what))
        words = [change.words for change in changes_of(outcome) if change.kind == FAULTS]
        named = [(m[1], int(m[2])) for m in (re.match(r"(\w+#\d) had not .* at its (\d+)\w\w request", w) for w in words)]
        assert all(any(c == client and abs(n - number) <= 1 for c, n, _ in found) for client, number in named)
        assert len(words) <= len(found)
        assert all(what in FATES or what in ("forbidden", "cancelled") for *_, what in found)


def test_where_no_single_choice_makes_the_difference_it_says_so():
    text = text_of(look(failing("no_check"), "no_check"))
    assert "none is one choice away" in text


def test_the_search_is_bounded():
    outcome, runs = failing("age_ignored"), []

    def run(tape):
        runs.append(tape)
        return outcome

    search = nearest(outcome, run, budget=7)
    assert len(runs) == search.tried == 7 < search.changes and not search.passing


# --- the text

@pytest.mark.parametrize("mutant, signature", [("boundary_moves_backward", "refinement:Collector.Advance"),
                                               ("reported_though_refused", "told:committed")])
@pytest.mark.parametrize("width", [60, 80, 100])
def test_tables_fit_the_width(mutant, signature, width):
    told = look(failing(mutant, signature), mutant, search=False)
    rows = [(str(number), f"{e.t_ms} ms", e.client, request(e), reply(e), in_the_model(steps))
            for number, (e, steps, _) in enumerate(told.replayed.rows)]
    text, cells = table(rows, width=width), " ".join(cell for row in rows for cell in row)
    assert max(map(len, text.splitlines())) <= width
    if width < 100:
        assert re.sub("in the model: |:", " ", text).split() == cells.replace(":", " ").split()
    narrow, usual = text_of(told, width), text_of(told)
    assert "in the model: " in narrow and "in the model: " not in usual
    inside = [line for part in re.split(r"\n\n", narrow) if part.startswith(("The last events", "What mattered"))
              for line in part.splitlines()[1:]]
    assert len(inside) > 8 and max(map(len, inside)) <= width


def test_table_that_fits_is_not_folded():
    rows = [("0", "1 ms", "Writer#0", "get id 1", "200", "ReadLatest")]
    assert table(rows, width=80) == table(rows)


def test_long_word_in_a_narrow_table_is_kept_whole():
    """A key can be copied, and the terminal breaks it."""
    rows = [("0", "1 ms", "Writer#0", "get " + "k" * 90, "200", "")]
    assert "k" * 90 in table(rows, width=80)


@pytest.mark.parametrize("verb", [("run", "--seed"), ("replay",), ("explain",)])
def test_verbs_lay_out_to_the_terminal(monkeypatch, verb):
    arguments = ["dst", *verb, "21", "--mutant", "no_check"]
    usual = CliRunner().invoke(app, arguments).output
    assert "in the model: " not in usual
    monkeypatch.setattr(console, "_force_terminal", True)
    monkeypatch.setattr(console, "_width", 80)
    text = re.sub(r"\x1b\[[0-9;]*m", "", CliRunner().invoke(app, arguments).output)
    lines = [line for line in text.splitlines() if re.match(r"  +\d+ +\d+ ms|(seed|strategy)\b| +in the model: ", line)]
    assert "in the model: " in text and max(map(len, lines)) <= 80
    assert text.count("Replay: ") == 1 and usual.splitlines()[-2] in text

def test_the_text_has_all_parts_and_no_path_of_this_machine():
    outcome = failing("boundary_moves_backward", "refinement:Collector.Advance")
    told = look(outcome, "boundary_moves_backward")
    text = text_of(told)
    for part in ("Failing event, number", "What mattered,", "why it matters", "The nearest passing run",
                 f"events (the one that fails, and {len(told.causes)} that led to it)",
                 "needs s.boundary == g.b", "s.boundary is", "Shared in the model", "Replay: highwater dst run"):
        assert part in text, part
    assert str(ROOT) not in text and "0x" not in text


def test_the_text_and_the_page_do_not_depend_on_hashing():
    seed = failing("boundary_moves_backward", "refinement:Collector.Advance").seed
    code = ("from highwater.dst.simulate import simulate; from highwater.dst.run_spec import Run; "
            "from highwater.cli.dst.explain import look, text_of; "
            "from highwater.cli.dst.timeline import page_of; m = 'boundary_moves_backward';"
            f"t = look(simulate(Run({seed}, mutant=m)), m); print(text_of(t), page_of(t))")
    texts = {subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, check=True,
                            env={**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": "."}).stdout for hashing in "12"}
    assert len(texts) == 1 and len(*texts) > 10_000


def test_the_verb(tmp_path):
    outcome = failing("delete_before_advance")
    result = RUN.invoke(app, ["dst", "explain", str(outcome.seed), "--mutant", "delete_before_advance"])
    assert result.exit_code == 11 and "What mattered" in result.output
    assert RUN.invoke(app, ["dst", "explain", "nothing-there"]).exit_code == 2
    assert RUN.invoke(app, ["dst", "explain", "0", "--mutant", "none such"]).exit_code == 2
    good = next(seed for seed in range(100) if not simulate(Run(seed)).kind)
    assert "nothing to explain" in RUN.invoke(app, ["dst", "explain", str(good)]).output
    folder = tmp_path / "bundle"
    made = RUN.invoke(app, ["dst", "run", "--seed", str(outcome.seed), "--mutant", "delete_before_advance", "--out",
                            str(folder)])
    assert made.exit_code == 11, made.output
    of_bundle = RUN.invoke(app, ["dst", "explain", str(folder)])
    assert of_bundle.exit_code == 11
    assert of_bundle.output.partition("Replay:")[0] == result.output.partition("Replay:")[0]
    assert explain_command.__doc__


# --- exports

def happens_before(events: list) -> list[set[int]]:
    """Compute happens-before by its definition: a host's own order, request before application, application before reply."""
    before: list[set[int]] = []
    last: dict[str, int] = {}
    sent: dict[int, int] = {}

    def moment(host: str, *after: int) -> int:
        direct = {*after, *([last[host]] if host in last else ())}
        before.append(direct.union(*(before[earlier] for earlier in direct)))
        last[host] = len(before) - 1
        return last[host]

    for number, e in enumerate(events):
        if e.request and e.request not in sent:
            sent[e.request] = moment(e.client)
        if e.kind != "applied":
            moment(e.client)
            continue
        applied = moment("store", sent[e.request])
        if e.awaited and not any(other.request == e.request for other in events[number + 1:]):
            moment(e.client, applied)
    return before


def test_vector_clocks_are_the_order_of_cause_and_effect():
    for seed in (1, 2, 3, 5, 8):
        outcome = simulate(Run(seed))
        found = moments(outcome.events, request, reply)
        before = happens_before(outcome.events)
        assert len(before) == len(found)

        def less(x: dict, y: dict) -> bool:
            return x != y and all(y.get(host, 0) >= value for host, value in x.items())

        draw = drawing(seed, "pairs")
        for _ in range(4000):
            one, other = draw(len(found)), draw(len(found))
            assert less(found[one].clock, found[other].clock) == (one in before[other])
        counts: dict[str, int] = {}
        for moment in found:  # as ShiViz wants it: a host's own component goes up by one
            counts[moment.host] = counts.get(moment.host, 0) + 1
            assert moment.clock[moment.host] == counts[moment.host]


def test_the_log_is_what_its_first_line_says(tmp_path):
    outcome = simulate(Run(3))
    expression, _, log = shiviz(outcome.events).partition("\n\n")
    pattern = expression.replace("(?<", "(?P<").replace("{.*}", r"\{.*\}")
    found = list(re.finditer(pattern, log))
    assert len(found) == len(moments(outcome.events, request, reply)) and len("".join(m[0] + "\n" for m in found)) == len(log)
    assert {m["host"] for m in found} == {e.client for e in outcome.events} | {"store"}
    assert all(json.loads(m["clock"])[m["host"]] > 0 and m["event"] for m in found)
    out = tmp_path / "run.log"
    assert RUN.invoke(app, ["dst", "export", "3", "--shiviz", "-o", str(out)]).exit_code == 0
    assert out.read_text() == shiviz(outcome.events)
    assert RUN.invoke(app, ["dst", "export", "3", "-o", str(out)]).exit_code == 2
    assert export_command.__doc__


def test_a_run_beyond_the_spec_is_refused_in_one_line(tmp_path):
    seed = next(seed for seed in range(200) if not (o := simulate(Run(seed))).shape.sdk and len(o.events) > 150)
    with pytest.raises(TooLarge, match="at most 100 actions"):
        guided(simulate(Run(seed)))
    result = RUN.invoke(app, ["dst", "export", str(seed), "--fizz", "-o", str(tmp_path / "x")])
    assert result.exit_code == 3 and result.stdout.count("\n") == 1 and not (tmp_path / "x").exists()


def fizz() -> Fizz:
    try:
        return Fizz.find()
    except FizzMissing:
        pytest.skip("FizzBee is not built here")


def test_fizzbee_follows_a_good_run_to_its_end():
    outcomes = (simulate(Run(seed, shape=SMALL), production) for seed in range(200))
    outcome = next(outcome for outcome in outcomes if not outcome.kind and any(e.pending for e in outcome.events))
    row, _, constants, links, *_ = guided(outcome)
    result = fizz().guided(row.path, constants, links)
    assert (result.verdict, result.followed) == ("PASSED", len(links)), result.error


def test_fizzbee_does_not_follow_a_mutants_failing_run():
    row, _, constants, links, *_ = guided(failing("delete_before_advance", "refinement", SMALL))
    result = fizz().guided(row.path, constants, links)
    assert result.verdict == "STOPPED" and result.followed < len(links)
    assert links[result.followed].startswith("Collector#0.Delete")


@pytest.mark.parametrize("op, said", [("get", "timeout"), ("list", "timeout"), ("put", "timeout, it may still be applied")])
def test_reply_of_a_timeout_says_what_may_still_happen(op, said):
    assert reply(Event(1, 1, "Writer#0", "timeout", op, "db/x", "", 0, "", b"", pending=True)) == said
