"""Builds the site of the pages into out/site: `python -m bench.site`, which is `make site`.

The site is the pages of docs/ and those at the root, built by Sphinx with docs/conf.py, and the live examples: HTML pages that
the commands of docs/examples.md write. The build fails if Sphinx warns, if a link within the site is dead, or if a page loads
anything from another host.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bench.pages.protocol import ROOT
from highwater.gate.exits import MEANING, SAFETY

OUT, EXAMPLES = ROOT / "out" / "site", ROOT / "out" / "examples"
COMMANDS = re.compile(r"^highwater .*out/examples/.*$", re.MULTILINE)
LOADS = re.compile(r"(?:url\(|@import)\s*[\"']?((?:https?:)?//[^\"')\s]+)")  # in a style sheet


class Page(HTMLParser):
    """The anchors of a page, its links, and the addresses that a browser loads with it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.links: list[str] = []
        self.loaded: list[str] = []
        text = path.read_text()
        self.feed(text)
        self.loaded += LOADS.findall(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name"):
                self.anchors.add(value or "")
            elif name in ("href", "src", "data"):
                (self.links if tag == "a" else self.loaded).append(value or "")


page = cache(Page)


def faults(site: Path) -> Iterator[str]:
    """Yield a line for each dead link in the site, and for each file that a page or style sheet loads from another host."""
    for path in sorted(site.rglob("*.html")):
        name = path.relative_to(site)
        for link in page(path).loaded:
            if urlsplit(link).netloc:
                yield f"{name} loads {link}"
        for link in dict.fromkeys(page(path).links + page(path).loaded):
            address = urlsplit(link)
            if address.scheme or address.netloc:
                continue
            target = path.parent / unquote(address.path) if address.path else path
            if not target.exists():
                yield f"{name}: {link}: there is no such file"
            elif target.suffix == ".html" and unquote(address.fragment) not in page(target).anchors:
                yield f"{name}: {link}: the page has no such anchor"
    for path in sorted(site.rglob("*.css")):
        yield from (f"{path.relative_to(site)} loads {link}" for link in LOADS.findall(path.read_text()))


def write_examples() -> None:
    """Run the commands of docs/examples.md. They exit with 0, or with the code of what they show: a safety violation."""
    shutil.rmtree(EXAMPLES, ignore_errors=True)
    EXAMPLES.mkdir(parents=True)
    environment = {**os.environ, "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}
    for command in COMMANDS.findall((ROOT / "docs" / "examples.md").read_text()):
        result = subprocess.run(command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True)
        if result.returncode not in (0, SAFETY):
            sys.exit(f"{command}: exit {result.returncode}, {MEANING.get(result.returncode)}\n{result.stdout}{result.stderr}")


def main() -> int:
    """Build the site. Returns the exit code."""
    write_examples()
    shutil.rmtree(OUT, ignore_errors=True)
    # -E: every page is read again, because Sphinx does not repeat the warnings of a page that it has kept
    built = subprocess.run([sys.executable, "-m", "sphinx", "-qEW", "--keep-going", "-c", "docs",
                            "-d", ROOT / ".cache" / "site", ".", OUT], cwd=ROOT)
    if built.returncode:
        return built.returncode
    shutil.copy(OUT / "README.html", OUT / "index.html")
    (OUT / "examples").mkdir()
    for example in EXAMPLES.glob("*.html"):
        shutil.copy(example, OUT / "examples")
    found = list(faults(OUT))
    print("\n".join([*found, f"{OUT.relative_to(ROOT)}: {len(list(OUT.rglob('*.html')))} pages, {len(found)} faults"]))
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
