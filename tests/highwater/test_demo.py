"""`highwater demo` runs each command that it prints, fails where it must, and refuses what it cannot use before it begins."""

import re
from typing import NamedTuple

import pytest
from typer.testing import CliRunner

from bench.pages.readme import excerpt
from highwater.cli import demo
from highwater.cli.main import app
from highwater.cli.new import write
from highwater.gate.exits import BAD_INPUT, HARNESS
from tests.support.installed import ROOT, ran


class Shown(NamedTuple):
    command: str
    output: str
    code: int


def steps_of(text: str) -> list[Shown]:
    found = re.findall(r"^    highwater ([^\n]+)\n\n(.*?)^Exit code (\d+) \([^\n]*\), as it must be\.$", text, re.M | re.S)
    return [Shown(command, output, int(code)) for command, output, code in found]


def demonstrated(*arguments: str):
    return CliRunner().invoke(app, ["demo", *arguments])


def test_installed_demo_finds_bug_inside_a_project(core, tmp_path):
    """The core suffices, and the project in the working folder does not take the place of the protocol."""
    folder = tmp_path / "claims"
    write("claims", folder)
    result = ran(core, folder, "-m", "highwater", "demo", HIGHWATER_PROJECT=str(folder))
    assert result.returncode == 0, result.stdout + result.stderr
    assert str(folder) not in result.stdout
    model, runs, shrunk = steps_of(result.stdout)
    assert model.code == 10 and "CommitIsUnique fails: No id is ever acknowledged twice." in model.output
    assert re.search(r"^ 13 Writer#1\.CreateNext", model.output, re.M)
    assert runs.code == 10 and re.search(r"^50 seeds, [1-9]\d* failed", runs.output, re.M) and "told:committed" in runs.output
    first = re.search(r"--seed (\d+)", runs.output)
    assert first and shrunk.command.startswith(f"dst shrink {first[1]} ") and shrunk.code == 0
    sizes = re.search(r"requests (\d+) -> (\d+)", shrunk.output)
    assert sizes and int(sizes[2]) < int(sizes[1]) and "it replays strictly in a fresh process" in shrunk.output
    page = re.search(r"no network: (.*)\n", result.stdout)
    assert page and (folder / page[1]).read_text().startswith("<!doctype html>")
    assert all(f"highwater {verb}" in result.stdout for verb in ("dst explain", "new lease"))
    assert excerpt(result.stdout) in (ROOT / "README.md").read_text()


def test_demo_runs_again_into_its_folder(tmp_path, monkeypatch):
    """The first run left a bundle. The second opens the page of its own."""
    opened = []
    monkeypatch.setattr(demo.webbrowser, "open", lambda address: opened.append(address) or False)
    for again in ([], ["--open"]):
        result = demonstrated("--out", str(tmp_path / "a b"), *again)
        assert result.exit_code == 0, result.output
        assert len(steps_of(result.output)) == 3 and f"highwater dst explain '{tmp_path}/a b/failure'" in result.output
    assert opened == [f"file://{tmp_path}/a%20b/failure/shrunk.timeline.html"] and "There is no browser here" in result.output


@pytest.mark.parametrize("name, value, step, command", [
    ("KNOB", "CHECK=after", 0, "model explore sequenced_metadata_boundary --set CHECK=after --brief"),
    ("SEEDS", "0:1", 1, "dst run --protocol sequenced_metadata_boundary --mutant reported_though_refused --seeds 0:1"),
])
def test_demo_exits_with_14_if_a_step_passes(tmp_path, monkeypatch, name, value, step, command):
    monkeypatch.setattr(demo, name, value)
    result = demonstrated("--out", str(tmp_path))
    assert result.exit_code == HARNESS and len(steps_of(result.output)) == step
    assert result.stderr == f"error: the demo is broken: `highwater {command}` ended with exit code 0; it must end with 10\n"


def test_demo_exits_with_14_if_no_seed_is_named():
    with pytest.raises(demo.typer.Exit) as ended:
        demo.first_seed("50 seeds, 0 failed")
    assert ended.value.exit_code == HARNESS


def test_demo_refuses_unusable_folder_before_it_begins(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "failure").mkdir()
    (tmp_path / "failure" / "notes").write_text("mine")
    for out, why in ((tmp_path / "file" / "demo", "Not a directory; give another folder with --out"),
                     (tmp_path, "is not empty, and is not a bundle")):
        result = demonstrated("--out", str(out))
        assert result.exit_code == BAD_INPUT and why in result.stderr and result.stderr.count("\n") == 1
        assert not result.stdout
    assert (tmp_path / "failure" / "notes").read_text() == "mine"
