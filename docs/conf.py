"""Sphinx's settings of the site, which `make site` builds from the root of the checkout.

The pages are plain Markdown. This file adds what the site needs beside them: the navigation, in the order of docs/README.md;
the addresses of sources in the repository; and the links to the live examples.
"""

import os
import posixpath
import re
import tomllib
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from highwater import __version__
from highwater.pages import questions

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# The repository's address. Without one, the site names sources and does not link them.
REPOSITORY = (os.environ.get("HIGHWATER_REPOSITORY") or PROJECT.get("urls", {}).get("Repository", "")).rstrip("/")

project = "highwater"
version = release = __version__
html_title = f"highwater {release}"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "specs/README.md", "docs/**"]
myst_heading_anchors = 6
highlight_language = "text"
html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = html_show_sourcelink = html_show_copyright = html_show_sphinx = False

EXAMPLE = re.compile(r"```\n.*?out/examples/([\w-]+\.html)\n```\n", re.DOTALL)
FLOWCHART = re.compile(r"```mermaid\n(.*?)```\n", re.DOTALL)


def page_of(link: str) -> str:
    """Return the name that Sphinx has for the page of a link in docs/README.md."""
    return posixpath.normpath(posixpath.join("docs", link)).removesuffix(".md")


INDEX, EXAMPLES, REFERENCE = map(page_of, ("README.md", "examples.md", "protocols/reference"))


def navigation() -> str:
    """Return a table of contents for each section of docs/README.md, and one of the reference pages."""
    sections: dict[str, list[str]] = {"": [INDEX], **{question.section: [] for question in questions()}, "Reference": []}
    for question in questions():
        for page in map(page_of, question.links):
            if page != root_doc:
                sections["Reference" if page.startswith(f"{REFERENCE}/") else question.section].append(page)
    return "".join("\n".join(["", "```{toctree}", ":hidden:", *[f":caption: {caption}"] * bool(caption), "",
                              *(f"/{name}" for name in dict.fromkeys(names)), "```", ""])
                   for caption, names in sections.items() if names)


def as_table(flowchart: str) -> str:
    """Return a table of the arrows of a Mermaid flowchart, because what draws one would be a script from elsewhere."""
    labels = dict(re.findall(r'(\w+)\[\(?"(.*?)"\)?\]', flowchart))
    arrows = re.findall(r'^ *(\w+)(?:\[.*?\])? +<?(?:-->(?:\|"(.*?)"\|)?|-[-.] "(.*?)" [-.]->) +(\w+)', flowchart, re.MULTILINE)
    rows = [(labels.get(source, source), labels.get(target, target), one or other) for source, one, other, target in arrows]
    head = ("from", "to", "how") if any(how for *_, how in rows) else ("from", "to")
    return "".join(f"| {' | '.join(row[:len(head)])} |\n" for row in (head, ("---",) * 3, *rows))


def add_what_the_site_needs(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the navigation to the first page and a link to each live example, and replace flowcharts."""
    if page == root_doc:
        source[0] += navigation()
    elif page == EXAMPLES:
        source[0] = EXAMPLE.sub(r'\g<0>\n<p><a href="../examples/\1">Open \1</a></p>\n', source[0])
    source[0] = FLOWCHART.sub(lambda found: as_table(found[1]), source[0])


class SourceLinks(SphinxTransform):
    """Give each link to a file or folder that is no page its address in the repository."""

    default_priority = 5

    def apply(self) -> None:
        kinds = addnodes.download_reference, addnodes.pending_xref
        for link in [node for kind in kinds for node in self.document.findall(kind)]:
            path = posixpath.normpath(posixpath.join(posixpath.dirname(self.env.docname), link["reftarget"]))
            if link.get("refdomain") == "doc" or not (ROOT / path).exists():
                continue  # a page, or a link that Sphinx refuses
            kind = "tree" if (ROOT / path).is_dir() else "blob"
            node = nodes.reference("", "", refuri=f"{REPOSITORY}/{kind}/HEAD/{path}") if REPOSITORY else nodes.inline()
            node += link.children
            link.replace_self(node)


def setup(app: Sphinx) -> None:
    app.connect("source-read", add_what_the_site_needs)
    app.add_transform(SourceLinks)
