"""The requirements of SlateDB's RFC on checkpoints and clones, and of Pyroscope's metadata index: tables say where each is.

What they name exists.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HEAD = "## SlateDB's RFC on checkpoints and clones: requirements"
PART = (ROOT / "docs/sources.md").read_text().partition(HEAD)[2].partition("\n## ")[0]
TABLE = re.findall(r"^\| (\d+) \|.*\| ([^|]+) \|$", PART, re.MULTILINE)


@pytest.fixture(scope="module")
def code() -> str:
    """The text of all that is run."""
    rooms = ("impl", "model", "dst", "traces", "highwater", "tests", "specs")
    files = [path for room in rooms for path in sorted((ROOT / room).rglob("*")) if path.suffix in (".py", ".toml", ".fizz")]
    return "\n".join(path.read_text() for path in files if path != Path(__file__))


def test_no_number_is_left_out():
    assert [int(number) for number, _ in TABLE] == list(range(1, 52))


@pytest.mark.parametrize(("number", "where"), TABLE)
def test_what_a_requirement_names_exists(number, where, code):
    names = re.findall(r"`([^`]+)`", where)
    assert names or "(" in where or "*database*" in where, f"requirement {number} is nowhere: {where}"
    for name in names:
        assert last_word(name) in code, f"requirement {number} names {name}, which is not in the code"


def last_word(name: str) -> str:
    """Return what to look for: of `module.function` the function, of `admin checkpoint create` its last verb."""
    return re.split(r"[ ./]", name.removesuffix(".py").strip("-"))[-1]


# --- the metadata index

INDEX = re.findall(r"^\| (\d+) \| ([^|]+) \|$", (ROOT / "docs/metadata-index.md").read_text().partition("## Requirements")[2],
                   re.MULTILINE)
STORIES = re.findall(r"`(\w+)`(?:, `(\w+)`)? \|$", (ROOT / "docs/metadata-index.md").read_text().partition(
    "## What does it promise")[2].partition("\n## ")[0], re.MULTILINE)


def test_no_number_of_the_index_is_left_out():
    assert [int(number) for number, _ in INDEX] == list(range(1, 52))


@pytest.mark.parametrize(("number", "where"), INDEX)
def test_what_a_requirement_of_the_index_names_is_a_test_or_an_issue(number, where):
    named = re.findall(r"`([^`]+)`", where)
    assert named or re.search(r"issue 2[5-8]", where), f"requirement {number} is nowhere: {where}"
    tests = "\n".join(path.read_text() for of in ("tests/impl/index", "tests/index", "tests/interop")
                      for path in sorted((ROOT / of).glob("test_*.py")))
    for name in named:
        assert f"def {name}(" in tests, f"requirement {number} names {name}, which is no test of the index"


def test_every_safeguard_of_the_index_is_told_of_with_its_story():
    from tests.impl.index.test_index_stories import STORIES as told
    page = (ROOT / "docs/metadata-index.md").read_text()
    assert {story for pair in STORIES for story in pair if story} == {story.__name__ for _, story, *_ in told} - {
        "dropped_units_are_forgotten"}
    for safeguard in {name.removesuffix("_TRUNCATE").removesuffix("_JOB") for name, *_ in told} - {"FORGET_DROPPED"}:
        assert f"`{safeguard}`" in page, safeguard
