"""Every path that docs, comments and strings name exists, so that a reader who follows one finds a file."""

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACEHOLDER = re.compile(r"<\w+>|\bSTEM\b|\bNAME\b|[{}*$]")  # in place of a name; in a formatted text
OF_A_PROJECT = {"docs/guide/tutorial.md": "examples/lease/", "docs/guide/ci.md": "examples/lease/",  # page -> the project whose
                "docs/guide/table.md": "examples/table/"}  # files it names, too
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")


@cache
def tracked() -> frozenset[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return frozenset(listed.splitlines())


@cache
def folders() -> frozenset[str]:
    return frozenset(folder.as_posix() for name in tracked() for folder in Path(name).parents)


@cache
def paths() -> re.Pattern:
    """A path below one of the tree's top-level folders."""
    tops = "|".join(sorted(re.escape(name.partition("/")[0]) for name in folders() - {"."} if "/" not in name))
    return re.compile(rf"(?<![\w/.:@<>{{}}*$~-])(?:{tops})/[\w./<>*{{}}$-]*")


def missing(text: str, within: str = "") -> list[str]:
    """The paths in a text that are not in the tree, nor in the folder `within`."""
    found = [name.rstrip("./-") for name in paths().findall(text) if not PLACEHOLDER.search(name)]
    return [name for name in found if not {name, within + name} & (tracked() | folders())]


def missing_links(page: str, text: str) -> list[str]:
    base = Path(page).parent
    targets = [(ROOT / base / link).resolve() for link in LINK.findall(text)]
    names = [target.relative_to(ROOT).as_posix() for target in targets if target.is_relative_to(ROOT)]
    return [name for name in names if name not in tracked() | folders()]


def texts(name: str, source: str) -> Iterator[str]:
    """Comments and strings; of a test only comments and docstrings, as its other strings may name what is made up."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and not name.startswith("tests/")):
            yield token.string
    if name.startswith("tests/"):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield ast.get_docstring(node) or ""


def named_in(ending: str) -> list[str]:
    return sorted(name for name in tracked() if name.endswith(ending) and (ROOT / name).exists())


@pytest.mark.parametrize("name", named_in(".md"))
def test_a_page_names_only_what_is_there(name):
    text = (ROOT / name).read_text()
    assert missing(text, OF_A_PROJECT.get(name, "")) + missing_links(name, text) == []


def test_code_names_only_what_is_there():
    found = [f"{name}: {path}" for name in named_in(".py") for text in texts(name, (ROOT / name).read_text())
             for path in missing(text)]
    assert found == []


def test_a_stale_path_is_noticed():
    text = "see `docs/no_such.md`, docs/nothing/ and tests/highwater/test_paths.py."
    assert missing(text) == ["docs/no_such.md", "docs/nothing"]
    assert missing("docs/<stem>.md, docs/STEM.md, docs/*.md, docs/{stem}.md, https://x.org/docs/x.md") == []
    assert missing_links("docs/a.md", "[x](no_such.md#there) [y](../README.md) [z](https://x.org)") == ["docs/no_such.md"]
    assert list(texts("tests/test_x.py", '"""docs/a.md"""\nx = "docs/b.md"  # docs/c.md\n')) == ["# docs/c.md", "docs/a.md"]
