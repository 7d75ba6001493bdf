"""The requirements of SlateDB's RFC on checkpoints and clones: the table says where each is, and what it names exists."""

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
