"""The findings of `make strangers` and `make stores`, for docs/strangers-verdicts.md and docs/operating/store-probe.md. Nothing
is run."""

import json
import tomllib
from pathlib import Path
from typing import Any

SHELF = Path(__file__).parents[2] / "strangers"
MOST = 6  # findings of a release to show


def strangers() -> str:
    """Return a table of the releases, and for each one with findings what shows them."""
    found: dict[str, dict[str, Any]] = json.loads((SHELF / "verdicts.json").read_text())
    lines = ["| release | mutations | single faults | pairs | verdicts |", "|---|--:|--:|--:|---|"]
    lines += [f"| {title} | {sum(of['mutations'].values())} | {of['single']} | {of['pairs']} | {counted(of['verdicts'])} |"
              for title, of in found.items()]
    for title, of in found.items():
        if of["findings"]:
            lines += ["", f"## {title}", "", *told(title, of)]
    return "\n".join(lines) + "\n"


def counted(verdicts: dict[str, int]) -> str:
    return ", ".join(f"{many} {verdict}" for verdict, many in sorted(verdicts.items(), key=lambda one: -one[1]))


def told(title: str, of: dict[str, Any]) -> list[str]:
    """The findings of a release, and what its project documents of them."""
    documented = tomllib.loads((SHELF / title.split()[0] / "stranger.toml").read_text()).get("documented", "")
    lines = [f"    .venv/bin/python strangers/run.py '{title}'", "", "| finding | fault | request | alike | again |",
             "|---|---|---|--:|---|"]
    for one in of["findings"][:MOST]:
        kinds, faults, where = ", ".join(one["kinds"]), "; ".join(one["faults"]), "; ".join(map(code, one["where"]))
        lines.append(f"| {kinds} | {faults} | {where} | {one['alike']} | `--replay {one['run']}` |")
    if (more := len(of["findings"]) - MOST) > 0:
        lines.append(f"| {more} more | | | | |")
    return [*lines, "", f"The project documents: {documented}"] if documented else lines


def code(text: str) -> str:
    return f"`{text}`"


def stores() -> str:
    """Return a table of the servers: how each was started, and what the probe says of it."""
    found: dict[str, dict[str, Any]] = json.loads((SHELF / "stores/verdicts.json").read_text())
    lines = ["| server | started by | exit code | unsafe for | unsafe lines | not asked | profile |",
             "|---|---|--:|---|---|--:|---|"]
    for name, of in sorted(found.items(), key=lambda one: one[0].lower()):
        unsafe = [line for line, verdict in of["lines"].items() if verdict == "unsafe"]
        skipped = sum(verdict == "not asked" for verdict in of["lines"].values())
        lines.append(f"| {name} {of['version']} | {code(of['start'])} | {of['exit']} | {', '.join(of['unsafe']) or 'none'} | "
                     f"{', '.join(unsafe)} | {skipped} | {of['profile']} |")
    return "\n".join(lines) + "\n"
