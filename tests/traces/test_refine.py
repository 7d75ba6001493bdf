"""Refinement: good runs pass, bad ones are noticed and explained in words.

In reading order: seeds; the zoo's explanations; golden traces, which need no simulator; the format of a trace. test_damage.py
tests that the checker notices damaged traces.

    PYTHONPATH=. python tests/traces/test_refine.py        searches and writes new golden traces
"""

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.run_spec import Run
from highwater.dst.scenarios.sequenced_metadata_boundary import Shape, production, trace_of
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.world.faults import Weights
from highwater.impl.layout import Namespace
from highwater.traces.damage.kills import kind_of
from highwater.traces.event import EMPTY, LARGEST, Event, NewerVersion, from_json, to_json
from highwater.traces.explain.explain import explain, why_not
from highwater.traces.protocols.sequenced_metadata_boundary import Trace, constants, refiner
from highwater.traces.refine import Failure

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parents[1] / "golden"
HERE = r"tests/traces/test_refine\.py"
FAULTY = Weights(stall=100, refused=20, request_lost=20, reply_lost=20, late=30, crash=20)


def test_good_seeds_refine():
    for seed in range(300):
        outcome = simulate(Run(seed))
        assert not outcome.kind, f"seed {seed}\n" + explain(outcome.events, outcome.failure, trace_of(outcome.shape))


def test_a_reader_may_be_slow_to_tell():
    """It read a file, and the boundary behind it; when it says so there is a refused writer's file in its place."""
    shape = Shape(writers=3, commits=4, rounds=2, readers=1, reads=3, min_age_ms=60, think_ms=1, stall_ms=200)
    outcome = simulate(Run(242, shape=shape, weights=Weights(300, *[0] * 7)))
    told = next(e for e in outcome.events if e.op == "read" and any(
        other.op == "create" and other.key == e.key and other.status == 200 and other.body != e.body
        for other in outcome.events[:outcome.events.index(e)]))
    assert outcome.kind == "" and told.client == "Reader#0"


# --- explanations -------------------------------------------------------------------------------------------------------

LISTS_ANEW = "refinement:Writer.List|ListPage"
EXPLAINED = {  # mutant -> signature of its failure; what its explanation says
    "no_check": ("told:committed", r"What Writer#\d could do here: (Accept|Reject), "),
    "check_before_create": ("refinement:Writer.Accept|Reject", r'Writer\.Accept needs w\.pc == "Created" .*: w\.pc is "Ready"'),
    "reported_though_refused": ("told:committed", r"Writer#\d +get boundary .* Reject\n"),
    "one_old_writer": ("told:committed", r"What Writer#0 could do here: (Accept|Reject), "),
    "cached_boundary": ("told:committed", r"What Writer#\d could do here: (Accept|Reject), "),
    "delete_before_advance": ("refinement:Collector.Delete",
                              r'Collector\.Delete needs may_delete\(c, g\) .*, which needs g\.pc == "Known" or .* "Listed"'),
    "boundary_moves_backward": ("refinement:Collector.Advance",
                                r"Collector\.Advance needs s\.boundary == g\.b or .*: s\.boundary is \d+, g\.b is \d+"),
    "latest_deleted": ("refinement:Collector.Advance",
                       r"Collector\.Advance is possible, but not this one: expected Advance \d.*, observed Advance \d"),
    "age_ignored": ("history:too young", r"Collector#\d deleted .*, less than \d+ ms after it was put"),
    "checkpoints_not_spared": ("refinement:Collector.Delete", r"Collector\.Delete (needs|is possible, but not this one)"),
    "expired_not_spared": ("refinement:Collector.Delete", r"Collector\.Delete (needs|is possible, but not this one)"),
    "checkpoints_not_checked": ("refinement:Collector.Delete",
                                r"Collector\.Delete needs may_delete\(c, g\) .*, which needs g\.checked .*: g\.checked is F"),
    "reads_not_checked": ("told:read", r"What Reader#0 could do here: Read(Accept|Reject), "),
    "lost_reply_is_conflict": ("refinement:Writer.CreateNext",
                               r"Writer\.CreateNext is possible, .* s2\.files\[.* is File.*, observed file is File"),
    "refused_is_applied_again": ("refinement:Writer.CreateNext",
                                 r"Writer\.CreateNext is possible, .* s2\.files\[.* is File.*, observed file is File"),
    "missing_is_asked_again": ("refinement:Writer.ReadMissing",
                               r'needs w\.pc == "Listed" .*: w\.pc is "Idle"\n\nWhat Writer#\d could do here: List(Page)?\n'),
    "conflict_not_looked_at": ("refinement:Writer.CreateConflict",
                               r'CreateConflict needs .*: w\.pc is "Idle".*\n\nWhat Writer#\d could do here: List(Page)?\n'),
    "Z7": ("refinement:Writer.CreateNext", r"Writer\.CreateNext is possible, .* s2\.files\[.* is File.*, observed file is"),
    "Z8": ("refinement:Writer.Delete", r"\n\nDelete is no action of a Writer; it has .*CreateNext, "),
    "Z9": (LISTS_ANEW, r"its create of db/.* is open, and all it heard of it is create: timeout, create: 4(09|12)\n"),
    "Z9_fenced": ("told:failed", r"was told 'failed' of '\d\.\d', but in the model it is in the history or in flight\n"),
    "Z10": (LISTS_ANEW, r"its create of db/.* is open, and all it heard of it is (.*, )?create: 409\n"),
    "gone_is_not_mine": (LISTS_ANEW, r"its create of db/.* is open, and all it heard of it is .*, get: 404\n"),
    "anothers_is_not_mine": (LISTS_ANEW, r"its create of db/.* is open, and all it heard of it is .*, get: 200\n"),
    "says_it_deleted": ("call:collect deleted", r"collect returned list deleted=db/.*, but this call has deleted "),
    "returns_no_value": ("call:update content", r"update returned Committed content=.*, but this call has neither put"),
    "timeout_is_nothing": ("told:failed", r"was told 'failed' of '\d\.\d', but in the model it is in "),
    "future_is_old": ("history:too young", r"Collector#\d deleted .*, less than \d+ ms after it was put"),
    "sent_once_is_nothing": ("told:failed", r"was told 'failed' of '\d\.\d', but in the model it is in "),
}
WITHOUT_MODEL = {"lost_boundary_is_none", "invalid_boundary_is_ignored", "boundary_ahead_is_believed", "repeated_key_is_listed",
                 "listing_without_end", "empty_page_ends_listing", "looks_for_ever", "listed_is_there",
                 "misnamed_file_is_skipped"}


def caught(mutant: str) -> Outcome:
    for seed in range(2_000):
        outcome = simulate(Run(seed), ZOO[mutant][1])
        if outcome.signature == EXPLAINED[mutant][0]:
            return outcome
    raise AssertionError(f"{mutant}: no {EXPLAINED[mutant][0]} in 2,000 seeds")


def told_of(outcome: Outcome) -> str:
    return explain(outcome.events, outcome.failure, trace_of(outcome.shape), f"highwater dst replay {outcome.seed}")


def test_each_mutant_is_in_the_table():
    """All but those that die in runs that no model judges (dst/world/tampering.py)."""
    assert EXPLAINED.keys() | WITHOUT_MODEL == ZOO.keys()


@pytest.mark.parametrize("mutant", EXPLAINED)
def test_explanation_names_what_is_wrong(mutant):
    outcome = caught(mutant)
    text, (signature, says) = told_of(outcome), EXPLAINED[mutant]
    assert text.startswith(f"{signature}\n{outcome.message}\n")  # and so the slow walk agrees with the tables
    assert re.search(says, text), text
    which = "Last" if outcome.signature.startswith("history:") else "Failing"  # what is judged in the end has no event
    assert f"{which} event, number {len(outcome.events) - 1}:" in text
    assert text.endswith(f"\nReplay: highwater dst replay {outcome.seed}\n")
    assert str(ROOT) not in text
    for source, path, line in re.findall(r"(?:needs|expected) (?:not )?(.+?) \((\w+/\w+\.py):(\d+)\)", text):
        assert source in (ROOT / path).read_text().splitlines()[int(line) - 1], "the line cited is another"


def sample(c, me, s, w):
    ids = sorted(s)
    if not w:
        return
    for i in ids:
        if i > w and not (few(s, 3) or c[me] == i):
            yield (i,), s, w


def few(ids, number):
    return bool(ids) and len(ids) < number


@pytest.mark.parametrize("arguments, observed, says", [
    (((0,), 0, {5}, 0), None, "w (1): w is 0"),
    (((0,), 0, set(), 1), None, "ids (2): ids is ()"),
    (((0,), 0, {1, 2}, 3), None, "i > w (3): i is 1, w is 3"),
    (((0,), 0, {1, 2}, 3), (2,), "i > w (3): i is 2, w is 3"),
    (((0,), 0, {7, 9}, 3), None, "not few(s, 3) (3): few(s, 3) is True, s is {7, 9}"),
    (((9,), 0, {1, 2, 9}, 3), (9,), "not c[me] == i (3): c[me] is 9, i is 9"),
])
def test_first_false_conjunct_is_found(arguments, observed, says):
    line = {2: "1", 4: "2", 5: "3"}  # line of `sample` -> number of its condition
    text = why_not(sample, *arguments, observed=observed)
    assert re.sub(rf"{HERE}:(\d+)", lambda m: line[int(m[1]) - sample.__code__.co_firstlineno], text) == says


def test_helpers_and_closures_are_looked_into():
    limit = 3
    says = why_not(lambda ids: few(ids, limit) and ids, {1, 2, 3})
    assert re.fullmatch(rf"few\(ids, limit\) \({HERE}:\d+\), which needs len\(ids\) < number \({HERE}:\d+\): "
                        r"len\(ids\) is 3, ids is \{1, 2, 3\}, number is 3", says)
    says = why_not(lambda ids: len(ids) == limit, {1, 2})
    assert re.fullmatch(rf"len\(ids\) == limit \({HERE}:\d+\): len\(ids\) is 2, ids is .*, observed limit is 3", says)


def test_an_iterator_is_not_shown_because_its_address_differs_from_run_to_run():
    says = why_not(lambda ids: all(high > low for low, high in pairwise(ids)), (2, 1))
    assert "pairwise(ids)" in says and "0x" not in says


def test_explanation_does_not_depend_on_hashing():
    code = "from tests.traces.test_refine import *; print(*map(told_of, map(caught, EXPLAINED)))"
    texts = [subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={"PYTHONHASHSEED": hashing, "PYTHONPATH": "."},
                            capture_output=True, check=True).stdout for hashing in ("1", "2")]
    assert texts[0] == texts[1] and texts[0].count(b"Replay:") == len(EXPLAINED)


def test_failures_that_are_not_of_the_trace_are_told_too():
    outcome = simulate(Run(0))
    stuck = Failure("liveness", "liveness:Writer", "Writer#0 did not finish")
    text = explain(outcome.events, stuck, trace_of(outcome.shape))
    assert text.startswith("liveness:Writer\nWriter#0 did not finish\n\nLast event, ") and "\nShared in the model" in text
    assert explain(outcome.events, ValueError("oh"), trace_of(outcome.shape)).startswith("ValueError\noh\n\nLast event, ")
    assert explain([], stuck, trace_of(outcome.shape)).startswith("liveness:Writer\n")


# --- golden traces ------------------------------------------------------------------------------------------------------

COMPACTIONS = Namespace("db", "compactions")


def stale_create(outcome: Outcome) -> bool:
    """A writer was told that it has committed an id that was deleted, and that it has brought back."""
    return outcome.signature == "told:committed" and \
        any(getattr(local, "late", False) for local in outcome.failure.states[0].locals)


def stale_read(outcome: Outcome) -> bool:
    """A reader was told a file that lacks what had been reported before its read began."""
    return outcome.signature == "told:read" and \
        any(not local.must <= local.got for local in outcome.failure.states[0].locals if hasattr(local, "must"))


def all_faults(outcome: Outcome) -> bool:
    wanted = {"write: timeout, in flight", "write: not awaited", "create: 412", "delete: 204", "told read"}
    return not outcome.kind and {"crash", "refused", "timeout"} <= {event.kind for event in outcome.events} and \
        wanted <= {kind_of(event) for event in outcome.events}


BUSY = Shape(writers=2, commits=3, collectors=1, rounds=2, readers=1, reads=1, min_age_ms=150)
STALLS = Weights(stall=200, refused=0, request_lost=0, reply_lost=0, late=0, crash=0)
GOLDEN_TRACES = {  # name -> its verdict; the searched failure, and the build
    "good": ("", all_faults, production, BUSY, FAULTY),
    "no_check": ("told:committed", stale_create, ZOO["no_check"][1],
                 Shape(writers=2, commits=2, collectors=1, rounds=2, min_age_ms=400), STALLS._replace(reply_lost=200)),
    "reads_not_checked": ("told:read", stale_read, ZOO["reads_not_checked"][1], BUSY._replace(writers=3),
                          STALLS._replace(late=50)),
}


def write_golden(seeds: int = 20_000) -> None:
    """The shortest trace of its kind in so many seeds."""
    for name, (_, wanted, build, shape, weights) in GOLDEN_TRACES.items():
        found = None
        for seed in range(seeds):
            outcome = simulate(Run(seed, shape=shape, weights=weights), build)
            if wanted(outcome) and (found is None or len(outcome.events) < len(found)):
                found = outcome.events
                print(name, seed, len(found))
        (GOLDEN / f"{name}.ndjson").write_text("".join(to_json(event) + "\n" for event in found))


def golden(name: str) -> list[Event]:
    return [from_json(line) for line in (GOLDEN / f"{name}.ndjson").read_text().splitlines()]


def plain_trace(**knobs) -> Trace:
    return Trace(refiner(constants(3, 1, 1, 0, False)._replace(**knobs)), COMPACTIONS)


def verdict(trace: Trace, events: list[Event]) -> tuple[str, int]:
    for number, event in enumerate(events):
        try:
            trace.observe(event)
        except Failure as failure:
            return failure.signature, number
    return "", len(events)


@pytest.mark.parametrize("name", GOLDEN_TRACES)
def test_golden_trace_has_its_verdict(name):
    events, expected = golden(name), GOLDEN_TRACES[name][0]
    assert verdict(plain_trace(), events) == (expected, len(events) - bool(expected))


@pytest.mark.parametrize("name", GOLDEN_TRACES)
def test_golden_trace_is_written_as_it_was_read(name):
    assert "".join(to_json(event) + "\n" for event in golden(name)) == (GOLDEN / f"{name}.ndjson").read_text()


def test_golden_stale_writer_brings_back_a_collected_id():
    """The RFC's hazard, event by event: created, deleted behind the boundary, created again, reported as committed."""
    events = golden("no_check")
    last = events[-1]
    life = [(e.op, e.client) for e in events if e.key == last.key and e.kind == "applied" and e.op != "get" and e.status < 300]
    assert (last.kind, last.op) == ("told", "committed") and [op for op, _ in life] == ["create", "delete", "create"]
    assert life[0][1] != life[2][1] == last.client


def test_golden_stale_writer_is_told_in_words():
    text = explain(golden("no_check"), None, plain_trace())
    assert re.search(r"\nFailing event, number 1\d:\n  Writer#(\d) at \d+ ms: was told: committed \1\.0 id 2\n", text)
    for row in (r"Writer#\d     list db/compactions/ +200: id 1, id 2 +List\n",
                r"Writer#\d     put id 3 if absent +timeout +LoseReply\n",
                r"Writer#\d     was told: unknown \d\.\d\n", r"Collector#0  get boundary +404 not there +ReadBoundary\n",
                r"Collector#0  put boundary 2 if absent +200 +Advance 2\n", r"Collector#0  delete id 2 +204 +Delete 2\n",
                r'Writer#\d     put id 2 if absent +200 +CreateNext \("Keep", \(\)\)\n'):
        assert re.search(row, text), row
    assert re.search(r"\nWhat Writer#\d could do here: Reject, LoseReply, Crash\n", text)


def test_safety_failure_is_explained_by_its_property():
    """A model whose writers do not check can take the same trace; then a property fails."""
    events = golden("no_check")
    signature, number = verdict(plain_trace(CHECK="off"), events)
    text = explain(events, Failure("safety", "", ""), plain_trace(CHECK="off"))
    assert (signature, events[number].op, number) == ("safety:CommitIsUnique", "create", len(events) - 2)
    assert text.startswith("safety:CommitIsUnique\n") and "\nNo id is ever acknowledged twice.\nIt needs " in text
    assert re.search(r"\n\nThe last step changed\n  shared\.files: .* -> .*\n  shared\.acked: \{.*\} -> \{", text)


# --- the format ---------------------------------------------------------------------------------------------------------

NUMBERS = st.integers(-LARGEST, LARGEST)
EVENTS = st.builds(Event, NUMBERS, NUMBERS, st.text(), st.text(), st.text(), st.text(), st.text(), NUMBERS, st.text(),
                   st.binary(), st.lists(st.text()).map(tuple), st.booleans(), st.booleans(), st.booleans())


@given(EVENTS)
@settings(max_examples=200, deadline=None)
def test_events_survive_json(event):
    line = to_json(event)
    assert "\n" not in line and line.isascii() and from_json(line) == event


@pytest.mark.parametrize("line", [
    "", "{", "null", "5", '"v"', '{"v":0}', '{"v":"2"}', '{"v":true}', '{"v":null}', '{"v":1,"colour":"red"}',
    '{"v":1,"body":5}', "[]", '{"v":1,"keys":5}'])
def test_bad_lines_are_named(line):
    with pytest.raises(ValueError, match=re.escape(repr(line))):
        from_json(line)


def test_a_line_without_a_version_is_of_the_first():
    for name in GOLDEN_TRACES:
        for line in (GOLDEN / f"{name}.ndjson").read_text().splitlines():
            fields = json.loads(line)
            assert fields.pop("v") == 1 and from_json(json.dumps(fields)) == from_json(line)


def test_a_newer_version_is_refused_by_name():
    with pytest.raises(NewerVersion, match="format version 3, and this release of highwater reads version 2: install a newer"):
        from_json('{"v":3,"colour":"red"}')


def test_default_fields_are_not_written():
    assert to_json(EMPTY) == '{"v":1}'


if __name__ == "__main__":
    write_golden()
