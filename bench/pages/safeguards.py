"""Renders what each safeguard prevents: the counterexamples that the checker finds for each run that must fail."""

import re
from html import escape
from itertools import pairwise
from typing import Any

from bench.pages.protocol import Instances, details, differing, fence, safeguards_of, set_to, table
from highwater.conformance.conform import model_of
from highwater.conformance.difference import as_spec_of
from highwater.model.core import Model, Step
from highwater.model.explore.tabulated import explore
from highwater.model.guards import refusal, show
from highwater.model.liveness import eventually
from highwater.reports.page import doc, told
from highwater.specs.runs import FOLDER, Row, rows

NARROW = 64  # letters of a line of what a step of a counterexample changes


def failing(of: Instances) -> list[Row]:
    return [row for row in rows() if row.stem == of.stem and row.expect == "FAILED"]


def parted(of: Instances, row: Row) -> tuple[str, str]:
    """Return the safeguards that a run switches off, and the rest of its constants."""
    knobs = safeguards_of(of.module)
    return (set_to({name: value for name, value in row.constants.items() if name in knobs}),
            set_to({name: value for name, value in row.constants.items() if name not in knobs}))


def safeguards(of: Instances) -> str:
    body = []
    for row in failing(of):
        off, _ = parted(of, row)
        if off:
            trace, loop = found_in(row)
            steps = str(len(trace) - 1) if loop is None else f"{loop} + a cycle of {len(trace) - 1 - loop}"
            body.append((off, row.violates, steps, row.id))
    return table(("switched off", "property that fails", "steps", "run"), body)


def counterexamples(of: Instances) -> str:
    return "\n".join(counterexample(of, row) for row in failing(of))


def counterexample(of: Instances, row: Row) -> str:
    """Render a folded section, with the comments on the run and on the safeguard."""
    said = dict(re.findall(r'^id = "(\w+)" *# (.*)$', (FOLDER / f"{row.spec}.toml").read_text(), re.M))
    knobs, (off, rest) = safeguards_of(of.module), parted(of, row)
    remarks = [f"{said[row.id][0].upper()}{said[row.id][1:]}."] if row.id in said else []
    remarks += [f"`{name}`: {knobs[name]}." for name in row.constants if knobs.get(name)]
    remarks += [f"Instance: {rest}."] if off and rest else []
    settings = "".join(f" --set {name}={value}" for name, value in row.constants.items())
    settings += f" --eventually {row.eventually}" if row.eventually else ""
    walk = f"Step through it: `highwater model explore {of.stem}{settings} --html {row.id}.html`\n"
    summary = f"<b>{row.id}</b>: {escape(off or set_to(row.constants))}; {row.violates} fails"
    return details(summary, " ".join(remarks) + "\n", fence(steps(row)), walk)


FOUND: dict[str, tuple[tuple[Step, ...], int | None]] = {}  # by id of the row


def found_in(row: Row) -> tuple[tuple[Step, ...], int | None]:
    """Return the trace; and if it is a lasso, the step to which its end returns."""
    if row.id not in FOUND:
        FOUND[row.id] = search(row)
    return FOUND[row.id]


def search(row: Row) -> tuple[tuple[Step, ...], int | None]:
    model = model_of(row)
    if row.eventually:
        lasso = eventually(model, [row.eventually])[row.eventually]
        return lasso.stem + lasso.cycle, len(lasso.stem) - 1
    return explore(model).trace, None


def steps(row: Row) -> str:
    model, (trace, loop) = model_of(row), found_in(row)
    actions = {(p.name, name): action for p in model.processes for name, action in p.actions.items()}
    body = []
    for number, (before, after) in enumerate(pairwise(trace), 1):
        process, action, choices = after.label
        first, *others = in_lines(changes(model, before, after))
        body.append((str(number), process or "the store", f"{action} {told(actions[process, action], choices)}".strip(), first))
        body += [("", "", "", line) for line in others]
        if number == loop:
            body.append(("", "", "then forever:", ""))
    if loop == 0:
        body.insert(0, ("", "", "forever:", ""))
    if loop == len(trace) - 1:
        body[-1] = ("", "", "then nothing, forever", "")
    widths = [max(map(len, column)) for column in zip(*body)]
    text = "\n".join("  ".join((cells[0].rjust(widths[0]), *map(str.ljust, cells[1:], widths[1:]))).rstrip() for cells in body)
    return text + "\n\n" + verdict(model, row.violates, trace[-1])


def in_lines(changes: list[str]) -> list[str]:
    lines = [""]
    for change in changes:
        if lines[-1] and len(lines[-1]) + 2 + len(change) > NARROW:
            lines.append("")
        lines[-1] += "; " * bool(lines[-1]) + change
    return lines


def verdict(model: Model, violated: str, last: Step) -> str:
    role, holds = (model.always.get(violated) or model.eventually[violated])
    if violated in model.eventually:
        return f"{violated} is never reached: {doc(holds)}"
    arguments = [(last.state.shared,)] if role is None else [
        (last.state.shared, local) for p, local in zip(model.processes, last.state.locals) if p.role == role]
    broken = next(of for of in arguments if not holds(model.constants, *of))
    why = refusal(holds, model.constants, *broken)
    operands = "".join(f"\n  {operand}" for operand in why.operands)
    return f"{violated} fails: {doc(holds)}\n{why.guard} is required, but{operands}"


def changes(model: Model, before: Step, after: Step) -> list[str]:
    """List the changes of a step in the shared state; if there are none, those in its process, apart from the pc."""
    shared = changed(model, before.state.shared, after.state.shared)
    return shared or [change for p, old, new in zip(model.processes, before.state.locals, after.state.locals)
                      for change in changed(model, old, new, local=True)]


def changed(model: Model, old: Any, new: Any, local: bool = False) -> list[str]:
    written = {} if local else as_spec_of(model.name)
    return [change for field in differing(old, new) if field != "pc" or not local
            for change in apart(field, *(written.get(field, lambda value: value)(getattr(of, field)) for of in (old, new)))]


def apart(field: str, old: Any, new: Any) -> list[str]:
    if isinstance(old, dict):
        gone = [f"{field}[{show(key)}] gone" for key in old if key not in new]
        return gone + [f"{field}[{show(key)}] = {show(value)}" for key, value in new.items() if old.get(key) != value]
    if isinstance(old, frozenset) and old and new:
        ordered = [sorted(map(show, those), key=lambda text: (len(text), text)) for those in (old - new, new - old)]
        return [f"{field} {sign} {', '.join(those)}" for sign, those in zip("−+", ordered) if those]
    return [f"{field} {show(old)} → {show(new)}"]
