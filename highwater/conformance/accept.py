"""Write what a row's instance has into the table of runs: its number of states, and what never fires or is never witnessed.

Safety: a row is accepted only if it then passes, so that spec and model are equal. An expected verdict is never written: that
is the author's claim. Comments and layout of the file stay.
"""

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from highwater import project
from highwater.conformance.conform import Result, Searched, conform, model_of, search
from highwater.model.core import Model, Progress
from highwater.outside import toml_of
from highwater.specs.fizzbee.check import Fizz
from highwater.specs.runs import Row, rows_of, silent

FIRST = """# One row for each run of the model{beside}.

[[run]]
id = "{stem}_plain"
how = "graph"
expect = "PASSED"
"""
FIELDS = ("states", "never", "silent")  # that are accepted


class Accepted(NamedTuple):
    row: Row  # with the figures that were found
    result: Result
    changed: bool


def with_figures(row: Row, model: Model, searched: Searched) -> Row:
    """Return the row with the figures of the model."""
    explored, counted = searched
    if counted is None:  # the search ended at the violation
        return row
    if row.how == "live":  # nothing else of it is compared
        return row._replace(states=counted.states)
    idle = {f"{role}.{action}".lstrip(".") for role, action in counted.idle(model)}
    never_fires = idle - silent(row.spec, model.constants._asdict())
    return row._replace(states=counted.states, never=row.never if explored.violated else explored.never,
                        silent=row.silent if set(row.silent) == never_fires else tuple(sorted(never_fires)))


def accepted(row: Row, fizz: Fizz | None, cache: bool = True, progress: Progress | None = None) -> Accepted:
    """Compare spec and model as `conform` does, with the figures of the model in place of the row's."""
    try:
        model = model_of(row)
        searched = search(row, model, fizz is None, progress=progress)
        new = with_figures(row, model, searched)
    except ValueError as error:
        return Accepted(row, Result(row, False, "spec", "", str(error)), False)
    return Accepted(new, conform(new, fizz, model, cache, searched, progress), new != row)


def write(changed: list[Row]) -> list[Path]:
    """Write the figures of these rows into the tables. Returns the files. Raises ValueError if a file cannot be changed."""
    texts: dict[Path, str] = {}
    for row in changed:
        path = project.spec(row.spec, ".toml")
        texts[path] = with_row(texts.get(path) or path.read_text(), row)
    for path, text in texts.items():
        for row in changed:
            if project.spec(row.spec, ".toml") == path and not holds(text, row):
                raise ValueError(f"{path}: the row {row.id} cannot be changed in place: write each of its fields on a line")
    for path, text in texts.items():
        path.write_text(text)
    return list(texts)


def begin(stem: str) -> Path:
    """Write the table of a protocol that has none: one row, of the default constants, without figures."""
    path, has_spec = project.spec(stem, ".toml"), project.spec(stem, ".fizz").is_file()
    path.write_text(FIRST.format(stem=stem, beside=" and of the spec beside it" if has_spec else ""))
    rows_of(path, spec=stem)
    return path


# --- text of the table

def with_row(text: str, row: Row) -> str:
    """Return the text of a table with the figures of one row. Everything else stays."""
    lines = text.splitlines(keepends=True)
    first, end = block_of(lines, row.id)
    block = lines[first:end]
    for name in FIELDS:
        block = with_field(block, name, literal(getattr(row, name)))
    return "".join([*lines[:first], *block, *lines[end:]])


def block_of(lines: list[str], name: str) -> tuple[int, int]:
    """Return the lines of the row with this id: from its header to its last field."""
    heads = [number for number, line in enumerate(lines) if line.startswith("[")] + [len(lines)]
    for first, end in pairwise(heads):
        if any(re.match(rf"""id\s*=\s*["']{re.escape(name)}["']""", line) for line in lines[first:end]):
            return first, 1 + max(number for number in range(first, end) if not blank(lines[number]))
    raise ValueError(f"there is no [[run]] with the id {name}")


def blank(line: str) -> bool:
    return not line.strip() or line.lstrip().startswith("#")


def with_field(block: list[str], name: str, value: str) -> list[str]:
    """Return the lines of a row in which a field has this value; "": in which it is absent."""
    at = next((number for number, line in enumerate(block) if re.match(rf"{name}\s*=", line)), None)
    if at is None:
        last = block[-1] if block[-1].endswith("\n") else block[-1] + "\n"
        return [*block[:-1], last, f"{name} = {value}\n"] if value else block
    end = next(end for end in range(at + 1, len(block) + 1) if is_whole("".join(block[at:end])) or end == len(block))
    comment = re.search(r"\s*#[^\"']*$", block[end - 1].rstrip("\n"))
    line = f"{name} = {value}{comment[0] if comment else ''}\n"
    return [*block[:at], *([line] if value else []), *block[end:]]


def is_whole(text: str) -> bool:
    try:
        toml_of(text)
    except ValueError:
        return False
    return True


def literal(value: int | tuple[str, ...]) -> str:
    if isinstance(value, tuple):
        return json.dumps(value) if value else ""
    return str(value)


def holds(text: str, row: Row) -> bool:
    """Tell whether a table has this row."""
    try:
        found = next(entry for entry in toml_of(text)["run"] if entry["id"] == row.id)
    except (ValueError, StopIteration):
        return False
    usual = {"never": (), "silent": ()}
    return all(tuple(found.get(name, value)) == getattr(row, name) for name, value in usual.items()) and \
        found.get("states") == row.states
