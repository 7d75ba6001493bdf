"""Write the gate's rows for other programs: JSON, JUnit's XML, and a summary in Markdown."""

import json
from collections import Counter
from typing import NamedTuple
from xml.etree import ElementTree

from highwater.gate.exits import MEANING
from highwater.gate.rows import Row

VERDICTS = ("ok", "kept", "FAILED", "skipped")


class Ended(NamedTuple):
    """The gate at its end: the rows of the checks that have ended, and its exit code."""

    rows: list[Row]
    code: int
    seconds: float
    cut: str = ""  # why there are checks without a row, in one line; "": there are none


def counted(rows: list[Row]) -> str:
    """Count the rows by verdict, in words."""
    count = Counter(row.verdict for row in rows)
    return f"{count['ok'] + count['kept']} ok ({count['kept']} kept), {count['FAILED']} failed, {count['skipped']} skipped"


def as_json(ended: Ended) -> str:
    cut = {"cut": ended.cut} if ended.cut else {}
    rows = [{**row._asdict(), "verdict": row.verdict} for row in ended.rows]
    return json.dumps({"exit": ended.code, **cut, "rows": rows}, indent=1) + "\n"


def as_junit(ended: Ended) -> str:
    """Render a test suite for each protocol, and a test case for each row. A kept row is a passed test that took no time. If
    the gate was cut short, that is an error of a test case of its own."""
    rows, cut = ended.rows, ended.cut
    counts = {**numbers(rows), "tests": str(len(rows) + bool(cut)), "errors": str(int(bool(cut)))}
    top = ElementTree.Element("testsuites", {"name": "highwater verify", **counts, "time": f"{ended.seconds:.1f}"})
    if cut:
        suite = ElementTree.SubElement(top, "testsuite", {"name": "gate", "tests": "1", "failures": "0", "errors": "1"})
        case = ElementTree.SubElement(suite, "testcase", classname="gate", name="every check ends")
        ElementTree.SubElement(case, "error", type=f"exit {ended.code}", message=clean(cut))
    for protocol in dict.fromkeys(row.protocol for row in rows):
        own = [row for row in rows if row.protocol == protocol]
        time = f"{sum(map(taken, own)):.1f}"
        suite = ElementTree.SubElement(top, "testsuite", {"name": protocol, **numbers(own), "time": time})
        for row in own:
            case = ElementTree.SubElement(suite, "testcase", classname=f"{row.protocol}.{row.part}", name=row.what,
                                          time=f"{taken(row):.1f}")
            if row.verdict == "FAILED":
                of = ElementTree.SubElement(case, "failure", type=f"exit {row.code}", message=clean(first_line(row)))
                of.text = clean(row.message)
            elif row.verdict == "skipped":
                ElementTree.SubElement(case, "skipped", message=clean(first_line(row)))
            else:
                ElementTree.SubElement(case, "system-out").text = clean(f"{row.verdict}: {row.figures}")
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="unicode", xml_declaration=True) + "\n"


def taken(row: Row) -> float:
    return 0 if row.kept else row.seconds


def numbers(rows: list[Row]) -> dict[str, str]:
    count = Counter(row.verdict for row in rows)
    return {"tests": str(len(rows)), "failures": str(count["FAILED"]), "errors": "0", "skipped": str(count["skipped"])}


def first_line(row: Row) -> str:
    return (row.message.splitlines() or [MEANING[row.code]])[0]


def clean(text: str) -> str:
    """Leave out control characters, which XML cannot hold."""
    return "".join(c for c in text if c in "\t\n" or (c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff"))


def as_markdown(ended: Ended) -> str:
    """Render a summary: the verdict, the failures with their messages, and a row for each protocol."""
    rows, code = ended.rows, ended.code
    lines = [f"### highwater verify: {'passed' if code == 0 else f'exit {code}: {ended.cut or MEANING[code]}'}", "",
             f"{counted(rows)}, in {ended.seconds:.0f} s.", ""]
    for row in rows:
        if row.code:
            lines += [f"**{row.verdict}** {cell(f'{row.protocol}, {row.part}, {row.what}')} (exit {row.code}: "
                      f"{MEANING[row.code]})", "", *(f"    {line}" for line in row.message.splitlines()), ""]
    lines += ["| protocol | rows | ok | kept | failed | skipped | s |", "|---|" + "---:|" * 6]
    for protocol in dict.fromkeys(row.protocol for row in rows):
        own = [row for row in rows if row.protocol == protocol]
        count = Counter(row.verdict for row in own)
        lines.append(f"| {cell(protocol)} | {len(own)} | " + " | ".join(str(count[verdict]) for verdict in VERDICTS)
                     + f" | {sum(map(taken, own)):.1f} |")
    return "\n".join(lines) + "\n"


def as_table(rows: list[Row]) -> str:
    """Render a table with every row."""
    lines = ["", "| protocol | part | what | figure | s | verdict |", "|---|---|---|---|---:|---|"]
    for row in rows:
        texts = (row.protocol, row.part, row.what, row.figures)
        lines.append(f"| {' | '.join(map(cell, texts))} | {taken(row):.1f} | {row.verdict} |")
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
