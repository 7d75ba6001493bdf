"""Triage: one failure of each signature is shrunk and kept; new signatures are reported; no half-written file is left.

In reading order: the bundles kept of a mutant's campaign, and their replay; new, known, gone, and the exit codes; refusals;
errors on the way; names.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.dst.campaign import processes, triage, waves
from highwater.dst.campaign.folder import Asked, read_json, write_json
from highwater.dst.campaign.place import Folder
from highwater.dst.campaign.what import CampaignError, campaign_of
from highwater.dst.search.shrink import Shrunk
from highwater.dst.spark import session as spark
from highwater.gate import exits

ROOT = Path(__file__).resolve().parents[2]
MUTANT = ("sequenced_metadata_boundary", "age_ignored")
SIGNATURE = "history:too young"


def called(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*map(str, words)])
    return result.exit_code, result.output


def run(out: Path, mutant: str, seeds: tuple[int, int]) -> Path:
    waves.run(campaign_of(MUTANT[0], mutant), Asked(seeds), Folder(out), lambda: processes.local_engine(1), 1)
    return out


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> Path:
    return run(tmp_path_factory.mktemp("campaigns") / "a b [1]", MUTANT[1], (0, 30))


@pytest.fixture(scope="module")
def triaged(found, tmp_path_factory) -> Path:
    out = Path(shutil.copytree(found, tmp_path_factory.mktemp("triaged") / found.name))
    code, text = called("campaign", "triage", out, "--jobs", 1, "--budget", 300)
    assert code == exits.SAFETY and SIGNATURE in text and "new" in text
    return out


@pytest.fixture
def copy(found, tmp_path) -> Path:
    return Path(shutil.copytree(found, tmp_path / "copy"))


# --- kept bundles

def test_it_keeps_a_bundle_of_each_signature(triaged):
    row, = read_json(triaged / "triage.json")["failures"]
    assert (row["signature"], row["state"], row["kind"], row["seed"]) == (SIGNATURE, "new", "safety", 23)
    before, after = map(int, row["requests"].split(" -> "))
    assert after < before
    files = {path.name for path in (triaged / row["bundle"]).iterdir()}
    assert files >= {"report.txt", "timeline.html", "shrunk.report.txt", "shrunk.timeline.html"}
    assert [path.name for path in (triaged / "bundles").iterdir()] == ["history-too-young"]


def test_what_it_says_replays_both(triaged):
    """The printed commands run in a shell, although the folder's name has blanks."""
    row, = read_json(triaged / "triage.json")["failures"]
    program = f"highwater() {{ '{sys.executable}' -m highwater \"$@\"; }}; {row['replay']}"
    done = subprocess.run(["bash", "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == exits.SAFETY and f"safety ({SIGNATURE})" in done.stdout, done.stderr
    code, text = called("dst", "replay", triaged / row["bundle"], "--unshrunk")
    assert code == exits.SAFETY and SIGNATURE in text and "43 requests" in text


def test_spark_shrinks_alike(triaged, copy):
    if spark.load_java().find_java() is None:
        pytest.skip("there is no Java here")
    assert called("campaign", "triage", copy, "--engine", "spark", "--jobs", 1, "--budget", 300)[0] == exits.SAFETY
    for name in ("tape.json", "shrunk.tape.json", "shrunk.trace.ndjson"):
        ours, theirs = (folder / "bundles" / "history-too-young" / name for folder in (copy, triaged))
        assert ours.read_bytes() == theirs.read_bytes()


def test_run_triages_at_the_end_if_asked(tmp_path):
    words = ("--mutant", MUTANT[1], "--seeds", "0:30", "--engine", "local")
    code, _ = called("campaign", "run", "--scenario", MUTANT[0], *words, "--jobs", 1, "--out", tmp_path / "out", "--triage")
    row, = read_json(tmp_path / "out" / "triage.json")["failures"]
    assert code == exits.SAFETY and row["bundle"] and called("dst", "replay", tmp_path / "out" / row["bundle"])[0] == code


def test_again_it_is_the_same(triaged, tmp_path):
    again = Path(shutil.copytree(triaged, tmp_path / triaged.name))
    assert called("campaign", "triage", again, "--jobs", 1, "--budget", 300)[0] == exits.SAFETY
    for path in (triaged / "bundles").rglob("*.*"):
        assert path.read_bytes() == (again / path.relative_to(triaged)).read_bytes(), path.name


# --- new signatures

def changed(out: Path, signature: str) -> Path:
    """Change the campaign's summary, so that its first failure has another signature."""
    summary = read_json(out / "summary.json")
    summary["failures"][0]["signature"] = signature
    write_json(out / "summary.json", summary)
    return out


def test_what_an_earlier_campaign_had_is_known_and_no_failure(copy, triaged):
    code, text = called("campaign", "triage", copy, "--against", triaged, "--jobs", 1, "--budget", 20)
    row, = read_json(copy / "triage.json")["failures"]
    assert code == 0 and row["state"] == "known" and row["first"] == campaign_of().code and "known" in text


def test_what_it_had_and_is_no_more_is_gone(copy, tmp_path, found):
    earlier = changed(Path(shutil.copytree(found, tmp_path / "earlier")), "told:[red]something[/]")
    code, text = called("campaign", "triage", copy, "--against", earlier, "--jobs", 1, "--budget", 20)
    states = {row["signature"]: row["state"] for row in read_json(copy / "triage.json")["failures"]}
    assert states == {SIGNATURE: "new", "told:[red]something[/]": "gone"}
    assert code == exits.SAFETY and "told:[red]something[/]" in text


def test_of_several_the_first_that_had_it_is_told_and_only_the_last_can_lose():
    def summary(code: str, *signatures: str) -> dict:
        return {"scenario": "s", "mutant": "", "code": code, "failures": [{"signature": of} for of in signatures]}

    earlier = [summary("1", "a", "x"), summary("2", "a", "b", "c")]
    assert triage.compare(summary("3", "a", "b", "d"), earlier) == [
        ("a", "known", "1"), ("b", "known", "2"), ("d", "new", ""), ("c", "gone", "2")]
    with pytest.raises(CampaignError, match="mutant 'm' is not compared with one of ''"):
        triage.compare(summary("3"), [summary("1") | {"mutant": "m"}])


def test_nothing_failed(tmp_path):
    out = run(tmp_path / "out", "", (0, 4))
    code, text = called("campaign", "triage", out)
    assert code == 0 and "no run failed" in text
    assert read_json(out / "triage.json") == {"against": [], "failures": []}


# --- refusals

def test_a_campaign_that_is_not_done_is_refused(copy):
    (copy / "summary.json").unlink()
    code, text = called("campaign", "triage", copy)
    assert code == exits.BAD_INPUT and "has no summary" in text and "campaign resume" in text
    assert not (copy / "bundles").exists()


def test_other_code_is_refused(copy):
    write_json(copy / "campaign.json", read_json(copy / "campaign.json") | {"code": "0" * 16, "commit": "abc1234"})
    code, text = called("campaign", "triage", copy)
    assert code == exits.BAD_INPUT and "was run with other code (0000000000000000, commit abc1234; this is " in text
    again = "highwater dst run --protocol sequenced_metadata_boundary --seed 23 --mutant age_ignored"
    assert text.strip().endswith(again)
    code, text = called("campaign", "replay", copy, 21)
    assert code == exits.BAD_INPUT and text.strip().endswith(again.replace("23", "21"))


def test_a_seed_that_has_no_row_is_told_with_those_that_were_asked_for(copy):
    code, text = called("campaign", "replay", copy, 99_999)
    assert code == exits.BAD_INPUT and re.search(r"no row of seed 99999: the campaign has seeds 0 to \d+$", text.strip())


@pytest.mark.parametrize("what", ["missing", "empty", "version"])
def test_what_is_no_campaign_is_refused(copy, tmp_path, what):
    other = tmp_path / "other"
    if what == "empty":
        other.mkdir()
    if what == "version":
        other.mkdir()
        write_json(other / "campaign.json", read_json(copy / "campaign.json") | {"version": 1})
    message = {"missing": "no such folder", "empty": "is no campaign's folder", "version": "is of version 1"}[what]
    for words in (("triage", other), ("triage", copy, "--against", other)):
        code, text = called("campaign", *words)
        assert code == exits.BAD_INPUT and message in text and len(text.splitlines()) == 1


# --- what goes wrong on the way

def test_a_seed_that_does_not_fail_again_is_told(copy):
    changed(copy, "told:committed")
    code, text = called("campaign", "triage", copy, "--jobs", 1)
    assert code == exits.HARNESS and f"seed 23 now ends with {SIGNATURE}, and was told:committed" in text and "doctor" in text
    assert not (copy / "triage.json").exists()


def test_a_run_that_hangs_while_it_is_shrunk_is_kept_as_it_was(monkeypatch):
    def hangs(*_: object) -> Shrunk:
        while True:
            pass

    monkeypatch.setattr(triage, "shrink", hangs)
    monkeypatch.setattr(triage, "LONGEST_S", 0.05)
    campaign = campaign_of(*MUTANT)
    small = triage.small_of(campaign, triage.shrunk(tuple(campaign), 23, SIGNATURE, 10))
    assert small.runs == 0 and triage.replayed(campaign, small).digest == triage.rerun(campaign, 23)[0].digest


def test_a_failure_of_no_run_is_told_and_not_shrunk(copy):
    """A time-out, e.g."""
    summary = read_json(copy / "summary.json")
    summary["failures"] = [{**summary["failures"][0], "kind": "timeout", "signature": "timeout"}]
    write_json(copy / "summary.json", summary)
    assert called("campaign", "triage", copy)[0] == exits.TIMEOUT
    row, = read_json(copy / "triage.json")["failures"]
    assert row["bundle"] == "" and row["replay"].startswith("highwater dst run")


def test_killed_it_leaves_nothing_half_written(copy):
    """Wherever it is killed, what is there can be read, and it can be run again."""
    command = [sys.executable, "-m", "highwater", "campaign", "triage", str(copy), "--jobs", "1", "--budget", "300"]
    running = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began = time.monotonic()
    while not list(copy.glob("bundles/.*.writing")) and running.poll() is None:
        assert time.monotonic() - began < 120
        time.sleep(0.0005)
    running.send_signal(signal.SIGKILL)
    running.wait()
    for bundle in copy.glob("bundles/[a-z]*"):
        assert called("dst", "replay", bundle, "--shrunk")[0] == exits.SAFETY
    assert not (copy / "triage.json").exists() or json.loads((copy / "triage.json").read_text())
    assert called("campaign", "triage", copy, "--jobs", 1, "--budget", 20)[0] == exits.SAFETY
    assert os.listdir(copy / "bundles") == ["history-too-young"]


# --- names

def test_each_signature_has_a_folder_of_its_own():
    assert triage.names_of(["a:b", "a-b", "A b", "../..", "", "é|x"]) == {
        "a:b": "a-b", "a-b": "a-b-2", "A b": "A-b-3", "../..": "failure", "": "failure-2", "é|x": "é-x"}
