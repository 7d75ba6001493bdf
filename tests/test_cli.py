"""The verbs as a user meets them: what they say, how they refuse, what their exit codes are."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli import verify
from cli.exits import HARNESS, INCOMPLETE, LIVENESS, PROOF, REFINEMENT, SAFETY, SPEC, of_kinds, worst
from cli.main import app
from cli.verify import Check, Found, timed
from specs.fizz import Fizz, FizzMissing

GOLDEN = Path(__file__).parent / "golden"


def ran(*arguments: str):
    return CliRunner().invoke(app, arguments)


def test_the_lowest_failure_wins_and_incomplete_is_never_green():
    assert worst([]) == worst([0, 0]) == 0
    assert worst([0, INCOMPLETE]) == INCOMPLETE
    assert worst([INCOMPLETE, PROOF, REFINEMENT, 0]) == REFINEMENT
    assert of_kinds(["liveness", "refinement"]) == REFINEMENT and of_kinds(["liveness"]) == LIVENESS
    assert of_kinds(["what is that?"]) == HARNESS


@pytest.mark.parametrize("arguments, says", [
    (["dst", "run"], "either --seed N or --seeds A:B"),
    (["dst", "run", "--seeds", "5:1"], "write A:B, with A < B"),
    (["dst", "run", "--seeds", "five"], "write A:B"),
    (["dst", "run", "--seed", "1", "--mutant", "nobody"], "there is no mutant 'nobody'; there are no_check,"),
    (["dst", "run", "--seed", "1", "--scenario", "nothing"], "there is no scenario 'nothing'"),
    (["dst", "replay", "nowhere.json"], "nowhere.json: not a tape"),
    (["model", "explore", "--set", "CHEQUE=off"], "there is no constant 'CHEQUE'; there are WRITERS,"),
    (["model", "explore", "--set", "COMMITS=many"], "COMMITS is 2 unless set"),
    (["model", "conform", "nothing"], "there is no run 'nothing' in specs/manifest.toml"),
    (["trace", "check", "nowhere.ndjson"], "nowhere.ndjson"),
    (["trace", "check", "/dev/null"], "there is no event in it"),
    (["dst", "run", "--seeds", "[/x]"], "[/x]"),
    (["dst", "run", "--seeds", "²:5"], "write A:B"),
    (["dst", "run", "--seeds", "0:2", "--out", "x"], "--out goes with --seed"),
    (["dst", "run", "--seed", "1", "--out", "/dev/null/x"], "cannot be written"),
    (["verify", "--json", "/dev/null/x"], "cannot be written"),
    (["model", "explore", "--set", "PAGE=-1"], "PAGE is from 0 to 100"),
    (["model", "explore", "--set", "WRITERS=0"], "WRITERS is from 1 to 100"),
    (["model", "explore", "--set", "CHECK=foo"], "CHECK is after, before or off"),
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


def test_every_line_for_daily_use_in_the_readme_is_a_command():
    readme = (Path(__file__).parent.parent / "README.md").read_text().partition("## For daily use")[2].partition("## ")[0]
    lines = [line.split("#")[0].split() for line in readme.splitlines() if line.startswith("    highwater ")]
    assert len(lines) >= 9
    for _, *arguments in lines:
        verb = arguments[:1] if arguments[0] == "verify" else arguments[:2]
        shown = ran(*verb, "--help").output
        assert all(option in shown for option in arguments if option.startswith("--")), arguments


def test_tape_and_trace_of_a_run(tmp_path):
    assert ran("dst", "run", "--seed", "4", "--out", str(tmp_path)).exit_code == 0
    again = ran("dst", "replay", str(tmp_path / "tape.json"))
    assert again.exit_code == 0 and json.loads((tmp_path / "tape.json").read_text())["digest"] in again.output
    tape = json.loads((tmp_path / "tape.json").read_text())
    (tmp_path / "tape.json").write_text(json.dumps({**tape, "tape": tape["tape"][:30]}))
    assert ran("dst", "replay", str(tmp_path / "tape.json")).exit_code == 13
    (tmp_path / "tape.json").write_text(json.dumps({**tape, "tape": [*tape["tape"], ["more", 0, 2]]}))
    assert "the tape goes on" in ran("dst", "replay", str(tmp_path / "tape.json")).output
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


def test_a_failing_proof():
    result = ran("model", "prove", "--set", "CHECK_READS=False")
    assert result.exit_code == PROOF and "Reader.ReadLatest does not keep" in result.output


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


# --- the gate

def test_a_check_that_breaks_down_has_not_passed():
    row = timed(Check("part", "what", lambda: 1 // 0))
    assert (row.code, row.verdict) == (HARNESS, "FAILED") and "ZeroDivisionError" in row.message


def test_without_fizzbee_the_spec_is_skipped_aloud(monkeypatch):
    def nowhere(cls):
        raise FizzMissing("FizzBee: there is no Go here")

    monkeypatch.setattr(Fizz, "find", classmethod(nowhere))
    [check] = verify.specs()
    row = timed(check)
    assert (row.code, row.verdict, row.message) == (INCOMPLETE, "skipped", "FizzBee: there is no Go here")


def test_the_canary_must_fail(monkeypatch):
    from dst.scenarios.sequenced_metadata_boundary import production
    from dst.zoo import ZOO

    assert verify.canary().code == 0
    monkeypatch.setitem(ZOO, verify.CANARY, ("nothing", production))
    monkeypatch.setattr(verify, "CANARY_BUDGET", 20)
    assert verify.canary().code == HARNESS


def test_a_gate_with_a_failure_says_so_in_its_table_its_json_and_its_exit_code(monkeypatch, tmp_path):
    checks = [Check("a", "holds", lambda: Found("1")), Check("b", "differs", lambda: Found("", SPEC, "they differ")),
              Check("c", "absent", lambda: Found("", INCOMPLETE, "no Java"))]
    for part in ("models", "proofs"):
        monkeypatch.setattr(verify, part, lambda: [])
    for part in ("simulation", "mutants", "campaigns"):
        monkeypatch.setattr(verify, part, lambda *_: [])
    monkeypatch.setattr(verify, "specs", lambda: checks)
    result = ran("verify", "--json", str(tmp_path / "verify.json"))
    assert result.exit_code == SPEC and "1 ok, 1 failed, 1 skipped" in result.output and "they differ" in result.output
    document = json.loads((tmp_path / "verify.json").read_text())
    assert document["exit"] == SPEC and [row["verdict"] for row in document["rows"]] == ["ok", "FAILED", "skipped"]
