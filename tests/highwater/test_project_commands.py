"""A command that selects a project is right where it is read: on the screen, in a file, or in a bundle that was sent."""

import json

import pytest

from highwater.gate.exits import BAD_INPUT, REFINEMENT
from tests.support.projects import REGISTER, forget, highwater, made


@pytest.fixture(autouse=True)
def alone():
    yield
    forget()


def test_a_bundle_without_its_project_says_that_it_needs_one(tmp_path):
    highwater("dst", "run", "--seed", 7, "--mutant", "hopeful", "--out", tmp_path / "run", "--project", REGISTER)
    for verb in (["replay"], ["explain"], ["shrink"], ["timeline", "-o", tmp_path / "page.html"]):
        code, _, err = highwater("dst", verb[0], tmp_path / "run", *verb[1:])
        said = "this is a run of 'register', which is no protocol of highwater, but of a project: give its folder, the one with"
        assert (code, err) == (BAD_INPUT, f"error: {tmp_path}/run/tape.json: {said} highwater.toml, to --project\n")
    other = made(tmp_path / "other", {"highwater.toml": '[protocols]\nother = "other"\n', "other/__init__.py": ""})
    code, _, err = highwater("dst", "replay", tmp_path / "run", "--project", other)
    assert code == BAD_INPUT and f"of a project, which is not {other}: give its folder" in err


def test_a_bundle_names_no_folder_of_a_project(tmp_path, monkeypatch):
    """The same bytes, however the user wrote the folder; on the screen it is as the user wrote it."""
    monkeypatch.chdir(REGISTER)
    texts = []
    for number, folder in enumerate((".", REGISTER)):
        _, out, _ = highwater("dst", "shrink", 7, "--mutant", "hopeful", "-o", tmp_path / str(number), "--project", folder)
        assert f"--project {folder} " in out and "PROJECT" not in out
        texts.append({path.name: path.read_text() for path in (tmp_path / str(number)).iterdir()})
    assert texts[0] == texts[1] and not [name for name, text in texts[0].items() if str(REGISTER) in text]
    report = texts[0]["report.txt"]
    assert "Replay: highwater dst run --project PROJECT --protocol register --seed 7 --mutant hopeful\n" in report
    assert report.endswith("PROJECT stands for the folder of the project with the protocol 'register'.\n")


def test_the_commands_in_files_have_the_whole_path_of_the_project(tmp_path, monkeypatch):
    monkeypatch.chdir(REGISTER)
    campaign, blind = tmp_path / "campaign", ("--mutant", "blind")
    for words in (["campaign", "run", "--engine", "local", "--jobs", 1, "--seeds", "0:20", *blind, "--out", campaign],
                  ["dst", "timeline", 0, *blind, "-o", tmp_path / "timeline.html"],
                  ["model", "explore", "--html", tmp_path / "explore.html"]):
        highwater(*words, "--project", ".")
    for file in (campaign / "summary.json", tmp_path / "timeline.html", tmp_path / "explore.html"):
        assert f"--project {REGISTER} " in file.read_text() and "--project . " not in file.read_text(), file
    replay = json.loads((campaign / "summary.json").read_text())["failures"][0]["replay"]
    monkeypatch.chdir(tmp_path)
    assert highwater(*replay.split()[1:])[0] == REFINEMENT
