"""Builds the source distribution and the wheel into out/dist, and checks both: `make dist`.

`python -m bench.dist [--tag vVERSION] PYTHON..` takes versions of Python, such as 3.12. Exit status: 0 if every check passed,
1 if one failed, 3 if a version of Python is not installed.

Nothing unpinned is fetched: the build uses the setuptools of requirements.lock, not an isolated environment, and the empty
environments get what the core needs from the index by the hashes of requirements.lock.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path
from shutil import rmtree

import highwater
from highwater.gate.exits import INCOMPLETE

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "out" / "dist"
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!\w+:|#)(?P<path>[^)\s]+)\)")  # to a file of the repository
# What the empty environments run, in the form of docs/guide/tutorial.md, whose first section comes between.
BEFORE = f"""```sh
highwater --version
```
```text
highwater {highwater.__version__}
```
```sh
highwater demo
```
"""
AFTER = """```sh
highwater verify --project .
```
"""


class CheckFailed(Exception):
    """A check of the distributions failed."""


def run(*command: str | Path, **options) -> str:
    """Run a command and return its stdout. Raises CheckFailed with all that it printed if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise CheckFailed(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout}")
    return done.stdout


def check_tag(tag: str, changelog: str) -> None:
    """Raise CheckFailed unless the tag names the version, and the changelog has a dated section of it."""
    if tag != f"v{highwater.__version__}":
        raise CheckFailed(f"tag {tag}: the version in highwater/__init__.py is {highwater.__version__}")
    if not re.search(rf"^## \[{re.escape(highwater.__version__)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE):
        raise CheckFailed(f"CHANGELOG.md: no section '## [{highwater.__version__}] - DATE'")


def long_description(readme: str, repository: str) -> str:
    """Return README.md as a package index can show it: links to files get their address in the repository.

    Without an address, a link becomes its text, and an image is left out."""
    def replaced(link: re.Match) -> str:
        if repository:
            kind = "raw" if link["image"] else "blob"
            return f"{link['image']}[{link['text']}]({repository}/{kind}/v{highwater.__version__}/{link['path']})"
        return "" if link["image"] else link["text"]

    return LINK.sub(replaced, readme)


def copy_sources(source: Path) -> None:
    """Copy the tracked files of the checkout, as they are now.

    In the checkout itself setuptools would leave files of this build, which the next one would take up."""
    run("sh", "-c", 'git ls-files -z | tar --null -T - -c | tar -x -C "$1"', "sh", source, cwd=ROOT)
    urls = tomllib.loads((source / "pyproject.toml").read_text())["project"].get("urls", {})
    readme = source / "README.md"
    repository = os.environ.get("HIGHWATER_REPOSITORY") or urls.get("Repository", "")
    readme.write_text(long_description(readme.read_text(), repository.rstrip("/")))


def build(source: Path, out: Path, *which: str) -> None:
    """Build distributions of the sources. The same sources give the same wheel: its files have the time of the last commit."""
    commit = run("git", "log", "-1", "--format=%ct", cwd=ROOT).strip()
    run(sys.executable, "-m", "build", "--no-isolation", *which, "--outdir", out, source,
        env=os.environ | {"SOURCE_DATE_EPOCH": commit})


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def build_both(source: Path, out: Path) -> Path:
    """Build the source distribution and a wheel from it; return the wheel. Raises CheckFailed if a wheel that is built from the
    checkout is another one: then the source distribution lacks a file that the build needs."""
    build(source, out)
    (wheel,) = out.glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        build(source, Path(folder), "--wheel")
        direct = contents(Path(folder, wheel.name))
    ours = contents(wheel)
    if differ := sorted(name for name in ours.keys() | direct.keys() if ours.get(name) != direct.get(name)):
        raise CheckFailed(f"the wheel of the source distribution is not that of the checkout: {', '.join(differ)}")
    return wheel


def check_rendering(out: Path) -> None:
    """Raise CheckFailed if a package index would refuse the metadata, or could not render the long description."""
    run(sys.executable, "-m", "twine", "check", "--strict", *out.iterdir())


def locked(lock: str, names: set[str]) -> str:
    """Return the part of requirements.lock that pins these distributions."""
    wanted = {re.sub(r"[-_.]+", "-", name).lower() for name in names}
    return "\n".join(block for block in re.split(r"\n(?=\S)", lock) if re.split(r"[=\s]", block)[0] in wanted)


def interpreter(version: str) -> str:
    """Return the path of Python of this version; "" if it is not installed."""
    try:
        return run(f"python{version}", "-c", "import sys; print(sys.executable)",
                   env=os.environ | {"PYENV_VERSION": version}).strip()  # pyenv's commands start only a chosen version
    except (OSError, CheckFailed):
        return ""


def check_installed(python: str, wheel: Path, page: str) -> None:
    """Install the wheel in an empty environment of this Python, and follow the page there. Raises CheckFailed."""
    from tests.highwater.test_tutorial import follow
    from tests.support.installed import core_of, needed

    with tempfile.TemporaryDirectory() as name:
        environment, core = Path(name, "environment"), Path(name, "core.lock")
        core.write_text(locked((ROOT / "requirements.lock").read_text(), needed(core_of(wheel))))
        run(python, "-m", "venv", environment)
        pip = [environment / "bin" / "python", "-m", "pip", "install", "--quiet"]
        run(*pip, "--require-hashes", "-r", core)
        run(*pip, "--isolated", "--no-index", wheel, env={})  # whatever the core lacked would have to be fetched
        Path(name, "home").mkdir()
        try:
            follow(page, Path(name, "home"), environment)
        except AssertionError as error:
            raise CheckFailed(str(error)) from None


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench.dist")
    parser.add_argument("--tag", default="")
    parser.add_argument("pythons", nargs="+")
    asked = parser.parse_args(arguments)
    missing = [version for version in asked.pythons if not interpreter(version)]
    try:
        if asked.tag:
            check_tag(asked.tag, (ROOT / "CHANGELOG.md").read_text())
        rmtree(OUT, ignore_errors=True)
        with tempfile.TemporaryDirectory() as source:
            copy_sources(Path(source))
            wheel = build_both(Path(source), OUT)
        print("built; the wheel of the source distribution is that of the checkout")
        check_rendering(OUT)
        print("twine check: passed")
        tutorial = (ROOT / "docs" / "guide" / "tutorial.md").read_text().partition("\n## 2.")[0]
        for version in asked.pythons:
            if python := interpreter(version):
                check_installed(python, wheel, f"{BEFORE}{tutorial}\n{AFTER}")
                print(f"Python {version}: installed, and the first commands work", flush=True)
    except CheckFailed as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for version in missing:
        print(f"error: Python {version} is not installed; PYTHONS names the versions to check", file=sys.stderr)
    return INCOMPLETE if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
