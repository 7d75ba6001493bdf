"""Draw the picture and the table of rooms in ARCHITECTURE.md from the import graph: `python -m bench.architecture`."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
NODES = {  # node of the picture -> (the folders whose imports it has, its text)
    "specs": (("specs",), "FizzBee specs"),
    "model": (("model",), "executable models, explorers, proofs"),
    "impl": (("impl",), "implementations, codecs, stores"),
    "traces": (("traces",), "events checked against models"),
    "dst": (("dst",), "simulation, search, campaigns"),
    "tools": (("highwater/conformance", "highwater/gate", "highwater/reports", "highwater/admin", "highwater/recorder",
               "highwater/probe"), "conformance, gate, reports, admin, recorder, probe"),
    "cli": (("highwater/cli",), "the verbs"),
}
FOLDERS = ("specs", "model", "impl", "traces", "dst", "highwater")


def sources() -> list[Path]:
    """List every module by its real path; links in highwater/ are not followed."""
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")) if path.resolve() == path]


def imported(path: Path) -> Iterator[str]:
    """Yield our modules that a module imports, as paths without their suffix."""
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names] if isinstance(
            node, ast.Import) else []
        for name in names:
            if name and name.startswith("highwater."):
                inner = name.removeprefix("highwater.").replace(".", "/")
                yield inner if inner.partition("/")[0] in FOLDERS else f"highwater/{inner}"


def node_of(name: str) -> str | None:
    """Return the node of the picture that a module belongs to; None for `highwater` itself."""
    return next((node for node, (folders, _) in NODES.items() if any(f"{name}/".startswith(f"{of}/") for of in folders)), None)


def edges() -> set[tuple[str, str]]:
    """Return the pairs (importing node, imported node)."""
    found = {(node_of(path.relative_to(ROOT).as_posix()), node_of(name)) for path in sources() for name in imported(path)}
    return {(a, b) for a, b in found if a and b and a != b}


def reduced(graph: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the transitive reduction of the graph. Raises ValueError for a cycle."""
    def reached(start: str, without: tuple[str, str]) -> set[str]:
        seen, todo = set(), [start]
        while todo:
            here = todo.pop()
            new = {b for a, b in graph if a == here and (a, b) != without and b not in seen}
            seen |= new
            todo += sorted(new)
        return seen
    cycle = sorted(node for node in NODES if node in reached(node, ("", "")))
    if cycle:
        raise ValueError(f"these import each other: {', '.join(cycle)}")
    return {(a, b) for a, b in graph if b not in reached(a, (a, b))}


def picture() -> str:
    """Draw a Mermaid flowchart; an arrow leads from the importing node to the imported one."""
    lines = [f'    {node}["{node}: {text}"]' for node, (_, text) in NODES.items()]
    lines += [f"    {a} --> {b}" for a, b in sorted(reduced(edges()), key=lambda e: (-list(NODES).index(e[0]), e[1]))]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"]) + "\n"


def rooms() -> str:
    """Render a row for each package: its folder, the number of its modules, and the first line of its docstring.

    The skeleton is left out, because its files are data.
    """
    lines = ["| room | modules | what it holds |", "|---|---|---|"]
    for init in (path for path in sources() if path.name == "__init__.py" and path.parent != ROOT / "highwater"
                 and not path.is_relative_to(ROOT / "highwater/skeleton")):
        count = sum(path.name != "__init__.py" for path in init.parent.glob("*.py"))
        what = (ast.get_docstring(ast.parse(init.read_text())) or "").partition("\n\n")[0].replace("\n", " ")
        lines.append(f"| `{init.parent.relative_to(ROOT).as_posix()}/` | {count} | {what} |")
    return "\n".join(lines) + "\n"


PARTS = {"picture": picture, "rooms": rooms}


def written(text: str) -> str:
    """Return the page with its generated parts rendered again."""
    for name, render in PARTS.items():
        part = rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)"
        text = re.sub(part, lambda m, r=render: m[1] + r() + m[2], text, flags=re.S)
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
