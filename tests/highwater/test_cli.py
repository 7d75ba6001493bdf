"""The commands as a user meets them: their output, their refusals, their exit codes."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from highwater import __version__
from highwater.cli import verify
from highwater.cli.dst.report import trace_command
from highwater.cli.main import app
from highwater.cli.model import explore
from highwater.dst.bundle import trace_text
from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import DEFAULT, STEMS
from highwater.dst.simulate import Outcome, simulate
from highwater.gate import proofs as gate_proofs
from highwater.gate import specs as gate_specs
from highwater.gate.exits import (
    HARNESS,
    INCOMPLETE,
    INTERRUPTED,
    LIVENESS,
    PROOF,
    REFINEMENT,
    SAFETY,
    SPEC,
    of_kinds,
    worst,
)
from highwater.gate.protocols import sequenced_metadata_boundary as checks_own
from highwater.gate.reports import Ended, as_junit, as_markdown
from highwater.gate.rows import Check, Found, Row, timed
from highwater.model.proofs.engine import inductive
from highwater.specs.fizzbee.check import Fizz
from highwater.specs.fizzbee.errors import FizzMissing

GOLDEN = Path(__file__).parents[1] / "golden"


def ran(*arguments: str):
    return CliRunner().invoke(app, arguments)


def test_the_lowest_failure_wins_and_incomplete_is_never_green():
    assert worst([]) == worst([0, 0]) == 0
    assert worst([0, INCOMPLETE]) == INCOMPLETE
    assert worst([INCOMPLETE, PROOF, REFINEMENT, 0]) == REFINEMENT
    assert of_kinds(["liveness", "refinement"]) == REFINEMENT and of_kinds(["liveness"]) == LIVENESS
    assert of_kinds(["what is that?"]) == HARNESS


def test_version_is_that_of_the_package():
    result = ran("--version")
    assert (result.exit_code, result.output) == (0, f"highwater {__version__}\n")


def groups(command, name: str = "highwater") -> Iterator[tuple[str, str, list[str]]]:
    """Yield each group below a command: its full name, its help, its verbs."""
    for verb, below in getattr(command, "commands", {}).items():
        if verbs := list(getattr(below, "commands", {})):
            yield f"{name} {verb}", below.help, verbs
            yield from groups(below, f"{name} {verb}")


def test_help_of_each_group_names_every_verb():
    helps = list(groups(get_command(app)))
    assert len(helps) > 10
    for name, text, verbs in helps:
        assert not [verb for verb in verbs if verb not in re.findall(r"[a-z-]+", text.lower())], name


@pytest.mark.parametrize("arguments, says", [
    (["dst", "run"], "either --seed N or --seeds A:B"),
    (["dst", "run", "--seeds", "5:1"], "write A:B, with A < B"),
    (["dst", "run", "--seeds", "five"], "write A:B"),
    (["dst", "run", "--seed", "1", "--mutant", "nobody"], "there is no mutant 'nobody' of sequenced_"),
    (["dst", "run", "--seed", "1", "--scenario", "nothing"], "there is no scenario 'nothing'"),
    (["dst", "replay", "nowhere.json"], "nowhere.json: not a tape"),
    (["model", "explore", "--set", "CHEQUE=off"], "there is no constant 'CHEQUE'; choose one of WRITERS,"),
    (["model", "explore", "--set", "COMMITS=many"], "the default of COMMITS is 2"),
    (["model", "conform", "nothing"], "there is no run 'nothing' in specs/*.toml"),
    (["trace", "check", "nowhere.ndjson"], "nowhere.ndjson"),
    (["trace", "check", "/dev/null"], "the file has no events"),
    (["dst", "run", "--seeds", "[/x]"], "[/x]"),
    (["dst", "run", "--seeds", "²:5"], "write A:B"),
    (["dst", "run", "--seeds", "0:2", "--out", "x"], "--out needs --seed"),
    (["dst", "run", "--seed", "1", "--out", "/dev/null/x"], "cannot be written"),
    (["verify", "--json", "/dev/null/x"], "cannot be written"),
    (["model", "explore", "--set", "PAGE=-1"], "PAGE must be from 0 to 100"),
    (["model", "explore", "--set", "WRITERS=0"], "WRITERS must be from 1 to 100"),
    (["model", "explore", "--set", "CHECK=foo"], "CHECK must be after, before or off"),
    (["trace", "check", str(GOLDEN / "good.ndjson"), "--namespace", "wal"], "manifest or compactions"),
])
def test_bad_input_is_refused_in_one_line(arguments, says):
    result = ran(*arguments)
    assert result.exit_code == 2 and says in result.output
    assert "Traceback" not in result.output and result.output.count("\n") <= 1


def test_a_good_seed():
    result = ran("dst", "run", "--seed", "1")
    assert result.exit_code == 0 and "the trace refines the model" in result.output


def test_a_bad_seed_says_how_to_see_it_again():
    result = ran("dst", "run", "--seeds", "0:40", "--mutant", "reported_though_refused")
    assert result.exit_code == SAFETY and "told:committed" in result.output
    command = next(line for line in result.output.splitlines() if "highwater dst run" in line).partition("highwater ")[2]
    again = ran(*command.split())
    assert again.exit_code == SAFETY and "was told 'committed'" in again.output
    assert f"Replay: highwater {command}" in again.output


@pytest.mark.parametrize("seed", range(8))
def test_the_trace_of_a_good_run_refines_by_itself(seed, tmp_path):
    written = ran("dst", "run", "--seed", str(seed), "--out", str(tmp_path)).output
    command = written.partition("and the trace: highwater ")[2].partition("\n")[0]
    result = ran(*command.split())
    assert result.exit_code == 0 and "refine the model" in result.output, result.output


@pytest.mark.parametrize("page, fewest", [("README.md", 5), ("docs/guide/commands.md", 40)])
def test_page_shows_only_commands_that_exist(page, fewest):
    text = (Path(__file__).parents[2] / page).read_text()
    lines = [line.split("#")[0].split() for line in text.splitlines() if line.startswith("    highwater ")]
    assert len(lines) >= fewest
    for _, *arguments in lines:
        verb = arguments[:1] if arguments[0] in ("demo", "new", "verify", "cost") else arguments[:2]
        shown = ran(*verb, "--help").output
        assert all(option in shown for option in arguments if option.startswith("--")), arguments


def shown(*words: str) -> str:
    """Return what a command's help says, without the frames of its tables."""
    return " ".join(ran(*words, "--help").output.replace("│", " ").split())


def test_help_shows_what_stands_in_brackets():
    assert "or the nearest above it in the repository that has one]" in shown("dst", "run")
    assert "the protocol whose clients run [default: that of --project, or" in shown("dst", "run")
    assert "a page, such as tutorial [default: list all]" in shown("docs")


def test_help_of_a_group_breaks_no_sentence():
    lines = CliRunner().invoke(app, ["dst", "--help"], env={"COLUMNS": "100"}).output.splitlines()
    at = next(number for number, line in enumerate(lines) if "explain  " in line)
    assert "the nearest run that passes." in lines[at + 1], lines[at:at + 3]


def test_tape_and_trace_of_a_run(tmp_path):
    assert ran("dst", "run", "--seed", "4", "--out", str(tmp_path)).exit_code == 0
    again = ran("dst", "replay", str(tmp_path / "tape.json"))
    assert again.exit_code == 0 and json.loads((tmp_path / "tape.json").read_text())["digest"] in again.output
    tape = json.loads((tmp_path / "tape.json").read_text())
    (tmp_path / "tape.json").write_text(json.dumps({**tape, "tape": tape["tape"][:30]}))
    assert ran("dst", "replay", str(tmp_path / "tape.json")).exit_code == 13
    (tmp_path / "tape.json").write_text(json.dumps({**tape, "tape": [*tape["tape"], ["more", 0, 2]]}))
    assert "the tape continues" in ran("dst", "replay", str(tmp_path / "tape.json")).output
    for bad in ({"mutant": ["x"]}, {"scenario": "other"}, {"tape": [["site", 5, 2]]}, {"seed": "x"}):
        (tmp_path / "tape.json").write_text(json.dumps({**tape, **bad}))
        assert ran("dst", "replay", str(tmp_path / "tape.json")).exit_code == 2
    (tmp_path / "tape.json").write_text(json.dumps({**tape, "digest": "0" * 32}))
    assert "nondeterminism" in ran("dst", "replay", str(tmp_path / "tape.json")).output


def test_a_counterexample_of_the_model():
    result = ran("model", "explore", "--set", "BOUNDARY=False")
    assert result.exit_code == SAFETY
    assert "CommitIsUnique fails: No id is ever acknowledged twice." in result.output and "Delete(2,)" in result.output
    assert ran("model", "explore").exit_code == 0
    assert ran("model", "explore", "--max-states", "100").exit_code == INCOMPLETE


STARVED = ("--set", "BUSY=1", "--set", "CONTENT=flag", "--set", "UPDATES=1", "--eventually", "UpdatesEnd")


def test_brief_counterexample_has_actions_only():
    result = ran("model", "explore", "simple_conditional", "--set", "CONDITIONAL=False", "--brief")
    counts, fails, *steps = result.stdout.splitlines()
    assert result.exit_code == SAFETY and counts.startswith("44 states, ") and fails.startswith("ContentIsSerial fails: ")
    assert steps == ["", "  0 Init", "  1 Writer#0.Read", "  2 Writer#1.Read", "  3 Writer#0.PutOk", "  4 Writer#1.PutOk"]
    lasso = ran("model", "explore", "simple_conditional", *STARVED, "--brief").output
    assert "and then" in lasso and "\n      " not in lasso
    assert "NOT complete" in ran("model", "explore", "--max-states", "100", "--brief").output


# --- a user's own model

BASE = """
from typing import NamedTuple
from functools import partial
from highwater.model.core import Model, Process
class Constants(NamedTuple):
    N: int = 3
class S(NamedTuple):
    x: object = 0
    y: int = 0
class L(NamedTuple):
    pc: str = "a"
def count(c, me, s, l):
    if s.x < c.N:
        yield (), s._replace(x=s.x + 1), l
def a(c, me, s, l):
    if l.pc == "a" and s.x < 4:
        yield (), s._replace(x=s.x + 1), l._replace(pc="b")
def back(c, me, s, l):
    if l.pc == "b":
        yield (), s._replace(x=s.x - 1), l._replace(pc="a")
def own(c, me, s, l):
    if l.pc == "b":
        yield (), s, l._replace(pc="c")
def loop(c, me, s, l):
    if l.pc == "b":
        yield (), s, l
def fine(c, s):
    return s.x < 2
def built(c, actions, fine=fine, n=1, sometimes=None, **more):
    processes = tuple(Process(f"P#{i}", "P", i, L(), actions) for i in range(n))
    return Model("mine", c, S(), processes, {"Fine": (None, fine)}, sometimes or {}, **more)
"""
PAIR = "def model(c): return built(c, {'a': a, 'b': %s}, n=2, unseen={'P': frozenset({'b'})}%s)"


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Writes a module of the user's and runs a verb on it."""
    monkeypatch.syspath_prepend(tmp_path)

    def run(text: str, *arguments: str, verb: str = "explore"):
        name = f"mine{abs(hash(text)) % 10**9}"
        (tmp_path / f"{name}.py").write_text(text)
        return ran("model", verb, name, *arguments)

    return run


@pytest.mark.parametrize("text, arguments, says", [
    ("def (", [], "cannot be imported: SyntaxError: invalid syntax"),
    ("x = y", [], "cannot be imported: NameError: name 'y' is not defined"),
    ("import nosuchthing", [], "cannot be imported: ModuleNotFoundError: No module named 'nosuchthing'"),
    (BASE.replace("N: int = 3", "N: int") + "model = built", [], "Constants.N has no default"),
    ("Constants = model = 3", [], "a model has a NamedTuple Constants and a function model(constants)"),
    (BASE + "def model(c): return None", [], "model(Constants(N=3)) returns None, not a highwater.model.core.Model"),
    (BASE + "def model(c): raise ValueError(f'{c.N} is odd')", ["--set", "N=1"], "raises ValueError: 1 is odd"),
    (BASE + "def model(c): return built(c, {}, n=0)", [], "model(Constants(N=3)) has no process"),
    (BASE + "def bad(c, me, s, l):\n  yield (), s._replace(x=[1]), l\ndef model(c): return built(c, {'Bad': bad})", [],
     "a state holds a mutable value: S.x = [1], after P.Bad (unhashable type: 'list')"),
    (BASE + "def bad(c, me, s, l):\n  yield (), s._replace(x=s.z), l\ndef model(c): return built(c, {'Bad': bad})", [],
     "has no attribute 'z'"),
])
def test_what_is_wrong_with_a_user_s_module_is_told_in_one_line(mine, text, arguments, says):
    result = mine(text, *arguments)
    assert result.exit_code == 2 and says in result.output, result.output
    assert "Traceback" not in result.output and "there is no model" not in result.output
    assert len([line for line in result.output.splitlines() if "error:" in line]) == 1


@pytest.mark.parametrize("text, says", [
    ("def model(c): return built(c, {'a': lambda c, me, s, l: iter([((), s._replace(x=s.x + 1), l)][s.x:])}, "
     "lambda c, s: s.x < 1)", "x: 0 → 1"),
    ("def step(by, *o):\n  yield from count(*o)\nclass Fine:\n  def __call__(self, c, s): return s.x < 2\n"
     "def model(c): return built(c, {'a': partial(step, 1)}, Fine())", "x: 1 → 2"),
    ("class Step:\n  def __call__(self, *o): return count(*o)\ndef model(c): return built(c, {'a': Step()})", "x: 1 → 2"),
    ("def odd(c, me, s, l):\n  i = 0\n  while i < 1:\n    i += 1\n    if s.x == 0: yield (), s._replace(x=5), l\n"
     "def model(c): return built(c, {'a': odd})", "x: 0 → 5"),
    ("def mix(c, me, s, l):\n  if s.x == 0: yield (), s._replace(x=frozenset({None, 1, 'a', (1, 2)})), l\n"
     "def model(c): return built(c, {'a': mix}, lambda c, s: s.x == 0)", "x: 0 → {1, 'a', None, (1, 2)}"),
    ("def odd(c, me, s, l):\n  for s2 in (s, s._replace(x=5)): yield ('[bold]', '[/red]'), s2, l\n"
     "def fine(c, s):\n  '[/] weird [nothing]'\n  return s.x < 2\n"
     "def model(c): return built(c, {'a[/b]': odd}, fine, sometimes={'Wit[/q]': (None, lambda c, s: False)})",
     "P#0.a[/b]('[bold]', '[/red]')"),
], ids=["lambda", "partial", "callable", "while", "mixed-set", "markup"])
def test_a_verdict_is_printed_whatever_the_model_is_made_of(mine, tmp_path, text, says):
    result = mine(BASE + text, "--html", str(tmp_path / "[/x].html"))
    assert result.exit_code == SAFETY, result.output
    assert "Fine fails" in result.output and says in result.output and "[/x].html" in result.output
    assert mine(BASE + text, "--walks", "50", "--steps", "9", verb="walk").exit_code == SAFETY
    assert "fails here" in mine(BASE + text, "--take", "1" if "[/b]" in text else "0,0" if "count" in text else "0",
                                verb="step").output


def test_names_in_brackets_are_names(mine):
    text = BASE + ("def model(c): return built(c, {'a[/b]': count, 'z[/z]': back}, lambda c, s: True, "
                   "sometimes={'Wit[/q]': (None, lambda c, s: False)}, eventually={'Ev[/e]': ('P', lambda c, s, l: False)})")
    result = mine(text, "--eventually", "Ev[/e]")
    assert result.exit_code == LIVENESS
    assert all(name in result.output for name in ("never witnessed: Wit[/q]", "P.z[/z]", "Ev[/e] fails for P#0"))
    assert "Wit[/q]" in mine(text, "--walks", "5", verb="walk").output
    assert "NOT judged: Ev[/e], because the search stopped" in mine(text, "--eventually", "Ev[/e]", "--max-states", "2").output


# --- what a search leaves out

def test_merging_is_checked_by_the_command(mine):
    seen = mine(BASE + PAIR % ("back", ""), "--merge")
    assert seen.exit_code == SAFETY and "violated: Fine in the whole graph, None in the reduced" in seen.output
    assert "states," not in seen.output
    endless = mine(BASE + PAIR % ("loop", ""), "--merge")
    assert endless.exit_code == SAFETY and "b cannot be merged: 101 unseen actions follow each other" in endless.output
    good = mine(BASE + PAIR % ("own", ", fine=lambda c, s: s.x < 4"), "--merge")
    assert good.exit_code == 0 and "checked on this instance: merging loses nothing" in good.output
    assert "leave out --merge" in mine(BASE + "def model(c): return built(c, {'a': a})", "--merge").output


def test_where_an_instance_is_large_merging_is_checked_of_the_usual_one(monkeypatch):
    monkeypatch.setattr(explore, "SMALL", 3_000)
    usual = ran("model", "explore", "highwater.gate.boundary_peer", "--merge", "--max-states", "10", "--set", "M=4")
    assert "cannot check that merging loses nothing" in usual.output and "(W=2, K=2, G=1, M=4" in usual.output
    assert usual.exit_code == SAFETY and "states, " not in usual.output
    monkeypatch.setattr(explore, "SMALL", 30_000)
    large = ran("model", "explore", "highwater.gate.boundary_peer", "--merge", "--max-states", "10", "--set", "W=3")
    assert "checked on a smaller instance, W=2, K=2, G=1, M=4" in large.output and large.exit_code == INCOMPLETE


def test_symmetry_is_not_believed(mine):
    text = BASE + ("def first(c, me, s, l):\n  if s.x < 3 and me == 0: yield (), s._replace(x=s.x + 1), l\n"
                   "def model(c): return built(c, {'a': first}, lambda c, s: True, n=2, renamed={'P': None})")
    assert mine(text, "--symmetry").exit_code == SAFETY
    refused = mine(text, "--symmetry", "--engine", "plain")
    assert refused.exit_code == 2 and "the plain engine does not check" in refused.output


def test_many_clients_that_nobody_names_and_too_many_that_somebody_does():
    result = ran("model", "explore", "--symmetry", "--set", "READERS=11", "--max-states", "300")
    assert result.exit_code == INCOMPLETE, result.output
    refused = ran("model", "explore", "--symmetry", "--set", "WRITERS=11")
    assert refused.exit_code == 2 and "39,916,800 renamings of 11 Writers, more than 5,040" in refused.output


def test_a_property_that_is_not_judged_is_named():
    def said(*arguments: str):
        return ran("model", "explore", "--set", "COMMITS=1", "--eventually", "UpdatesEnd", *arguments)
    broken = said("--set", "BOUNDARY=False", "--set", "COMMITS=2")
    assert broken.exit_code == SAFETY and "NOT judged: UpdatesEnd, because CommitIsUnique fails" in broken.output
    stopped = said("--max-states", "50")
    assert stopped.exit_code == INCOMPLETE and "because the search stopped at 50 states" in stopped.output
    reduced = int(said("--symmetry").output.partition(" states, ")[0].splitlines()[-1].replace(",", ""))
    whole = said("--symmetry", "--max-states", str(reduced + 1))  # enough for the search, and not for the graph
    assert whole.exit_code == INCOMPLETE and "graph is needed and stopped at" in whole.output and "holds" not in whole.output


def test_an_element_of_take_that_is_empty_is_refused():
    for take in ("0,,0", "0,", ","):
        result = ran("model", "step", "--take", take)
        assert result.exit_code == 2 and "there is no move '' after" in result.output


def test_walks_through_states_that_are_too_wide_are_refused_in_one_line():
    result = ran("model", "walk", "--set", "WRITERS=20", "--walks", "10")
    assert result.exit_code == 2 and "bits, more than 63" in result.output and "Traceback" not in result.output


def test_a_search_that_was_cut_has_not_shown_that_an_action_never_fires():
    cut, whole = ran("model", "explore", "--max-states", "9"), ran("model", "explore")
    assert "not fired so far: " in cut.output and "never fired" not in cut.output
    assert "so far" not in whole.output


def test_all_walks_taken_is_0_and_proves_nothing():
    result = ran("model", "walk", "--walks", "20", "--steps", "5")
    assert result.exit_code == 0 and "20 walks, 100 steps, the longest 5" in result.output
    assert "proves nothing" in result.output and "NOT complete" not in result.output


def test_walks_that_are_cut_short_are_3():
    result = ran("model", "walk", "--walks", "20000", "--steps", "5", "--budget-s", "0")
    assert result.exit_code == INCOMPLETE and "NOT complete: 0 of 20,000 walks" in result.output
    assert "proves nothing" in result.output
    found = ran("model", "walk", "--set", "CHECK=off", "--walks", "20000", "--budget-s", "600")
    assert found.exit_code == SAFETY and "NOT complete" not in found.output


def test_walks_that_are_interrupted_are_130(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("highwater.model.explore.walk.walk", interrupted)
    result = ran("model", "walk", "--walks", "20")
    assert result.exit_code == INTERRUPTED and "proves" not in result.output


@pytest.mark.parametrize("arguments, code", [(["--set", "CHECK=off"], SAFETY), ([], 0), (["--max-states", "9"], INCOMPLETE)])
def test_a_reader_who_leaves_does_not_change_the_verdict(arguments, code):
    command = [sys.executable, "-m", "highwater", "model", "explore", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b"no project, protocol sequenced_metadata_boundary\n"
    assert process.returncode == code


def test_a_failing_proof():
    result = ran("model", "prove", "log_gc", "--set", "CHECK=off")
    assert result.exit_code == PROOF and "Appender.CreateNext does not keep AckedIsFirst" in result.output


def test_a_proof_of_one_part_takes_the_constants_of_that_part():
    """The proof of the composition is one of a sequence of files."""
    assert "paths of up to 1 steps" in ran("model", "prove", "database_metadata", "--bounded", "1").output
    refused = ran("model", "prove", "database_metadata", "--set", "OFF=wal.CHECK")
    assert refused.exit_code == 2 and "there is no constant 'OFF'; choose one of" in " ".join(refused.output.split())


def test_recorded_traces(tmp_path):
    trace = GOLDEN / "good.ndjson"
    lines = trace.read_text().splitlines()
    broken = tmp_path / "broken.ndjson"
    broken.write_text("\n".join(line for line in lines if '"create"' not in line) + "\n")
    result = ran("trace", "check", str(broken), "--namespace", "manifest")
    assert result.exit_code in (SAFETY, REFINEMENT) and "Failing event" in result.output
    for line in ('{"v":1,"client":"Writer#x"}', '{"v":1,"client":7}', '{"v":1,"request":"a","client":"Writer#0"}'):
        broken.write_text(line + "\n")
        assert ran("trace", "check", str(broken)).exit_code == 2
    broken.write_text('{"v":1,"client":"Writer#0","kind":"told","op":"read","body":"[1]"}\n')
    assert ran("trace", "check", str(broken)).exit_code == REFINEMENT
    broken.write_text("not json\n")
    assert ran("trace", "check", str(broken)).exit_code == 2
    broken.write_text(trace.read_text().replace('"v":1', '"v":3'))
    result = ran("trace", "check", str(broken), "--namespace", "manifest")
    assert result.exit_code == 2 and "its events are of format version 3" in " ".join(result.output.split())
    assert "broken.ndjson" in "".join(result.output.split())
    broken.write_text(trace.read_text().replace(',"v":1', ""))
    assert '"v"' not in broken.read_text()
    same = [ran("trace", "check", str(file), "--namespace", "compactions") for file in (broken, trace)]
    assert same[0].exit_code == same[1].exit_code == 0


def traced(scenario: str, seed: int, file: Path) -> Outcome:
    outcome = simulate(Run(seed, scenario=scenario))
    file.write_text(trace_text(outcome))
    return outcome


@pytest.mark.parametrize("scenario", STEMS)
def test_a_trace_is_checked_by_the_command_that_is_told_of_its_run(tmp_path, scenario):
    for seed in range(8):
        outcome = traced(scenario, seed, tmp_path / "trace.ndjson")
        result = ran(*trace_command(outcome, tmp_path / "trace.ndjson").split()[1:])
        assert result.exit_code == 0, (seed, result.output)


@pytest.mark.parametrize("scenario", [stem for stem in STEMS if stem not in (DEFAULT, "known_latest", "update_ids")])
def test_a_trace_of_another_protocol_is_refused_with_the_option_to_give(tmp_path, scenario):
    traced(scenario, 1, tmp_path / "trace.ndjson")
    result = ran("trace", "check", str(tmp_path / "trace.ndjson"))
    assert result.exit_code == 2 and f"--protocol {scenario}" in result.output


def test_where_another_protocol_has_the_same_keys_a_failure_says_so(tmp_path):
    file, says = tmp_path / "trace.ndjson", "--protocol known_latest"
    for seed in range(30):
        shape = traced("known_latest", seed, file).shape
        check = ["trace", "check", str(file), "--namespace", "manifest", "--skew-ms", str(shape.skew_ms)]
        result = ran(*check)
        if shape.manifest and not shape.sdk and result.exit_code == REFINEMENT:  # in some runs nobody knows the latest
            break
    assert result.exit_code == REFINEMENT and says in result.output
    assert says not in ran(*check, "--protocol", DEFAULT).output  # it is theirs, they say
    refused = ran(*check, "--protocol", "known_latest")
    assert refused.exit_code == 2 and "--shape" in refused.output


# --- the gate

def test_a_check_that_breaks_down_has_not_passed():
    row = timed(Check("protocol", "part", "what", lambda: 1 // 0))
    assert (row.code, row.verdict) == (HARNESS, "FAILED") and "ZeroDivisionError" in row.message


def test_without_fizzbee_the_spec_is_skipped_aloud(monkeypatch):
    def nowhere(cls):
        raise FizzMissing("FizzBee: there is no Go here")

    monkeypatch.setattr(Fizz, "find", classmethod(nowhere))
    [check] = gate_specs.checks("baseline", False)
    row = timed(check)
    assert (row.code, row.verdict, row.message) == (INCOMPLETE, "skipped", "FizzBee: there is no Go here")


def test_what_the_gate_asks_of_a_proof(monkeypatch):
    from highwater.model.proofs import sequenced_write as proofs

    stem, off = "sequenced_write", proofs.SAFEGUARDS_OFF[0]
    assert gate_proofs.proved(stem, "").code == gate_proofs.unproved(stem, off).code == 0
    assert gate_proofs.tied(stem, deep=False).code == 0
    assert gate_proofs.unproved(stem, {}).code == PROOF  # it holds though nothing is switched off
    assert [check.part for check in gate_proofs.checks(stem, deep=False)] == ["proof"] * (
        len(proofs.SYSTEMS) + len(proofs.SAFEGUARDS_OFF) + 1)
    writer = {name: action for name, action in proofs.ACTIONS["Writer"].items() if name != "CreateConflict"}
    monkeypatch.setattr(proofs, "SYSTEM", proofs.SYSTEM._replace(actions=proofs.ACTIONS | {"Writer": writer}))
    found = gate_proofs.tied(stem, deep=False)
    assert found.code == PROOF and "CreateConflict" in found.message


def test_a_query_that_z3_gave_up_does_not_show_that_a_proof_fails(monkeypatch):
    def prove(constants, progress):
        progress(inductive.Row("Writer.Put", "First", constants["CHECK"], 1))

    monkeypatch.setattr(gate_proofs, "proof_of", lambda _: SimpleNamespace(m=SimpleNamespace(Constants=dict), prove=prove))
    for verdict, code in (("timeout", PROOF), ("unknown", PROOF), ("proved", PROOF), ("fails", 0)):
        assert gate_proofs.unproved("any", {"CHECK": verdict}).code == code


def test_bounded_and_exhaustive_search_agree():
    assert checks_own.unrolled().code == 0


def test_the_canary_must_fail(monkeypatch):
    from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
    from highwater.dst.scenarios.sequenced_metadata_boundary import production

    assert checks_own.canary().code == 0
    monkeypatch.setitem(ZOO, checks_own.CANARY, ("nothing", production))
    monkeypatch.setattr(checks_own, "CANARY_BUDGET", 20)
    assert checks_own.canary().code == HARNESS


def holds() -> Found:
    return Found("1")


def differs() -> Found:
    return Found("", SPEC, "they differ")


def absent() -> Found:
    return Found("", INCOMPLETE, "no Java")


def dies() -> Found:
    os.kill(os.getpid(), signal.SIGKILL)
    return Found("1")


def the_gate(monkeypatch, tmp_path, *functions, also=()):
    """Run the gate on functions of this module."""
    found = [Check("p", "a", function.__name__, function) for function in functions]
    monkeypatch.setenv("HIGHWATER_CACHE", str(tmp_path))
    monkeypatch.setattr(verify, "checks_of", lambda protocol, *_: found if protocol == "baseline" else [])
    return ran("verify", "--protocol", "baseline", "--json", str(tmp_path / "verify.json"), *also)


def test_a_gate_with_a_failure_says_so_in_its_lines_its_table_its_json_and_its_exit_code(monkeypatch, tmp_path):
    result = the_gate(monkeypatch, tmp_path, holds, differs, absent, also=["--rows"])
    assert result.exit_code == SPEC and "1 ok (0 kept), 1 failed, 1 skipped" in result.output
    assert re.search(r"^\d/3 FAILED +\d\.\d s  p: a: differs: exit 16: they differ$", result.output, re.MULTILINE)
    document = json.loads((tmp_path / "verify.json").read_text())
    assert document["exit"] == SPEC and [row["verdict"] for row in document["rows"]] == ["ok", "FAILED", "skipped"]


def test_a_check_whose_process_dies_has_failed(monkeypatch, tmp_path):
    result = the_gate(monkeypatch, tmp_path, dies, holds)
    assert result.exit_code == HARNESS and "its process ended with SIGKILL" in result.output and "1 ok" in result.output


def test_a_kept_row_is_named_so_and_makes_the_same_reports(monkeypatch, tmp_path):
    page = tmp_path / "page.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    files = ("--junit", str(tmp_path / "junit.xml"), "--summary", str(tmp_path / "summary.md"))
    for kept in (0, 1):
        result = the_gate(monkeypatch, tmp_path, holds, differs, absent, also=files)
        assert f"1 ok ({kept} kept)" in result.output
    suites = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [suites.get(name) for name in ("tests", "failures", "skipped")] == ["3", "1", "1"]
    assert [[child.tag for child in case] for case in suites.iter("testcase")] == [["system-out"], ["failure"], ["skipped"]]
    assert suites.find(".//failure").text == "they differ" and suites.find(".//system-out").text == "kept: 1"
    summary = (tmp_path / "summary.md").read_text()
    assert "exit 16: spec ≠ model" in summary and "| p | 3 | 0 | 1 | 1 | 1 |" in summary and "    they differ" in summary
    assert page.read_text().endswith(summary) and page.read_text().count("###") == 2
    again = the_gate(monkeypatch, tmp_path, holds, also=["--again", "50"])
    assert again.output.count("run again: 1 of them, drawn by --draw ") == 1


def test_a_summary_holds_any_message():
    row = Row("p|q", "a", "<b>", "", 1.0, HARNESS, "a\x00b\n&<")
    ended = Ended([row], HARNESS, 1.0)
    assert ElementTree.fromstring(as_junit(ended)).find(".//failure").text == "ab\n&<"
    assert "p\\|q" in as_markdown(ended)


def test_a_run_may_be_given_its_shape_and_its_faults():
    wanted = ("--mutant", "Z10", "--shape", "sdk=boto3_standard", "--shape", "writers=2", "--fault", "conflict=150")
    result = ran("dst", "run", "--seeds", "0:20", *wanted)
    assert result.exit_code == REFINEMENT
    seed, command = re.search(r"--seed (\d+) (.*)", result.output).groups()
    assert command.split() == [*wanted]
    again = ran("dst", "run", "--seed", seed, *wanted)
    assert again.exit_code == REFINEMENT and "writers 2" in again.output and again.stdout.rstrip().endswith(command)
    for bad, why in (("--shape", "sdk=x"), "there are boto3_legacy"), (("--shape", "wirters=2"), "there is no 'wirters'"), \
            (("--shape", "writers=9"), "--shape: writers is 9, and may be 0 to"), \
            (("--shape", "writers=0"), "nothing happens without"), (("--fault", "stll=1"), "there are stall"), \
            (("--fault", "stall=1001"), "1001 of 1,000"):
        refused = ran("dst", "run", "--seeds", "0:2", *bad)
        assert refused.exit_code == 2 and why in refused.output, refused.output


def test_an_interrupted_range_tells_what_it_has_found(monkeypatch):
    from highwater.cli.dst import app as dst

    def results(*_):
        yield 1, simulate(Run(1), ZOO["no_check"][1])
        raise KeyboardInterrupt

    monkeypatch.setattr(dst.Supervisor, "results", results)
    result = ran("dst", "run", "--seeds", "1:9", "--mutant", "no_check")
    assert result.exit_code == INTERRUPTED and "interrupted, 7 were not run" in result.output
    assert "highwater dst run --protocol sequenced_metadata_boundary --seed 1 --mutant no_check" in result.output
