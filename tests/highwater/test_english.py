"""Refuses openings that make a reader go back: in docstrings, in the docs, and names of sources that only we understand.

The rule: a sentence has a subject, a verb and an object, in this order, and is understood at the first reading. A docstring
that opens with `Of` or `That` has lost its subject or its verb. A source is named by what it is, because a reader does not
know our numbers.
"""

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCSTRING = re.compile(r"(Of|That|What|Who|Whose|As|Where|There|Which) ")
PROSE = re.compile(r"(Of what|That a|Who|Whose|Harmed|Told|What waits|As they come)\b")
SENTENCE = re.compile(r"Of (the|a) ")  # in paragraphs: "Of the violations at one depth the one is told that .."
NUMBERED = re.compile(r"\b[Ss]ources? 00\d|RFC 00(?:26)")
DOCS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/*.md", "specs/README.md")


def tracked(*patterns: str) -> list[Path]:
    """Return the tracked files that match; git's `*` also crosses folders. Links and deleted files are left out."""
    listed = subprocess.run(["git", "ls-files", "-z", *patterns], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file() and not path.is_symlink()]


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def refused_docstrings(source: str) -> Iterator[str]:
    """Yield `line: first line` of each docstring with a refused opening."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if DOCSTRING.match(text):
                yield f"{getattr(node, 'lineno', 1)}: {text.splitlines()[0]}"


def blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first line's number and the text of each paragraph, heading, list item and table cell; code is left out."""
    start, lines, fenced = 0, [], False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        fence = line.lstrip().startswith("```")
        cells = line.startswith("|")
        if lines and (fence or fenced or cells or not line.strip() or re.match(r"\s*([-*]|\d+\.) |#", line)):
            yield start, " ".join(lines)
            lines = []
        fenced ^= fence
        if cells and not fenced:
            yield from ((number, cell.strip()) for cell in line.strip("|").split("|"))
        elif lines or (line.strip() and not (fence or fenced or line.startswith("    "))):
            start = start if lines else number
            lines.append(re.sub(r"^(#+|[-*]|\d+\.) ", "", line.strip()))


def refused_prose(text: str) -> Iterator[str]:
    """Yield `line: sentence` of each block and sentence of Markdown with a refused opening. Questions are allowed."""
    for number, block in blocks(text):
        first, *others = re.split(r"(?<=[.?!:])[*_]* ", block)
        headless = PROSE.match(first.lstrip("*_")) and not first.rstrip("*_").endswith("?")
        yield from (f"{number}: {sentence}" for sentence in [first] * bool(headless))
        yield from (f"{number}: {sentence}" for sentence in [first, *others] if SENTENCE.match(sentence))


def refused_names(text: str) -> Iterator[str]:
    """Yield `line: text` of each line that names a source by its number."""
    yield from (f"{number}: {line.strip()}" for number, line in enumerate(text.splitlines(), 1) if NUMBERED.search(line))


def test_docstrings_open_with_a_verb_or_a_noun():
    assert not [f"{name_of(path)}:{said}" for path in tracked("*.py") for said in refused_docstrings(path.read_text())]


def test_no_block_of_the_docs_is_headless():
    assert not [f"{name_of(path)}:{said}" for path in tracked(*DOCS) for said in refused_prose(path.read_text())]


def test_sources_are_named_by_what_they_are():
    texts = [(name_of(path), path.read_text(errors="replace")) for path in tracked()]
    assert not [f"{name}:{said}" for name, text in texts for said in refused_names(text)]


def test_planted_docstrings_are_noticed():
    source = '"""Of a module."""\nclass A:\n    """What it holds."""\n    async def f(self):\n        """\n        As is."""\n'
    assert list(refused_docstrings(source)) == ["1: Of a module.", "2: What it holds.", "4: As is."]
    assert not list(refused_docstrings('"""Office hours."""\ndef f():\n    """Assert that it holds."""\ndef g():\n    pass\n'))


def test_planted_prose_is_noticed():
    text = ("# Who then\n\nA claim. Of the two\nnone holds.\n- Told is nothing.\n1. **Whose** is it\n\n"
            "| Harmed is | fine |\n|---|---|\n\n- first\n  goes on\nThat a cell is so.\n\nThat a cell is so.\n")
    assert list(refused_prose(text)) == ["1: Who then", "3: Of the two none holds.", "5: Told is nothing.",
                                         "6: **Whose** is it", "8: Harmed is", "15: That a cell is so."]


def test_questions_code_and_other_words_are_allowed():
    text = ("## Who does what?\n\n**Who pays?** The caller.\n\n| Whose is it? |\n|---|\n\n```text\nTold is nothing.\n"
            "\nWho\n```\n\n    Who\n\nWholly other words. Often the same.\n")
    assert not list(refused_prose(text))


def test_planted_numbers_are_noticed():
    number, rfc = f"source {0:03}", f"RFC {26:04}"
    assert list(refused_names(f"a\nthe {number}'s\nS{number[1:]}\n{rfc}:\nsource 1\n")) == [
        f"2: the {number}'s", f"3: S{number[1:]}", f"4: {rfc}:"]
