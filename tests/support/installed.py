"""The wheel, and environments with it, made once for all workers of a test run.

The wheel is built without a network, from a copy of the sources.
"""

import fcntl
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable
from email import message_from_string
from importlib.metadata import distribution
from pathlib import Path
from shutil import copytree, ignore_patterns

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("highwater", "specs", "model", "impl", "traces", "dst", "tools", "docs", "tests", "bench")


def once(factory, name: str, make: Callable[[Path], object]) -> Path:
    """Return the folder of this name, which all workers share. The first that asks for it makes it."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with open(folder.with_suffix(".lock"), "a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.seek(0)
        if not lock.read():
            make(folder)
            lock.write("made")
    return folder


def build(out: Path) -> None:
    """Build wheel and source distribution. The checkout is not written to: setuptools builds within a copy."""
    copy = out / "checkout"
    for name in SOURCES:
        copytree(ROOT / name, copy / name, symlinks=True, ignore=ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        (copy / name).write_bytes((ROOT / name).read_bytes())
    called = "import sys; from setuptools import build_meta as b; out = sys.argv[1]; b.build_sdist(out); b.build_wheel(out)"
    subprocess.run([sys.executable, "-c", called, str(out)], cwd=copy, check=True, capture_output=True)


def empty(folder: Path) -> Path:
    """Make a virtual environment with nothing in it; return its packages' folder."""
    venv.create(folder, with_pip=False)
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))


def environment(folder: Path, wheel: Path) -> Path:
    """Make a virtual environment with the wheel in it; return its packages' folder."""
    packages = empty(folder)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check",
                    "--target", packages, wheel], check=True, capture_output=True)
    return packages


def with_links(packages: Path, requirements: list[str]) -> None:
    """Add links to what these requirements lead to, and to nothing else."""
    for name in needed(requirements):
        files = distribution(name).files or []
        for top in {path.parts[0] for path in files if path.parts[0] not in ("..", "__pycache__")}:
            if not (packages / top).exists():
                (packages / top).symlink_to(distribution(name).locate_file(top))


def with_command(environment: Path) -> None:
    """Add the command `highwater`."""
    command = environment / "bin" / "highwater"
    command.write_text(f"#!{environment}/bin/python\nfrom highwater.cli.main import main\nmain()\n")
    command.chmod(0o755)


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


def core_of(wheel: Path) -> list[str]:
    return [text for text in requirements(wheel) if "extra ==" not in text]


def ran(environment: Path, cwd: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess:
    """Run that environment's Python in another folder, with a home of its own and without PYTHONPATH."""
    return subprocess.run([environment / "bin" / "python", *arguments], cwd=cwd, capture_output=True, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(cwd), **more})
