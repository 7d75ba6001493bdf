"""A command takes the project around the working folder, unless one is given or refused, and says which one it is."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from highwater import project
from highwater.dst.version import code_version
from highwater.gate.exits import BAD_INPUT, REFINEMENT
from tests.support.projects import REGISTER, TOML, forget, highwater, made, used

ROOT = Path(__file__).resolve().parents[2]
LINE = "project {}, protocol register, scenario register\n"
BROKEN = "[protocols\n"


@pytest.fixture(autouse=True)
def alone():
    yield
    forget()


@pytest.fixture
def own(tmp_path) -> Path:
    """A project in a repository, which is not the working folder yet."""
    folder = tmp_path / "repository" / "register"
    shutil.copytree(REGISTER, folder)
    (folder / "tests").mkdir()
    (tmp_path / "repository" / ".git").mkdir()
    return folder


@pytest.fixture
def broken(tmp_path, monkeypatch) -> Path:
    """A working folder whose project cannot be read."""
    monkeypatch.chdir(made(tmp_path, {"highwater.toml": BROKEN}))
    return tmp_path


# --- which project

@pytest.mark.parametrize("below", [".", "register", "tests"])
def test_working_folder_selects_project(own, below, monkeypatch):
    monkeypatch.chdir(own / below)
    code, out, err = highwater("dst", "run", "--seeds", "0:5")
    assert (code, err) == (0, LINE.format(own)) and "5 seeds, 0 failed" in out
    assert "5 states, 8 transitions" in highwater("model", "explore")[1]


def test_search_ends_at_repository(own, monkeypatch):
    (own / "register" / ".git").write_text("gitdir: elsewhere\n")  # of a worktree or a submodule, it is a file
    monkeypatch.chdir(own / "register")
    code, _, err = highwater("dst", "run", "--seed", 3)
    assert (code, err) == (0, "no project, protocol sequenced_metadata_boundary, scenario sequenced_metadata_boundary\n")


def test_search_without_repository_goes_up(own, monkeypatch):
    (own.parent / ".git").rmdir()
    monkeypatch.chdir(own / "register")
    assert highwater("dst", "run", "--seed", 3)[2] == LINE.format(own)


def test_search_passes_over_files_of_other_owners(own, monkeypatch):
    owners, stat = {own / "highwater.toml": 12_345}, Path.stat

    def owned(path: Path, **options):
        found = stat(path, **options)
        return os.stat_result((*found[:4], owners[path], *found[5:10])) if path in owners else found

    monkeypatch.setattr(Path, "stat", owned)
    assert project.enclosing(own / "register") is None and project.enclosing(own) == own


def test_no_project_leaves_it_out(own, monkeypatch):
    monkeypatch.chdir(own)
    for words in (["dst", "run", "--seed", 3, "--no-project"], ["--no-project", "dst", "run", "--seed", 3]):
        assert highwater(*words)[2].startswith("no project, protocol sequenced_metadata_boundary,")
    monkeypatch.setenv(project.VARIABLE, str(own))
    assert highwater("dst", "run", "--seed", 3, "--no-project")[2].startswith("no project,")


def test_given_project_comes_before_found_one(own, tmp_path, monkeypatch):
    other = tmp_path / "other"
    shutil.copytree(own, other)
    monkeypatch.chdir(own)
    assert highwater("dst", "run", "--seed", 3, "--project", other)[2] == LINE.format(other)
    words = [sys.executable, "-P", "-m", "highwater", "dst", "run", "--seed", "3"]
    done = subprocess.run(words, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(ROOT), project.VARIABLE: str(other)})
    assert (done.returncode, done.stderr) == (0, LINE.format(other))


def test_project_and_no_project_are_refused(own):
    for words in (["--project", own, "--no-project"], ["--no-project", "--project", own]):
        code, _, err = highwater("dst", "run", "--seed", 3, *words)
        assert (code, err) == (BAD_INPUT, "error: --project and --no-project: leave out one of them\n")


@pytest.mark.parametrize("words", [["dst", "run", "--seed", 3], ["model", "explore"], ["cost", "--runs", 1], ["verify"],
                                   ["campaign", "run", "--seeds", "0:5", "--out", "out"]])
def test_broken_project_is_refused_by_name(broken, words):
    code, out, err = highwater(*words)
    assert (code, out, err.count("\n")) == (BAD_INPUT, "", 1)
    assert f"{broken}/highwater.toml: Expected ']'" in err and err.endswith("; --no-project takes no project\n"), err


@pytest.mark.parametrize("make", [Path.mkdir, lambda file: file.symlink_to("nowhere")], ids=["folder", "dangling link"])
def test_project_without_readable_file_is_refused(own, make, monkeypatch):
    """The user's project is there: a run of highwater's protocol instead would mislead."""
    (own / "highwater.toml").unlink()
    make(own / "highwater.toml")
    monkeypatch.chdir(own / "register")
    code, out, err = highwater("dst", "run", "--seed", 3)
    assert (code, out) == (BAD_INPUT, "")
    assert err == f"error: {own}/highwater.toml is not a regular file: replace it with a file; --no-project takes no project\n"


@pytest.mark.parametrize("words", [["new", "mine"], ["dst", "run", "--help"], ["model", "--help"],
                                   ["model", "explore", "--no-such-option"], ["store", "probe", "nowhere"],
                                   ["index", "check", "nowhere"], ["admin", "inspect", "nowhere"],
                                   ["db", "get", "nowhere", "k"], ["raft", "check", "nowhere"], ["client", "test", "--help"]])
def test_verbs_without_project_do_not_read_it(broken, words):
    _, _, err = highwater(*words)
    assert "highwater.toml" not in err and "project " not in err, err


# --- the protocol of another place

def test_protocol_of_highwater_runs_as_outside(own, tmp_path, monkeypatch):
    """Its code does not include the project's, so that a bundle of it is of the same code."""
    monkeypatch.chdir(tmp_path)
    words = ["dst", "run", "--protocol", "baseline", "--seed", 3, "--out", tmp_path / "run"]
    outside = highwater(*words)
    monkeypatch.chdir(own)
    assert highwater(*words) == outside and outside[2] == "no project, protocol baseline, scenario baseline\n"
    code, out, err = highwater("dst", "replay", tmp_path / "run")
    assert code == outside[0] and "the code has changed" not in out and err == outside[2]


def test_model_of_highwater_is_not_of_found_project(own, monkeypatch):
    monkeypatch.chdir(own)
    assert highwater("model", "explore", "baseline")[2] == "no project, protocol baseline\n"


def test_trace_in_bundle_is_of_its_protocol(own, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, out, _ = highwater("dst", "run", "--protocol", "baseline", "--seed", 3, "--out", tmp_path / "run")
    options = re.findall(r"--protocol baseline(.*)", out)[-1].split()
    monkeypatch.chdir(own)
    code, out, err = highwater("trace", "check", tmp_path / "run" / "trace.ndjson", *options)
    assert (code, err) == (0, "no project, protocol baseline\n"), out


def test_bundle_of_another_project_is_refused(own, tmp_path, monkeypatch):
    assert highwater("dst", "run", "--seed", 7, "--project", REGISTER, "--out", tmp_path / "run")[0] == 0
    other = made(tmp_path / "other", {"highwater.toml": '[protocols]\nother = "other"\n', "other/__init__.py": ""})
    monkeypatch.chdir(other)
    code, _, err = highwater("dst", "replay", tmp_path / "run")
    assert code == BAD_INPUT and f"no protocol of highwater, but of a project, which is not {other}: give its folder" in err


def test_new_inside_project_makes_another(own, monkeypatch):
    monkeypatch.chdir(own)
    code, out, _ = highwater("new", "second")
    assert code == 0 and "highwater model explore --project second" in out
    assert highwater("model", "explore", "--project", "second")[2] == f"project {own}/second, protocol second\n"


# --- printed commands, and other processes

def test_printed_replay_needs_no_project(own, monkeypatch):
    monkeypatch.chdir(own)
    code, out, err = highwater("dst", "run", "--seed", 0, "--mutant", "blind")
    replay = re.findall(r"^Replay: highwater (.*)", out, re.M)
    assert code == REFINEMENT and replay == ["dst run --protocol register --seed 0 --mutant blind"]
    assert highwater(*replay[0].split()) == (code, out, err)


def test_files_name_found_project_whole(own, tmp_path, monkeypatch):
    monkeypatch.chdir(own)
    highwater("dst", "run", "--seed", 7, "--mutant", "hopeful", "--out", tmp_path / "run")
    report = (tmp_path / "run" / "report.txt").read_text()
    assert "--project PROJECT --protocol register" in report and "PROJECT stands for the folder" in report
    highwater("dst", "timeline", 7, "--mutant", "hopeful", "-o", tmp_path / "page.html")
    assert f"--project {own} " in (tmp_path / "page.html").read_text()


def test_children_find_the_same_project(own, monkeypatch):
    monkeypatch.chdir(own / "register")
    code, out, err = highwater("dst", "doctor", "--seeds", "0:2")
    assert code == 0 and "2 seeds, the same tapes and traces" in out and LINE.format(own) in err, (out, err)


def test_lists_of_scenarios_are_counted(own, monkeypatch):
    monkeypatch.chdir(own)
    assert f"project {own}, protocol register, scenario register\n" in highwater("cost", "--runs", 1)[2]


# --- campaigns

def campaign(own: Path, out: Path, *words: object) -> tuple[int, str, str]:
    return highwater("campaign", "run", "--jobs", 1, "--seeds", "0:20", "--out", out, "--project", own, *words)


def test_campaign_knows_its_project(own, tmp_path, monkeypatch):
    out = tmp_path / "campaign"
    assert campaign(own, out, "--mutant", "blind")[0] == REFINEMENT
    monkeypatch.chdir(tmp_path)
    for words in (["status"], ["report"], ["triage", "--jobs", 1, "--budget", 5], ["resume", "--jobs", 1], ["views"]):
        code, _, err = highwater("campaign", words[0], out, *words[1:])
        assert code in (0, REFINEMENT), (words, err)
    assert highwater("campaign", "sql", out, "SELECT count(*) AS n FROM runs", "--csv")[1] == "n\n20\n"
    code, _, err = highwater("campaign", "replay", out, 0)
    assert code == REFINEMENT and err == LINE.format(own)


def test_campaign_in_moved_project_finds_it(own, tmp_path, monkeypatch):
    assert campaign(own, own / "out" / "campaign")[0] == 0
    moved = own.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    assert highwater("campaign", "replay", moved / "out" / "campaign", 3)[2] == LINE.format(moved)


def test_campaign_without_its_project_names_it(own, tmp_path, monkeypatch):
    out = tmp_path / "campaign"
    assert campaign(own, out)[0] == 0
    own.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    for words in (["status", out], ["report", out], ["resume", out], ["sql", out, "SELECT 1"]):
        code, _, err = highwater("campaign", *words)
        assert code == BAD_INPUT and f"is a campaign of the project 'register', which is not in {own} any more: add --project" \
            in err, err
    assert highwater("campaign", "resume", out, "--project", tmp_path / "moved")[0] == BAD_INPUT  # of another name
    back = shutil.copytree(tmp_path / "moved", tmp_path / "back" / "register")
    assert highwater("campaign", "resume", out, "--jobs", 1, "--project", back)[0] == 0


def test_campaign_refuses_another_given_project(own, tmp_path):
    out = tmp_path / "campaign"
    assert campaign(own, out)[0] == 0
    other = made(tmp_path / "other", {"highwater.toml": '[protocols]\nother = "other"\n', "other/__init__.py": ""})
    code, _, err = highwater("campaign", "report", out, "--project", other)
    assert code == BAD_INPUT and f"is a campaign of the project 'register', but {other} has no protocol 'register'" in err


def test_campaign_of_highwater_is_not_of_found_project(own, tmp_path, monkeypatch):
    monkeypatch.chdir(own)
    out = tmp_path / "campaign"
    assert highwater("campaign", "run", "--jobs", 1, "--seeds", "0:5", "--protocol", "baseline", "--out", out)[0] == 0
    label = json.loads((out / "campaign.json").read_text())
    assert "project" not in label and label["code"] == code_version()
    assert highwater("campaign", "replay", out, 3)[2] == "no project, protocol baseline, scenario baseline\n"


def test_few_seeds_take_local_processes(own, tmp_path):
    code, _, err = campaign(own, tmp_path / "campaign")
    assert code == 0 and err.startswith("20 seeds, so local processes run them, and not Spark: --engine selects the other\n")


def test_many_seeds_take_spark():
    from highwater.cli.campaign.app import MOST_LOCAL, engine_for

    assert engine_for(MOST_LOCAL, "", None) == engine_for(1, "", []) == "local"
    assert engine_for(MOST_LOCAL + 1, "", None) == engine_for(1, "local[2]", None) == "spark"
    assert engine_for(1, "", ["spark.x=1"]) == "spark"


def test_library_takes_no_project_by_itself(own, monkeypatch):
    """Tests of a user call `project.use`; the working folder changes nothing for them."""
    monkeypatch.chdir(own)
    assert project.current() is None
    with used(own):
        found = project.current()
        assert found and found.folder == own
    assert TOML in (own / "highwater.toml").read_text()
