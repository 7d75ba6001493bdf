"""`highwater docs`: the pages that the package ships, and how messages name them."""

import ast
import re
from collections.abc import Iterator
from io import StringIO

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from highwater import pages
from highwater.cli import console, docs, main
from highwater.cli.new import SKELETON
from highwater.gate.exits import BAD_INPUT
from tests.highwater.test_tidy import ROOT, sources

PAGE = re.compile(r"\bdocs/[\w/*-]*\.?md\b|\bdocs/[\w-]+/")  # a page by its path in a checkout
PACKAGE = [path for path in sources() if path.relative_to(ROOT).parts[0] != "bench"]


@pytest.fixture(autouse=True)
def without_address(monkeypatch):
    monkeypatch.delenv(pages.SITE, raising=False)


def run(*arguments: str):
    return CliRunner().invoke(main.app, ["docs", *arguments])


def strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the strings that are no docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node


def commands(command, name: str = "highwater") -> Iterator[tuple[str, str]]:
    """Yield the name of each command, and the text of its help."""
    yield name, " ".join([command.help or "", *(getattr(parameter, "help", "") or "" for parameter in command.params)])
    for child, of in getattr(command, "commands", {}).items():
        yield from commands(of, f"{name} {child}")


def test_docs_lists_every_topic_by_its_question():
    result = run()
    assert result.exit_code == 0
    listed = {line.split()[0] for line in result.output.splitlines() if line.startswith("  ")}
    assert listed == {*pages.topics()} - {pages.INDEX}
    assert re.search(r"^  tutorial +Where do I begin\?$", result.output, re.MULTILINE)
    assert "I operate a database on object storage\n" in result.output


@pytest.mark.parametrize("topic", ["tutorial", "guide/tutorial", "tutorial.md", "docs/guide/tutorial.md"])
def test_docs_prints_a_page_as_it_is(topic):
    result = run(topic)
    assert (result.exit_code, result.output) == (0, (ROOT / "docs" / "guide" / "tutorial.md").read_text())


@pytest.mark.parametrize("topic, hint", [
    ("tutrial", "did you mean 'tutorial'?"),
    ("raft", "choose operating/raft or protocols/raft"),
    ("qqqq", "`highwater docs` lists the topics"),
    ("../README", "no page"),
    ("protocols/reference/raft", "no page"),
])
def test_docs_refuses_an_unknown_topic(topic, hint):
    result = run(topic)
    assert result.exit_code == BAD_INPUT and hint in result.stderr and not result.stdout


def test_docs_renders_a_page_for_a_terminal(monkeypatch):
    screen = StringIO()
    terminal = console.Console(file=screen, force_terminal=True, width=60, soft_wrap=True)
    monkeypatch.setattr(docs, "console", terminal)
    monkeypatch.setattr(terminal, "pager", lambda styles: terminal)  # what is printed, without waiting for a key
    docs.show("# Title\n\n" + "a **bold** word " * 20 + "\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
    lines = screen.getvalue().splitlines()
    assert "**" not in screen.getvalue() and "|" not in screen.getvalue() and "\x1b[1m" in screen.getvalue()
    assert max(len(re.sub(r"\x1b\[[\d;]*m", "", line)) for line in lines) <= 60


def test_docs_opens_the_page_on_the_site(monkeypatch):
    opened: list[str] = []
    monkeypatch.setattr(docs.webbrowser, "open", opened.append)
    result = run("mapping", "--open")
    assert result.exit_code == BAD_INPUT and pages.SITE in result.stderr and not opened
    monkeypatch.setenv(pages.SITE, "https://example.org/highwater/")
    assert run("mapping", "--open").exit_code == run("--open").exit_code == 0
    assert opened == [f"https://example.org/highwater/docs/{page}.html" for page in ("guide/mapping", "README")]


def test_a_page_is_named_by_command_or_address(monkeypatch):
    assert pages.named("mapping") == "`highwater docs mapping`"
    monkeypatch.setenv(pages.SITE, "/")
    assert pages.named("mapping") == "`highwater docs mapping`"
    monkeypatch.setenv(pages.SITE, "https://example.org")
    assert pages.named("mapping") == "https://example.org/docs/guide/mapping.html"


def test_every_named_topic_exists():
    named = [(path, node.args[0]) for path in PACKAGE for node in ast.walk(ast.parse(path.read_text()))
             if isinstance(node, ast.Call) and ast.unparse(node.func) == "pages.named"]
    topics = [argument.value for _, argument in named if isinstance(argument, ast.Constant)]
    assert len(topics) == len(named) - 1 > 4 and {*topics} <= {*pages.topics()}  # tests/gate asks of the other
    in_files = [topic for path in SKELETON.rglob("*") if path.is_file()
                for topic in re.findall(r"`highwater docs ([\w/-]+)`", path.read_text())]
    assert in_files and {*in_files} <= {*pages.topics()}


def test_messages_name_pages_by_topic():
    assert not [f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}" for path in PACKAGE
                for node in strings(ast.parse(path.read_text())) if PAGE.search(node.value)]
    assert not [f"{name}: {text}" for name, text in commands(get_command(main.app)) if PAGE.search(text)]
    assert not [path for path in SKELETON.rglob("*") if path.is_file() and PAGE.search(path.read_text())]


def test_a_path_in_a_message_is_noticed():
    tree = ast.parse('"""docs/a.md"""\nx = f"see docs/b.md {1}"\ndef f():\n    "docs/c.md"\n    return "docs/d/"\n')
    assert [node.value for node in strings(tree) if PAGE.search(node.value)] == ["see docs/b.md ", "docs/d/"]
