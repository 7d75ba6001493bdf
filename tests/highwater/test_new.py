"""`highwater new` writes a project that passes its own gate, or nothing; the workflows for CI run its steps."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from highwater.cli import new
from highwater.cli.main import app
from highwater.cli.new import SKELETON, files
from highwater.gate.exits import BAD_INPUT, REFINEMENT, SAFETY
from tests.support.installed import ROOT

SHARED = ROOT / ".github" / "workflows" / "project.yml"
OWN = SKELETON / ".github" / "workflows" / "highwater.yml"
INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
SEEDS = 300


def made(folder: Path, *arguments: str):
    return CliRunner().invoke(app, ["new", *arguments, "--into", str(folder)])


# --- what is written

def test_a_project_has_every_file_of_the_skeleton_and_no_placeholder(tmp_path):
    assert made(tmp_path / "a" / "b", "claims").exit_code == 0
    found, written = [path for path in tmp_path.rglob("*") if path.is_file()], written_in(tmp_path / "a" / "b")
    assert written == {path for path, _ in files("claims")} and "claims/model.py" in written
    assert ".github/workflows/highwater.yml" in written
    assert not [path for path in found if "NAME" in path.read_text() + path.name]
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]


def test_an_empty_folder_is_filled(tmp_path):
    assert made(tmp_path, "claims").exit_code == 0 and (tmp_path / "claims" / "model.py").exists()


@pytest.mark.parametrize("name, why", [
    ("9x", "is no name of a protocol"), ("a-b", "is no name of a protocol"), ("Lease", "is no name of a protocol"),
    ("a.b", "is no name of a protocol"), ("../x", "is no name of a protocol"), ("class", "has a meaning for Python"),
    ("tests", "has a meaning for pytest"), ("json", "module of Python"), ("numpy", "the name of another one"),
    ("highwater", "the name of another one"), ("baseline", "has a protocol named"), ("engines", "has a protocol named"),
])
def test_a_name_that_cannot_be_is_refused_in_one_line(tmp_path, name, why):
    result = made(tmp_path / "project", name)
    assert result.exit_code == BAD_INPUT and why in result.stderr and result.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path, tmp_path / "file"):
        result = made(folder, "claims")
        assert result.exit_code == BAD_INPUT and "is there already" in result.stderr and result.stderr.count("\n") == 1
    for below in ("below", "far/below"):
        result = made(tmp_path / "file" / below, "claims")
        assert result.exit_code == BAD_INPUT and f"{tmp_path / 'file'} is a file, so no folder can be in it" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["file"] and (tmp_path / "file").read_text() == "mine"


def test_nothing_is_left_if_writing_fails(tmp_path, monkeypatch):
    def half(name: str):
        yield "a", "text"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(new, "files", half)
    result = made(tmp_path / "project", "claims")
    assert result.exit_code == BAD_INPUT and "No space left" in result.stderr
    assert not list(tmp_path.iterdir())


# --- it runs, from the installed wheel

@pytest.fixture(scope="module")
def project(users, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("new") / "claims"
    assert bash(f"highwater new claims --into {folder}", folder.parent, users).returncode == 0
    assert written_in(folder) == {path for path, _ in files("claims")}
    return folder


def written_in(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def bash(command: str, folder: Path, environment: Path) -> subprocess.CompletedProcess:
    return subprocess.run(["bash", "-eo", "pipefail", "-c", command], cwd=folder, capture_output=True, text=True, timeout=300,
                          stdin=subprocess.DEVNULL,
                          env={"PATH": f"{environment}/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(folder)})


@pytest.mark.parametrize("command, code, prints", [
    ("highwater model explore --project .", 0, "33 states"),
    ("highwater model explore --project . --set IF_ABSENT=False", SAFETY, "ClaimIsKept fails"),
    ("highwater dst zoo --project . --campaigns 2 --cap 100 --jobs 1 --harm", 0, "history:lost update 2"),
    ("highwater dst run --project . --seed 3 --out good && highwater trace check --project . good/trace.ndjson", 0, "ok"),
    ("highwater dst run --project . --seed 1 --mutant overwrites", REFINEMENT, "Callers: came to harm"),
])
def test_each_command_of_its_readme_works(project, users, command, code, prints):
    result = bash(command, project, users)
    assert result.returncode == code and prints in result.stdout, f"{result.stdout}\n{result.stderr}"


# --- the workflows

def runs(path: Path, **inputs: str) -> dict[str, str]:
    """Return the `run` steps of a workflow by name, with its inputs in place."""
    workflow = yaml.safe_load(path.read_text())
    usual = {name: one["default"] for name, one in (workflow[True].get("workflow_call", {}).get("inputs", {}).items()
                                                    if isinstance(workflow[True], dict) else ())}
    (job,) = workflow["jobs"].values()
    return {step["name"]: INPUT.sub(lambda found: {**usual, **inputs}[found[1]], step["run"]).strip()
            for step in job["steps"] if "run" in step}


def test_the_shared_workflow_has_the_steps_of_the_skeletons():
    assert runs(SHARED) == runs(OWN)
    shared, own = yaml.safe_load(SHARED.read_text()), yaml.safe_load(OWN.read_text())
    assert set(shared[True]) == {"workflow_call"} and own[True] == ["push", "pull_request"]  # YAML reads `on` as true
    jobs = shared["jobs"]["gate"], own["jobs"]["gate"]
    steps = [[(step.get("name"), step.get("uses"), step.get("if")) for step in job["steps"]] for job in jobs]
    assert steps[0] == steps[1] and jobs[0]["timeout-minutes"] == jobs[1]["timeout-minutes"]
    assert jobs[0]["defaults"]["run"]["working-directory"] == "${{ inputs.project }}"


def test_each_input_is_described_on_its_page():
    inputs = yaml.safe_load(SHARED.read_text())[True]["workflow_call"]["inputs"]
    table = re.findall(r"^\| `([\w-]+)` \|", (ROOT / "docs" / "guide" / "ci.md").read_text(), re.M)
    assert list(inputs) == table[:len(inputs)]
    assert set(INPUT.findall(SHARED.read_text())) == set(inputs)


def test_the_steps_of_the_workflow_pass_on_a_skeleton_and_fail_on_a_broken_one(project, users):
    steps = runs(SHARED, options=OPTIONS)
    assert list(steps) == ["install", "test", "gate"] and steps.pop("install").startswith("python -m pip install ")
    for name, command in steps.items():
        result = bash(command, project, users)
        assert result.returncode == 0, f"{name}: {result.stdout}\n{result.stderr}"
    assert all((project / "out" / name).stat().st_size for name in WRITTEN)
    source = project / "claims" / "impl.py"
    right = source.read_text()
    source.write_text(right.replace("store.create(", "store.put("))
    try:
        codes = {name: bash(command, project, users).returncode for name, command in steps.items()}
    finally:
        source.write_text(right)
    assert codes == {"test": 1, "gate": REFINEMENT}


OPTIONS = f"--seeds {SEEDS}"
WRITTEN = ("verify.json", "junit.xml", "summary.md")
