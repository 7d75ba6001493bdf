"""Say what a campaign found: the table fault x mutation, each failure with its timeline and the command that shows it again."""

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from highwater.clients.campaign import CLEAN, Result, fewest
from highwater.clients.faults import HOLD, Placed
from highwater.clients.findings import CODES
from highwater.clients.trial import HUNG
from highwater.gate.exits import INCOMPLETE
from highwater.gate.rows import Row
from highwater.traces.recorded.s3log import Request, read

BEFORE = 6  # requests before the first fault, in a timeline
MOST = 40  # requests of a timeline
NOT_REACHED = "not reached"


def exit_code(found: Sequence[Result]) -> int:
    """The class of the worst finding; 3 if nothing failed, but a fault was never reached."""
    worst = min((result.verdict for result in found if result.failed), key=[*CODES].index, default="")
    return CODES[worst] if worst else INCOMPLETE if any(result.verdict == NOT_REACHED for result in found) else 0


def table(found: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return the head and the rows: a column for each fault, a row for each mutation or request where one was placed."""
    single = {result.placed[0]: result for result in found if len(result.placed) == 1}
    faults = [*dict.fromkeys(one.fault for one in single)]
    places = [*dict.fromkeys((one.client, one.nth, one.fault == HOLD) for one in single)]
    rows = []
    for client, nth, held in places:
        of = {one.fault: result for one, result in single.items()
              if (one.client, one.nth, one.fault == HOLD) == (client, nth, held)}
        where = next((result.where[0] for result in of.values() if result.where), "")
        rows.append([f"{client}: {'request' if held else 'mutation'} {nth}, {where}".removesuffix(", "),
                     *[of[fault].verdict if fault in of else "" for fault in faults]])
    return ["at", *faults], rows


def counted(found: Sequence[Result]) -> str:
    return ", ".join(f"{many} {verdict}" for verdict, many in Counter(result.verdict for result in found).most_common())


def command(folder: Path, number: int) -> str:
    return shlex.join(["highwater", "client", "test", "--replay", f"{number}", "--out", str(folder)])


def failures(found: Sequence[Result]) -> list[list[Result]]:
    """Return the failures to tell: those of the same kinds at the same places are together, and the first is told."""
    alike: dict[tuple, list[Result]] = {}
    for result in fewest(found):
        places = [(one.client, one.nth, one.fault == HOLD) for one in result.placed]
        alike.setdefault((*sorted(result.kinds), *places), []).append(result)
    return list(alike.values())


def title(alike: Sequence[Result]) -> str:
    result, others = alike[0], ", ".join(f"{one.placed[0].fault} (run {one.number})" for one in alike[1:])
    kinds = ", ".join(dict.fromkeys(finding.kind for finding in result.findings)) or result.verdict
    return f"{number_of(result)}: {kinds}: {place_of(result.placed)}" + (f"; the same with {others}" if others else "")


def number_of(result: Result) -> str:
    return "clean run" if result.number == CLEAN else f"run {result.number}"


def story(result: Result, folder: Path) -> list[str]:
    """The lines that tell a failure: the findings, how the commands ended, and what they requested."""
    lines = [f"{finding.kind}: {finding.why}" for finding in result.findings]
    lines += [f"{name} ended with {'no end' if code == HUNG else f'exit code {code}'}" for name, code in result.ended.items()]
    try:
        with open(folder / "log.ndjson") as log:
            requests = read(log).requests
    except OSError:
        return lines
    named = {number for finding in result.findings for number in finding.requests}
    marked = [at for at, one in enumerate(requests) if one.rule or one.number in named]
    begin = max(min(marked, default=len(requests) - MOST) - BEFORE, 0)
    shown = requests[begin:begin + MOST]
    lines += [f"... {begin} requests before"] * bool(begin) + [line(one, shown[0]) for one in shown]
    return lines + [f"... {len(requests) - begin - len(shown)} requests after"] * (begin + len(shown) < len(requests))


def line(one: Request, first: Request) -> str:
    """A request of a timeline, its time in ms since the first of it."""
    condition = "".join(f" {name}: {value}" for name, value in one.conditions.items() if name.startswith("if-"))
    ms = (one.times_us[0] - first.times_us[0]) // 1000
    method = "LIST" if one.op == "list" else one.method
    server = f"server: {one.status}" if one.status else "server: no answer" if one.sent else "never sent"
    told = "" if one.told == one.status else f", {one.client} was told: {one.told or 'nothing'}"
    return f"{ms:>7} ms  {one.number:>4} {one.client}  {method} {one.key}{condition} -> {server}{told}" + (
        f"  [{one.rule}]" if one.rule else "")


def as_text(name: str, found: Sequence[Result], folder: Path) -> str:
    """The report in Markdown: it can be pasted into an issue."""
    head, rows = table(found)
    lines = [f"# {name}", "", f"{len(found)} runs: {counted(found)}.", "", "| " + " | ".join(head) + " |",
             "|---" * len(head) + "|", *("| " + " | ".join(row) + " |" for row in rows), ""]
    for alike in failures(found):
        lines += [f"## {title(alike)}", "", "    " + command(folder, alike[0].number), "",
                  *("    " + text for text in story(alike[0], folder / "runs" / f"{alike[0].number:05}")), ""]
    return "\n".join(lines)


def as_json(found: Sequence[Result], code: int) -> dict[str, Any]:
    return {"exit": code, "runs": [{**result._asdict(), "placed": [one._asdict() for one in result.placed],
                                    "findings": [one._asdict() for one in result.findings]} for result in found]}


def as_rows(found: Sequence[Result]) -> list[Row]:
    """A row of a report for each trial, as the gate has one for each check."""
    return [Row("client", place_of(result.placed), number_of(result), result.verdict, sum(result.seconds.values()),
                CODES[result.verdict] if result.failed else INCOMPLETE if result.verdict == NOT_REACHED else 0,
                "\n".join(f"{finding.kind}: {finding.why}" for finding in result.findings)) for result in found]


def place_of(placed: Sequence[Placed]) -> str:
    return "; ".join(map(str, placed)) or "without faults"
