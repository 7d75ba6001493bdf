"""The tutorials work as they stand: their files and commands, in an environment with the wheel, outside the checkout."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from highwater.cli.new import PLACEHOLDER, files
from highwater.servers.s3 import found
from tests.support.installed import ROOT

GUIDE, EXAMPLES = ROOT / "docs" / "guide", ROOT / "examples"
PAGES = {"tutorial": "lease", "table": "table"}  # page -> the example that it builds
OWN = {  # example -> files that are neither the skeleton's nor on the page, but for its README and its first line
    "lease": {"lease/spec.fizz", "lease/recorded.py"}, "table": set()}
FENCED = re.compile(r"(?:<!-- (?P<note>.*?) -->\n)?```(?P<kind>\w+)(?P<info>[^\n]*)\n(?P<text>.*?)```\n(?=(?P<rest>.*))", re.S)
BETWEEN = "\n\n\n"  # the blocks of one file


class Step(NamedTuple):
    """A block of the page: the next part of a file, or commands with what they print."""

    file: str  # "" for commands
    text: str
    code: int = 0
    prints: tuple[str, ...] = ()
    needs: str = ""  # the server that the commands need


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
            yield Step("", text, int(block["info"].partition("exit=")[2] or 0), tuple(line for line in shown if line.strip()),
                       note.removeprefix("needs: ") if note.startswith("needs: ") else "")
        else:
            raise ValueError(f"a block of {kind} is neither a file nor commands: {text[:60]!r}")


def page_of(name: str) -> str:
    return (GUIDE / f"{name}.md").read_text()


def written(page: str) -> dict[str, str]:
    """Return the files that a reader has written in the end."""
    files: dict[str, str] = {}
    for step in steps(page):
        if step.file:
            files[step.file] = files[step.file].rstrip("\n") + BETWEEN + step.text if step.file in files else step.text
    return files


def plain(line: str) -> str:
    return " ".join(line.split())


def missing(prints: tuple[str, ...], output: str) -> str:
    """Return the first line that the output does not have, in this order; "" if it has all. Between the cells of a table that
    the page leaves empty anything may stand."""
    lines = iter(map(plain, output.splitlines()))
    wanted = [re.compile(re.escape(plain(line)).replace(r"│\ │", r"│ [^│]* │")) for line in prints]
    return next((line for line, pattern in zip(prints, wanted) if not any(pattern.search(shown) for shown in lines)), "")


def follow(page: str, folder: Path, environment: Path) -> None:
    """Do what the page says, in this folder. Commands that need a server which is not built are left out."""
    at, begun = folder, set()
    server = found("versitygw")
    for step in steps(page):
        if step.file:
            path = at / step.file
            before = path.read_text().rstrip("\n") + BETWEEN if step.file in begun else ""
            path.write_text(before + step.text)
            begun.add(step.file)
        elif not step.needs or server:
            where = folder / "where"
            ran = subprocess.run(["bash", "-c", f"{step.text}\ncode=$?; pwd > '{where}'; exit $code"], cwd=at,
                                 capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL,
                                 env={"PATH": f"{environment}/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "HOME": str(folder),
                                      "HIGHWATER_VERSITYGW": str(server or "")})
            said = f"{step.text}exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
            assert ran.returncode == step.code, said
            assert not missing(step.prints, ran.stdout), f"{missing(step.prints, ran.stdout)!r} is not printed: {said}"
            at = Path(where.read_text().strip())


def test_every_command_of_the_tutorial_prints_what_it_shows(users, tmp_path):
    follow(page_of("tutorial"), tmp_path, users)
    assert not Path(source_of(users, tmp_path)).is_relative_to(ROOT)


def test_every_command_of_the_table_prints_what_it_shows(complete, tmp_path):
    follow(page_of("table"), tmp_path, complete)
    assert not Path(source_of(complete, tmp_path)).is_relative_to(ROOT)


def source_of(environment: Path, folder: Path) -> str:
    return subprocess.run([environment / "bin" / "python", "-c", "import highwater; print(highwater.__file__)"], cwd=folder,
                          env={}, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("page, name", [(page, name) for page in PAGES for name in written(page_of(page))])
def test_the_files_of_a_tutorial_are_those_of_its_example(page, name):
    assert written(page_of(page))[name] == (EXAMPLES / PAGES[page] / name).read_text()


@pytest.mark.parametrize("page", PAGES)
def test_an_example_is_what_its_tutorial_ends_with(page):
    """Every other file of an example is the skeleton's, but for those of its own, its README and its first line. A tutorial of
    a project with extras changes what the workflow installs."""
    folder, name = EXAMPLES / PAGES[page], PAGES[page]
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=folder, capture_output=True,
                            text=True, check=True).stdout.splitlines()
    skeleton, on_page = dict(files(name)), written(page_of(page))
    assert set(listed) == {*skeleton, *on_page, *OWN[name]}
    for path in skeleton.keys() - on_page.keys() - {"README.md", f"{name}/__init__.py"}:
        text = (folder / path).read_text().replace("'highwater-verify[proofs,s3]'", "highwater-verify")
        assert skeleton[path] == text, f"{path} has another text; {PLACEHOLDER} is {name}"


def test_a_wrong_page_is_noticed(tmp_path, users):
    page = "```sh\necho one; echo two\n```\n```text\n{}\n```\n"
    follow(page.format("two"), tmp_path, users)
    for wrong in (page.format("three"), page.format("two\none"), "```sh exit=1\ntrue\n```\n", "```sh\nfalse\n```\n"):
        with pytest.raises(AssertionError):
            follow(wrong, tmp_path, users)
    with pytest.raises(ValueError, match="neither"):
        follow("```python\nx = 1\n```\n", tmp_path, users)


def test_a_command_is_left_out_only_without_its_server(tmp_path, users, monkeypatch):
    page = "<!-- needs: versitygw -->\n```sh\nfalse\n```\n"
    monkeypatch.setattr(f"{__name__}.found", lambda name: None)
    follow(page, tmp_path, users)
    monkeypatch.setattr(f"{__name__}.found", lambda name: tmp_path)
    with pytest.raises(AssertionError):
        follow(page, tmp_path, users)


def test_an_empty_cell_of_a_table_stands_for_any_figure():
    assert not missing(("A │ │ ok",), "A │ 12 │ ok") and missing(("A │ │ ok",), "A │ 12 │ FAILED")
    assert missing(("A │ │ ok",), "A │ 12 │ 13 │ ok")
