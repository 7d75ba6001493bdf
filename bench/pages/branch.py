"""Draws the branch that a counterexample builds in the history of a protocol with numbered files.

The files stand in a row by id. Below the row is the file that was put later under an id that had been used. The table `branch`
of bench/pages/shown/STEM.toml names the run and the fields of the model. Style and fonts are those of diagram.py.
"""

from collections.abc import Iterator
from html import escape
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

from bench.pages.diagram import LETTER, LINE, STYLE, edge, head
from bench.pages.protocol import page_data
from highwater.conformance.conform import model_of
from highwater.model.core import Step
from highwater.model.explore.tabulated import explore
from highwater.specs.runs import Row, rows

WIDE, HIGH, GAP, MARGIN, ABOVE = 150, 38, 84, 24, 66  # px: a file; between two; around; before the history
BRANCH = (".branch .state{fill:#fbecea;stroke:#b3261e}.branch .edge{stroke:#b3261e}.branch .head,.branch .note{fill:#b3261e}"
          ".gone .state{stroke-dasharray:4 3;fill:none}.note{font-size:11px}"
          "@media(prefers-color-scheme:dark){.branch .state{fill:#3a1f1d;stroke:#f2b8b5}.branch .edge{stroke:#f2b8b5}"
          ".branch .head,.branch .note{fill:#f2b8b5}}")


class Branched(NamedTuple):
    """The table `branch` of bench/pages/shown/STEM.toml."""

    stem: str
    run: str  # the run of the spec that fails
    files: str  # the field of the shared state that holds the numbered files
    writer: str  # the role that puts them
    history: str  # the model's function of the shared state: what everyone reads in the end
    begin: str = ""  # the box in front of the first file; "": there is a file at the beginning
    snapshots: str = ""  # the field of the shared state that holds snapshots

    @property
    def row(self) -> Row:
        return next(row for row in rows() if row.id == self.run)


class File(NamedTuple):
    id: int
    name: str  # its writer, and the zero-based index of the writer's update; "": initial
    branch: bool  # another file had this id before
    notes: list[str]


def branched(stem: str) -> Branched:
    return Branched(stem, **page_data(stem)["branch"])


def name(writer: int, k: int, role: str) -> str:
    return f"{role}#{writer}.{k}"


def history(of: Branched, s: Any) -> list[str]:
    """List the names of the updates that everyone reads in the end: in order, or sorted if the model has a set."""
    read = getattr(import_module(f"highwater.model.protocols.{of.stem}"), of.history)(s)
    updates = getattr(read, "updates", read)
    return [name(w, k, of.writer) for w, k in (sorted(updates) if isinstance(updates, frozenset) else updates)]


def counterexample(of: Branched) -> tuple[Step, ...]:
    return explore(model_of(of.row)).trace


def present(those: tuple, i: int) -> bool:
    return i <= len(those) and bool(those[i - 1])


def changed(before: tuple, after: tuple) -> Iterator[tuple[int, bool]]:
    """Yield (id, whether it exists now) for each file that was created or deleted."""
    for i in range(1, len(after) + 1):
        if present(before, i) != present(after, i):
            yield i, present(after, i)


def files_of(of: Branched, trace: tuple[Step, ...]) -> list[File]:
    """List all files in the order of their creation."""
    at_first = [i for i, _ in changed((), getattr(trace[0].state.shared, of.files))]
    files = [File(i, "", False, ["initial"]) for i in at_first]
    for number, (before, step) in enumerate(pairwise(trace), 1):
        was, now, process = before.state.shared, step.state.shared, step.label[0]
        newest = {file.id: file for file in files}
        for i, there in changed(getattr(was, of.files), getattr(now, of.files)):
            if there:
                newest[i] = File(i, process, any(file.id == i for file in files), [f"put in step {number}"])
                files.append(newest[i])
            else:
                newest[i].notes.append(f"deleted in step {number}")
        for i, w, k in sorted(now.acked - was.acked):
            files[files.index(newest[i])] = newest[i] = newest[i]._replace(name=name(w, k, process.partition("#")[0]))
            newest[i].notes.append(f"acknowledged in step {number}")
        if of.snapshots:
            for i, _ in changed(getattr(was, of.snapshots), getattr(now, of.snapshots)):
                for file in newest.values():
                    if file.id <= i:
                        file.notes.append(f"in snapshot {i}, step {number}")
    return files


def told(trace: tuple[Step, ...]) -> list[str]:
    """Render each step on a line."""
    lines = []
    for number, (process, action, choices) in enumerate((step.label for step in trace[1:]), 1):
        lines.append(f"{number}. {process} {action}{' ' + ', '.join(map(str, choices)) if choices else ''}".rstrip())
    return [line.removesuffix(" False") for line in lines]


def text(x: float, y: float, said: str, kind: str = "", anchor: str = "start") -> str:
    of_class = f' class="{kind}"' if kind else ""
    return f'<text{of_class} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(said)}</text>'


def box(x: float, y: float, said: str) -> str:
    return (f'<rect class="state" x="{x:.1f}" y="{y:.1f}" width="{WIDE}" height="{HIGH}" rx="7"/>'
            + text(x + WIDE / 2, y + HIGH / 2 + 4, said, anchor="middle"))


def svg(of: Branched) -> str:
    trace = counterexample(of)
    files = files_of(of, trace)
    top = MARGIN + 18 + ABOVE - 40
    notes = max(len(file.notes) for file in files)
    below = top + HIGH + notes * LINE + 48  # where the branch is

    def left(i: int) -> float:
        return MARGIN + (i - (0 if of.begin else 1)) * (WIDE + GAP)

    drawn = [box(left(0), top, of.begin)] if of.begin else []
    for file in files:
        x, y = left(file.id), below if file.branch else top
        kind = "branch" if file.branch else "gone" if any(note.startswith("deleted") for note in file.notes) else "kept"
        parts = [box(x, y, f"{file.id}: {file.name}" if file.name else str(file.id))]
        parts += [text(x + 4, y + HIGH + 16 + n * LINE, note, "note") for n, note in enumerate(file.notes)]
        start = x - GAP
        if file.branch:
            parts += [edge(f"M{start:.1f} {top + HIGH / 2:.1f}C{start + GAP * .7:.1f} {top + HIGH / 2:.1f} "
                           f"{start + GAP * .2:.1f} {y + HIGH / 2:.1f} {x - 7:.1f} {y + HIGH / 2:.1f}"),
                      head(x, y + HIGH / 2, 1, 0),
                      text(x + 4, y + HIGH + 16 + len(file.notes) * LINE, "stale branch: never read", "note")]
        elif of.begin or file.id > 1:
            parts += [edge(f"M{start:.1f} {y + HIGH / 2:.1f}H{x - 7:.1f}"), head(x, y + HIGH / 2, 1, 0)]
        drawn.append(f'<g class="{kind}">{"".join(parts)}</g>')
    lines = [f"final history: {', '.join(history(of, trace[-1].state.shared)) or 'nothing'}",
             f"acknowledged: {', '.join(sorted(file.name for file in files if file.name))}", "", *told(trace)]
    foot = below + HIGH + (notes + 1) * LINE + 44
    drawn += [text(MARGIN, foot + n * LINE, line) for n, line in enumerate(lines) if line]
    high = foot + len(lines) * LINE + 4
    wide = max(left(max(file.id for file in files)) + WIDE, MARGIN + max(map(len, lines)) * LETTER) + MARGIN
    title = f"{of.stem}: the branch that collection by age alone allows"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{high:.0f}" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" role="img">',
        f"<title>{escape(title)}</title>", f"<desc>{escape('; '.join(told(trace)))}</desc>", f"<style>{STYLE}{BRANCH}</style>",
        f'<rect class="back" x=".5" y=".5" width="{wide - 1:.0f}" height="{high - 1:.0f}" rx="9"/>',
        text(MARGIN, 26, "min_age alone: a branch in the history", "role"), *drawn, "</svg>\n"])
