"""Find the pages of docs/ that the package ships, and name them in messages.

A topic names a page: `tutorial` is docs/guide/tutorial.md. The generated reference is on the site and in a checkout only.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent / "docs"
SITE = "HIGHWATER_DOCS"  # the variable with the site's address, as in https://example.org/highwater
INDEX = "README"  # the page whose tables list every page by the question that it answers
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")


class Question(NamedTuple):
    """A row of the tables in docs/README.md."""

    section: str
    text: str
    links: list[str]  # relative to docs/


def questions() -> list[Question]:
    """Return the rows of the tables in docs/README.md."""
    rows: list[Question] = []
    section = ""
    for line in (FOLDER / f"{INDEX}.md").read_text().splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        elif line.startswith("|") and (links := LINK.findall(line)):
            rows.append(Question(section, line.split("|")[1].strip(), links))
    return rows


def topics() -> dict[str, str]:
    """Return topic -> page, a path relative to docs/ without its ending. A topic is the page's name, or its whole path if
    another page has the same name."""
    pages = [path.relative_to(FOLDER).with_suffix("").as_posix()
             for pattern in ("*.md", "*/*.md") for path in sorted(FOLDER.glob(pattern))]
    names = [page.rpartition("/")[2] for page in pages]
    return {name if names.count(name) == 1 else page: page for name, page in zip(names, pages, strict=True)}


def address(page: str) -> str:
    """Return the address of a page on the site; empty if the site's address is not set."""
    site = os.environ.get(SITE, "").rstrip("/")
    return f"{site}/docs/{page}.html" if site else ""


def named(topic: str) -> str:
    """Return the name of a page in a message: its address on the site, or the command that prints it. The sources that workers
    of Spark get have no pages."""
    return address(topics().get(topic, topic)) or f"`highwater docs {topic}`"
