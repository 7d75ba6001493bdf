"""The generated parts of README.md and docs/: `python -m bench.pages` writes them anew, `--check` tells if they are stale.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`. That of `min_age` takes minutes, and is written by
`python -m bench.pages min_age` alone.
"""

import re
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

from cli.conform import model_of
from cli.console import STEM, replay_command
from cli.dst import hunt
from dst.simulate import simulate
from dst.zoo import ZOO
from model import sequenced_metadata_boundary as protocol
from model.core import explore
from specs.manifest import rows

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = "reported_though_refused"


def protocols() -> str:
    held = [row for row in rows() if row.expect == "PASSED"]
    failed = [row for row in rows() if row.expect == "FAILED"]
    states = sum(row.states for row in rows() if row.how == "graph")
    return ("| protocol | properties | safeguards | runs of the spec | states compared with FizzBee | mutants |\n"
            "|---|---|---|---|---|---|\n"
            f"| [{STEM}](docs/{STEM}.md) | {len(protocol.ALWAYS)}, proved | {len(failed)} | {len(held)} hold, {len(failed)} "
            f"fail as they must | {states:,} | {len(ZOO)} |\n")


def failure() -> str:
    from dst.scenarios.sequenced_metadata_boundary import trace_of
    from traces.explain import explain

    build = ZOO[EXAMPLE][1]
    seed = next(seed for seed in range(1000) if simulate(seed, build).kind)
    outcome = simulate(seed, build)
    text = explain(outcome.events, outcome.failure, trace_of(outcome.shape), replay_command(seed, EXAMPLE))
    return f"    highwater dst run --seed {seed} --mutant {EXAMPLE}\n\n```text\n{text}```\n"


def properties() -> str:
    lines = ["| property | of | |", "|---|---|---|"]
    for name, (role, holds) in protocol.ALWAYS.items():
        lines.append(f"| {name} | {role or 'the store'} | {' '.join(holds.__doc__.split())} |")
    return "\n".join(lines) + "\n"


def safeguards() -> str:
    lines = ["| run | switched off | what fails | steps | instance |", "|---|---|---|---|---|"]
    default = protocol.Constants()
    knobs = default._fields[default._fields.index("BOUNDARY"):]
    for row in rows():
        if row.expect == "FAILED":
            off = ", ".join(f"{name} = {value}" for name, value in row.constants.items() if name in knobs)
            rest = ", ".join(f"{name} = {value}" for name, value in row.constants.items() if name not in knobs)
            found = explore(model_of(row))
            lines.append(f"| {row.id} | {off} | {found.violated} | {len(found.trace) - 1} | {rest or 'plain'} |")
    return "\n".join(lines) + "\n"


def mutants() -> str:
    lines = ["| mutant | what it does wrong | seeds, by the model | seeds, by harm |", "|---|---|---|---|"]
    for name, (what, build) in ZOO.items():
        by_model, _ = hunt(build, 9, 2_000)
        by_harm, _ = hunt(build, 9, 2_000, by_model=False) if name != "latest_deleted" else ([1], None)
        lines.append(f"| {name} | {what} | {wait(by_model)} | {wait(by_harm)} |")
    return "\n".join(lines) + "\n"


def wait(waits: list[int]) -> str:
    return f"{median(waits):.0f}" if waits else "none in 2,000"


def min_age() -> str:
    from bench.min_age import measure, plot, table

    counts = measure()
    plot(counts)
    return table(counts)


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "protocols": ("README.md", protocols),
    "failure": ("README.md", failure),
    "properties": (f"docs/{STEM}.md", properties),
    "safeguards": (f"docs/{STEM}.md", safeguards),
    "mutants": (f"docs/{STEM}.md", mutants),
    "min_age": ("docs/boundary-files.md", min_age),
}


def with_part(text: str, name: str, content: str) -> str:
    pattern = rf"(<!-- generated: {name} -->\n).*?(<!-- end -->)"
    replaced, count = re.subn(pattern, lambda match: match[1] + content + match[2], text, flags=re.S)
    if count != 1:
        raise ValueError(f"there is not one part {name!r}")
    return replaced


def main(arguments: list[str]) -> int:
    check = "--check" in arguments
    names = [a for a in arguments if not a.startswith("--")] or [name for name in PARTS if name != "min_age"]
    stale = []
    for name in names:
        path, render = ROOT / PARTS[name][0], PARTS[name][1]
        text = path.read_text()
        anew = with_part(text, name, render())
        if check and anew != text:
            stale.append(name)
        elif not check:
            path.write_text(anew)
    if stale:
        print(f"stale: {', '.join(stale)}; run `make docs`")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
