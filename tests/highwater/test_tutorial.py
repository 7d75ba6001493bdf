"""The tutorial works as it stands: its files and commands, in an environment with the wheel, outside the checkout."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from highwater.cli.new import PLACEHOLDER, files
from tests.support.installed import ROOT

PAGE, EXAMPLE = ROOT / "docs" / "guide" / "tutorial.md", ROOT / "examples" / "lease"
FENCED = re.compile(r"(?:<!-- (?P<note>.*?) -->\n)?```(?P<kind>\w+)(?P<info>[^\n]*)\n(?P<text>.*?)```\n(?=(?P<rest>.*))", re.S)
BETWEEN = "\n\n\n"  # the blocks of one file


class Step(NamedTuple):
    """A block of the page: the next part of a file, or commands with what they print."""

    file: str  # "" for commands
    text: str
    code: int = 0
    prints: tuple[str, ...] = ()


def steps(page: str) -> Iterator[Step]:
    """Yield the blocks of a page in their order. Raises ValueError for a block that is neither."""
    for block in FENCED.finditer(page):
        note, kind, text = block["note"] or "", block["kind"], block["text"]
        if note.startswith("not run") or kind == "text":
            continue
        if note.startswith("file: "):
            yield Step(note.removeprefix("file: "), text)
        elif kind == "sh":
            after = FENCED.match(block["rest"])
            shown = after["text"].splitlines() if after and after["kind"] == "text" else ()
            yield Step("", text, int(block["info"].partition("exit=")[2] or 0), tuple(line for line in shown if line.strip()))
        else:
            raise ValueError(f"a block of {kind} is neither a file nor commands: {text[:60]!r}")


def written(page: str) -> dict[str, str]:
    """Return the files that a reader has written in the end."""
    found: dict[str, str] = {}
    for step in steps(page):
        if step.file:
            found[step.file] = found[step.file].rstrip("\n") + BETWEEN + step.text if step.file in found else step.text
    return found


def plain(line: str) -> str:
    return " ".join(line.split())


def missing(prints: tuple[str, ...], output: str) -> str:
    """Return the first line that the output does not have, in this order; "" if it has all."""
    lines = iter(map(plain, output.splitlines()))
    return next((line for line in prints if not any(plain(line) in found for found in lines)), "")


def follow(page: str, folder: Path, environment: Path) -> None:
    """Do what the page says, in this folder."""
    at, begun = folder, set()
    for step in steps(page):
        if step.file:
            path = at / step.file
            before = path.read_text().rstrip("\n") + BETWEEN if step.file in begun else ""
            path.write_text(before + step.text)
            begun.add(step.file)
        else:
            where = folder / "where"
            ran = subprocess.run(["bash", "-c", f"{step.text}\ncode=$?; pwd > '{where}'; exit $code"], cwd=at,
                                 capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
                                 env={"PATH": f"{environment}/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(folder)})
            said = f"{step.text}exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
            assert ran.returncode == step.code, said
            assert not missing(step.prints, ran.stdout), f"{missing(step.prints, ran.stdout)!r} is not printed: {said}"
            at = Path(where.read_text().strip())


def test_every_command_of_the_tutorial_prints_what_it_shows(users, tmp_path):
    follow(PAGE.read_text(), tmp_path, users)
    source = subprocess.run([users / "bin" / "python", "-c", "import highwater; print(highwater.__file__)"], cwd=tmp_path,
                            env={}, capture_output=True, text=True, check=True).stdout
    assert not Path(source).is_relative_to(ROOT)


@pytest.mark.parametrize("name", written(PAGE.read_text()))
def test_the_tutorials_files_are_those_of_the_example(name):
    assert written(PAGE.read_text())[name] == (EXAMPLE / name).read_text()


def test_the_example_is_what_the_tutorial_ends_with():
    """Every other file of the example is the skeleton's, but its README, its first line, its FizzBee spec, and recorded.py."""
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=EXAMPLE, capture_output=True,
                            text=True, check=True).stdout.splitlines()
    skeleton = dict(files("lease"))
    assert set(listed) == {*skeleton, "lease/spec.fizz", "lease/recorded.py"}
    for name in skeleton.keys() - written(PAGE.read_text()).keys() - {"README.md", "lease/__init__.py"}:
        assert skeleton[name] == (EXAMPLE / name).read_text(), f"{name} has another text; {PLACEHOLDER} is lease"


def test_a_wrong_page_is_noticed(tmp_path, users):
    page = "```sh\necho one; echo two\n```\n```text\n{}\n```\n"
    follow(page.format("two"), tmp_path, users)
    for wrong in (page.format("three"), page.format("two\none"), "```sh exit=1\ntrue\n```\n", "```sh\nfalse\n```\n"):
        with pytest.raises(AssertionError):
            follow(wrong, tmp_path, users)
    with pytest.raises(ValueError, match="neither"):
        follow("```python\nx = 1\n```\n", tmp_path, users)
