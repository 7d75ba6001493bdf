"""What a user gets who installs the wheel: `highwater` alone, with all that its verbs read, in a folder without a checkout.

The wheel is built here, without a network, from a copy of the sources. It is unpacked into two environments: one with the core's
dependencies and no others, and one with those of all extras.
"""

import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email import message_from_string
from importlib.metadata import distribution
from pathlib import Path
from shutil import copytree, ignore_patterns

import pytest
from packaging.requirements import Requirement

from highwater.gate.exits import BAD_INPUT, INCOMPLETE, SAFETY

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
SOURCES = ("highwater", "specs", "model", "impl", "traces", "dst", "tools", "tests", "bench")
ROW = ("--set", "WRITERS=1", "--set", "READERS=1", "--set", "MAX_ID=1")


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the wheel and the source distribution. The checkout is not written to: setuptools builds within a copy."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        copytree(ROOT / name, copy / name, symlinks=True, ignore=ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    out = tmp_path_factory.mktemp("built")
    called = "import sys; from setuptools import build_meta as b; out = sys.argv[1]; b.build_sdist(out); b.build_wheel(out)"
    subprocess.run([sys.executable, "-c", called, str(out)], cwd=copy, check=True, capture_output=True)
    return out


@pytest.fixture(scope="module")
def wheel(built) -> Path:
    (found,) = built.glob("*.whl")
    return found


def environment(folder: Path, wheel: Path) -> Path:
    """A new virtual environment with the wheel in it; return its packages' folder."""
    venv.create(folder, with_pip=False)
    packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check",
                    "--target", packages, wheel], check=True, capture_output=True)
    return packages


@pytest.fixture(scope="module")
def core(wheel, tmp_path_factory) -> Path:
    """An environment as `pip install highwater-verify` makes it: links to what the core depends on, and to nothing else."""
    folder = tmp_path_factory.mktemp("core")
    packages = environment(folder, wheel)
    for name in needed([text for text in requirements(wheel) if "extra ==" not in text]):
        files = distribution(name).files or []
        for top in {path.parts[0] for path in files if path.parts[0] not in ("..", "__pycache__")}:
            (packages / top).symlink_to(distribution(name).locate_file(top))
    return folder


@pytest.fixture(scope="module")
def full(wheel, tmp_path_factory) -> Path:
    """An environment as with all extras: it also has what the interpreter of the tests has, the checkout excepted."""
    folder = tmp_path_factory.mktemp("full")
    (environment(folder, wheel) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_string(archive.read(name).decode()).get_all("Requires-Dist") or []


def needed(texts: list[str]) -> set[str]:
    """The distributions that these requirements lead to."""
    found: set[str] = set()
    while texts:
        one = Requirement(texts.pop())
        if one.name not in found and (not one.marker or one.marker.evaluate({"extra": ""})):
            found.add(one.name)
            texts += distribution(one.name).requires or []
    return found


def ran(environment: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess:
    """Run the command `highwater` of that module's environment, in another folder, with its own cache and home."""
    program = "import sys; from highwater.cli.main import main; sys.argv[0] = 'highwater'; main()"
    return subprocess.run([environment / "bin" / "python", "-c", program, *arguments], cwd=cwd, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, timeout=120,
                          env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(cwd), "AWS_EC2_METADATA_DISABLED": "true"})


def passes(environment: Path, cwd: Path, *arguments: str, code: int = 0, says: str = "") -> str:
    result = ran(environment, cwd, *arguments)
    assert result.returncode == code, f"{arguments}: {result.returncode}\n{result.stdout}\n{result.stderr}"
    assert says in result.stdout + result.stderr, result.stdout + result.stderr
    return result.stdout


def test_the_wheels_top_level_holds_highwater_alone(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    (info,) = {name.partition("/")[0] for name in names} - {"highwater"}
    assert info.endswith(".dist-info")
    assert not [name for name in names if "__pycache__" in name or "/tests/" in name or "/bench/" in name]


def tracked(*patterns: str) -> set[str]:
    """Files of the checkout by their name in the package."""
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {name if name.startswith("highwater/") else f"highwater/{name}" for name in listed.splitlines()}


def test_wheel_and_source_distribution_hold_every_file_of_the_package(built, wheel):
    links = {f"highwater/{name}" for name in SOURCES}
    files = tracked("highwater", "specs", "model", "impl", "traces", "dst", "tools") - links
    assert len(files) > 300 and not [name for name in files if not (ROOT / name).exists()]
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if name.startswith("highwater/")} == files
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames() if (archive.getmember(name)).isfile()}
    assert files <= inside
    assert not [name for name in inside if name.startswith(("tests/", "bench/"))]


def test_the_core_needs_few_packages(wheel):
    core = needed([text for text in requirements(wheel) if "extra ==" not in text])
    assert not core & {"pyspark", "pyarrow", "pandas", "duckdb", "z3-solver", "boto3", "matplotlib"} and len(core) < 15


def test_the_core_explores_simulates_and_checks_a_trace(core, tmp_path):
    for group in ("model", "dst", "trace", "store", "admin", "campaign", "verify", "cost"):
        passes(core, tmp_path, group, "--help", says="Usage")
    passes(core, tmp_path, "model", "explore", "simple_conditional", says="states")
    passes(core, tmp_path, "model", "walk", "simple_conditional", "--walks", "20", "--steps", "30")
    passes(core, tmp_path, "model", "step", "simple_conditional", "--take", "0")
    passes(core, tmp_path, "dst", "run", "--seeds", "0:20")
    passes(core, tmp_path, "trace", "check", str(GOLDEN / "good.ndjson"), says="ok")
    passes(core, tmp_path, "trace", "check", str(GOLDEN / "no_check.ndjson"), code=SAFETY)
    (tmp_path / "empty").mkdir()
    passes(core, tmp_path, "admin", "inspect", "empty", code=BAD_INPUT, says="there is no database here")


@pytest.mark.parametrize("extra, arguments", [
    ("proofs", ("model", "prove", "sequenced_write")),
    ("spark", ("campaign", "run", "--engine", "local", "--seeds", "0:5", "--out", "campaign")),
    ("spark", ("dst", "run", "--seeds", "0:5", "--traces", "traces.parquet")),
    ("s3", ("admin", "check", "s3://bucket/prefix")),
    ("s3", ("store", "probe", "s3://bucket")),
])
def test_a_missing_extra_is_named_in_one_line(core, tmp_path, extra, arguments):
    result = ran(core, tmp_path, *arguments)
    assert result.returncode == INCOMPLETE, result.stderr
    assert f"pip install 'highwater-verify[{extra}]'" in result.stderr and result.stderr.count("\n") == 1


def test_a_missing_library_of_no_extra_is_a_fault_of_ours():
    from highwater.gate.extras import install_command

    assert install_command(ModuleNotFoundError("No module named 'nobody'", name="nobody")) == ""
    assert install_command(ModuleNotFoundError("", name="pyarrow.parquet")) == "pip install 'highwater-verify[spark]'"


def test_every_verb_of_simulation_works_installed(full, tmp_path):
    bundle, of = str(tmp_path / "bundle"), ("--mutant", "no_check")
    found = ran(full, tmp_path, "dst", "run", "--seeds", "0:400", "--mutant", "M1")
    print(found.stdout[-500:], found.stderr[-500:])
    passes(full, tmp_path, "dst", "lint")
    passes(full, tmp_path, "dst", "doctor", "--seeds", "0:2", "--scenario", "simple_conditional")
    passes(full, tmp_path, "dst", "run", "--seed", "1", "--scenario", "simple_conditional", "--out", bundle)
    passes(full, tmp_path, "dst", "replay", bundle)
    passes(full, tmp_path, "dst", "explain", bundle)
    passes(full, tmp_path, "dst", "timeline", bundle, "-o", "timeline.html")
    assert "<html" in (tmp_path / "timeline.html").read_text()
    passes(full, tmp_path, "dst", "export", bundle, "--shiviz", "-o", "log.txt")


def test_a_checkout_is_not_needed_to_find_the_cache(full, tmp_path):
    result = passes(full, tmp_path, "model", "conform", "simple_conditional", code=INCOMPLETE, says="FizzBee is missing")
    print(result)
