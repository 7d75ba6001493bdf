"""The installed wheel: `highwater` alone, with all files that its commands read, works without a checkout.

tests/support/installed.py builds the wheel, and makes two environments: one with the core's dependencies and no others, and one
with those of all extras.
"""

import json
import shlex
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from highwater import __version__
from highwater.gate.exits import BAD_INPUT, INCOMPLETE, SAFETY
from tests.support import watched
from tests.support.installed import ROOT, SOURCES, core_of, needed, ran

GROUPS = ("verify", "new", "cost", "model", "dst", "trace", "store", "admin", "campaign")
GOLDEN = ROOT / "tests" / "golden"

PROGRAM = """
import contextlib, io, json, sys

def run(arguments):
    sys.argv = ["highwater", *arguments]
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(out):
        return verb(), out.getvalue()

if __name__ == "__main__":
    from highwater.cli.main import run as verb
    print(json.dumps([run(arguments) for arguments in json.loads(sys.argv[1])]))
"""


def check_verbs(environment: Path, cwd: Path, expected: dict[str, tuple[int, str]]) -> None:
    """Run these command lines, one after another in one process, and compare exit codes and some of what they print.

    Nothing is imported from the checkout, and nothing twice, in that process and in its workers."""
    program, log = cwd / "program.py", cwd / "watched"
    program.write_text(PROGRAM)
    result = ran(environment, cwd, str(program), json.dumps([line.split() for line in expected]),
                 PYTHONPATH=watched.FOLDER, WATCHED=str(log))
    assert result.returncode == 0, result.stderr
    for (line, (code, says)), (exited, printed) in zip(expected.items(), json.loads(result.stdout), strict=True):
        assert exited == code and says in printed, f"highwater {line}: exit {exited}\n{printed}"
    for modules in watched.by_process(log).values():
        ours = [(name, path) for name, path in modules if name.partition(".")[0] == "highwater"]
        assert not [path for _, path in ours if Path(path).is_relative_to(ROOT)]
        assert not watched.loaded_twice(found for found in modules if Path(found[1]).is_relative_to(environment))


def test_the_wheels_top_level_holds_highwater_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    (info,) = {name.partition("/")[0] for name in names} - {"highwater"}
    assert info.endswith(".dist-info")
    assert not [name for name in names if "__pycache__" in name or "/bench/" in name]
    assert {name.partition("/tests/")[0] for name in names if "/tests/" in name} == {"highwater/skeleton"}  # a user's


def tracked(*patterns: str) -> set[str]:
    """Files of the checkout by their name in the package."""
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name if name.startswith("highwater/") else f"highwater/{name}" for name in listed.splitlines()}


def test_wheel_and_source_distribution_hold_every_file_of_the_package(built, wheel):
    links = {f"highwater/{name}" for name in SOURCES}
    files = tracked("highwater", "specs", "model", "impl", "traces", "dst", "tools") - links
    files |= {name for name in tracked("docs/*.md") if "/reference/" not in name}
    assert len(files) > 300 and not [name for name in files if not (ROOT / name).exists()]
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if name.startswith("highwater/")} == files
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames() if (archive.getmember(name)).isfile()}
    assert files <= inside
    assert not [name for name in inside if name.startswith(("tests/", "bench/"))]


def test_the_wheel_has_the_version_of_the_package(wheel, core, tmp_path):
    assert wheel.name.split("-")[1] == __version__
    assert ran(core, tmp_path, "-m", "highwater", "--version").stdout == f"highwater {__version__}\n"


def test_the_core_needs_few_packages(wheel):
    core = needed(core_of(wheel))
    assert not core & {"pyspark", "pyarrow", "pandas", "duckdb", "z3-solver", "boto3", "matplotlib"} and len(core) < 20


def test_the_core_explores_simulates_and_checks_a_trace(core, tmp_path):
    (tmp_path / "empty").mkdir()
    check_verbs(core, tmp_path, {
        **{f"{name} --help": (0, "Usage") for name in GROUPS},
        "model explore simple_conditional": (0, "states"),
        "model walk simple_conditional --walks 20 --steps 30": (0, "No walk violated a property"),
        "model step simple_conditional --take 0": (0, "Writer#0"),
        "model conform conditional_plain": (INCOMPLETE, "FizzBee is missing: run `python3 /"),
        "dst run --seeds 0:20": (0, "20 seeds, 0 failed"),
        "dst run --seed 1 --scenario baseline --out bundle": (0, ""),
        "dst replay bundle": (0, ""),
        "dst explain bundle": (0, ""),
        "dst timeline bundle --out timeline.html": (0, ""),
        "dst export bundle --shiviz --out log.txt": (0, ""),
        "dst run --seed 0 --mutant no_check --out failed": (SAFETY, "committed"),
        "dst shrink failed --budget 20": (0, "faults 2 -> 0"),
        "dst doctor --seeds 0:2 --scenario baseline": (0, "the same tapes"),
        "dst zoo --scenario store_primitives --campaigns 1 --cap 100 --jobs 1": (0, ""),
        "dst exhaust --scenario baseline --delays 1": (0, "0 failed"),
        "docs": (0, "tutorial"),
        "docs mapping": (0, (ROOT / "docs" / "guide" / "mapping.md").read_text()),
        "dst lint --help": (0, "Usage"),  # it takes minutes
        f"trace check {GOLDEN / 'good.ndjson'}": (0, "ok"),
        f"trace check {GOLDEN / 'no_check.ndjson'}": (SAFETY, ""),
        "trace damage --seeds 0:1": (0, ""),
        "trace record --help": (0, "Usage"),
        "cost --protocol baseline --runs 1 --html cost.html": (0, "baseline"),
        "admin inspect empty": (BAD_INPUT, "there is no database here"),
        "admin history empty": (BAD_INPUT, "there is no database here"),
        "admin check empty": (SAFETY, "no manifest"),
        "admin gc empty --dry-run": (BAD_INPUT, "there is no database here"),
    })
    for page in ("timeline.html", "cost.html"):
        assert (tmp_path / page).read_text().startswith("<!doctype html>")


def test_what_extras_add_works_installed(full, tmp_path):
    check_verbs(full, tmp_path, {
        "model prove sequenced_write --bounded 1 --set WRITERS=1": (0, "UpdateIsOnce"),
        "campaign run --engine local --jobs 1 --scenario baseline --seeds 0:10 --out campaign": (0, "10 runs of baseline"),
        "campaign status campaign": (0, "done"),
        "campaign report campaign": (0, "report.html"),
        "campaign views campaign": (0, "runs_a_cpu_s"),
        "campaign sql campaign SELECT(seed)FROM(runs)": (0, "9"),
        "campaign triage campaign": (0, ""),
        "dst run --seeds 0:3 --traces traces.parquet": (0, ""),
        "trace check traces.parquet --jobs 1": (0, "3 refine the model"),
        "store probe s3://bucket --endpoint-url http://127.0.0.1:9 --rounds 2": (BAD_INPUT, "127.0.0.1:9"),
    })
    assert (tmp_path / "campaign" / "report.html").read_text().startswith("<!doctype html>")


@pytest.mark.parametrize("extra, arguments", [
    ("proofs", ("model", "prove", "sequenced_write")),
    ("spark", ("campaign", "run", "--engine", "local", "--seeds", "0:5", "--out", "campaign")),
    ("spark", ("dst", "run", "--seeds", "0:5", "--traces", "traces.parquet")),
    ("s3", ("admin", "check", "s3://bucket/prefix")),
    ("s3", ("store", "probe", "s3://bucket")),
])
def test_a_missing_extra_is_named_in_one_line(core, wheel, tmp_path, extra, arguments):
    result = ran(core, tmp_path, "-m", "highwater", *arguments)
    assert result.returncode == INCOMPLETE, result.stderr
    hint = shlex.join([f"{core}/bin/python", "-m", "pip", "install", f"highwater-verify[{extra}] @ {wheel.as_uri()}"])
    assert result.stderr.endswith(f": {hint}\n") and result.stderr.count("\n") == 1
