"""The generated parts of README.md and docs/: `python -m bench.pages` writes them anew, `--check` tells if they are stale.

A part stands between `<!-- generated: NAME -->` and `<!-- end -->`; a protocol's parts are named STEM.NAME here. A diagram
is a whole file. The part `min_age` takes minutes, and is written by `python -m bench.pages min_age` alone.

Another protocol's page comes by an entry in PROTOCOLS and a docs/STEM.md with the markers in it.
"""

import re
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from types import ModuleType

from bench import page_branch, page_profiles, page_protocol, page_queries, page_safeguards
from bench.page_protocol import Instances
from bench.starvation import starvation
from highwater.cli.console import STEM
from highwater.cli.cost import HEAD, INPUTS, RUNS, contentions, inputs_of, rows_of
from highwater.cli.instances import module_of
from highwater.cli.trace import damaged
from highwater.dst.cost import measure
from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import STEMS, mutants_of
from highwater.dst.search.hunt import hunt
from highwater.dst.simulate import simulate
from highwater.gate.exits import MEANING
from highwater.specs.manifest import rows

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = "reported_though_refused"


def instances(stem: str, *constants: dict[str, int]) -> Instances:
    return Instances(stem, tuple(tuple(of.items()) for of in constants))


PROTOCOLS = (
    instances(
        "sequenced_metadata_boundary", {},
        {"WRITERS": 1, "READERS": 1, "COMMITS": 1, "CHECKPOINTS": 1, "PAGE": 1, "MAX_PENDING": 1, "MAX_LOST": 1,
         "MAX_CRASHES": 1},
        {"COMMITS": 1, "PAGE": 1, "MAX_PENDING": 1, "MAX_LOST": 1, "MAX_CRASHES": 1},
        {"WRITERS": 1, "READERS": 1, "COMMITS": 3, "MAX_ID": 4, "PAGE": 1},
        {"WRITERS": 1, "COLLECTORS": 2, "CHECKPOINTS": 1},
        {"COMMITS": 1, "ON_REFUSAL": "recognised", "MAX_LOST": 1}),
)


def protocols() -> str:
    """Every protocol, and what each layer has of it."""
    lines = ["| protocol | runs of the spec | states compared with FizzBee | properties | safeguards | proof, unbounded | "
             "implementation | seeds | mutants |", "|---" * 9 + "|"]
    for stem in sorted({row.stem for row in rows()}, key=place):
        runs, module = [row for row in rows() if row.stem == stem], module_of(stem)
        held, failed = ([row for row in runs if row.expect == verdict] for verdict in ("PASSED", "FAILED"))
        off = {setting for row in failed for setting in row.constants.items()
               if setting[0] in page_protocol.safeguards_of(module)}
        states = sum(row.states for row in runs if row.how == "graph")
        systems = len(proofs.SYSTEMS) if (proofs := proofs_of(stem)) else 0
        proved = f"{systems} system{'s' * (systems > 1)}" if systems else ""
        lines.append(f"| [{stem}](docs/{stem}.md) | {len(held)} hold, {len(failed)} fail as they must | {states:,} | "
                     f"{len(module.ALWAYS)} | {len(off)} | {proved} | {implemented(stem)} | "
                     f"{SEEDS if stem in STEMS else 0:,} | {len(mutants_of(stem).builds) if stem in STEMS else 0} |")
    return "\n".join(lines) + "\n"


def place(stem: str) -> tuple[int, str]:
    return ORDER.index(stem) if stem in ORDER else len(ORDER), stem


def exit_codes() -> str:
    """Every exit code of the commands, and what it means."""
    return "\n".join([f"| {' | '.join(map(str, MEANING))} |", "|---" * len(MEANING) + "|",
                      f"| {' | '.join(MEANING.values())} |"]) + "\n"


def implemented(stem: str) -> str:
    name = f"impl/protocols/{stem}.py" if (ROOT / f"impl/protocols/{stem}.py").exists() else "impl/stores"
    return f"[{name}]({name})"


def proofs_of(stem: str) -> ModuleType | None:
    return import_module(f"highwater.model.proofs.{stem}") if find_spec(f"highwater.model.proofs.{stem}") else None


def cost() -> str:
    """The table that `highwater cost` prints, of as many runs and with the same inputs."""
    inputs = inputs_of(INPUTS)
    costs = [measure(*which, inputs.latencies, RUNS) for which in contentions()]
    return "".join([f"| {' | '.join(HEAD)} |\n", "|---" * len(HEAD) + "|\n",
                    *(f"| {' | '.join(row)} |\n" for row in rows_of(costs, inputs))])


def failure() -> str:
    from highwater.dst.scenarios.sequenced_metadata_boundary import trace_of
    from highwater.traces.explain.explain import explain

    build = ZOO[EXAMPLE][1]
    seed = next(seed for seed in range(1000) if simulate(Run(seed), build).kind)
    outcome = simulate(Run(seed), build)
    text = explain(outcome.events, outcome.failure, trace_of(outcome.shape), Run(seed, mutant=EXAMPLE).command())
    return f"    highwater dst run --seed {seed} --mutant {EXAMPLE}\n\n```text\n{text}```\n"


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


ORDER = ("store_primitives", "baseline", "simple_conditional", "sequenced_write", "manifest_epochs", "wal_fencing", "log_gc",
         "manifest_compactions", "manifest_migration",
         "sequenced_metadata_boundary")  # as source 004 walks from one to the next
SEEDS = 10_000  # of each, in `make verify`
OF_A_PROTOCOL = (
    page_protocol.state, page_protocol.constants, page_protocol.instances, page_protocol.actions, page_protocol.properties,
    page_protocol.witnesses, page_protocol.liveness, page_safeguards.safeguards, page_safeguards.counterexamples)
PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "protocols": ("README.md", protocols),
    "exit_codes": ("README.md", exit_codes),
    "failure": ("README.md", failure),
    "cost": ("docs/cost.md", cost),
    "manifest_epochs.starvation": ("docs/manifest_epochs.md", starvation),
    **{f"{of.stem}.{part.__name__}": (f"docs/{of.stem}.md", partial(part, of)) for of in PROTOCOLS for part in OF_A_PROTOCOL},
    **{f"{of.stem}.{role.lower()}.svg": (f"docs/{of.stem}.{role.lower()}.svg", partial(page_protocol.diagram, of, role))
       for of in PROTOCOLS for role in page_protocol.drawn(of)},
    **{f"{of.stem}.branch.svg": (f"docs/{of.stem}.branch.svg", partial(page_branch.svg, of)) for of in page_branch.BRANCHED},
    f"{STEM}.mutants": (f"docs/{STEM}.md", mutants),
    "min_age": ("docs/boundary-files.md", min_age),
    "profiles": ("docs/store-profiles.md", page_profiles.profiles),
    "differences": ("docs/store-profiles.md", page_profiles.differences),
    "columns": ("docs/campaigns.md", page_queries.columns),
    "views": ("docs/campaign-queries.md", page_queries.views),
    "queries": ("docs/campaign-queries.md", page_queries.queries),
    "trace_damage": ("docs/trace-damage.md", damaged.page),
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
        text = path.read_text() if path.exists() else ""
        anew = render() if path.suffix == ".svg" else with_part(text, name.rpartition(".")[2], render())
        if check and anew != text:
            stale.append(name)
        elif not check:
            path.write_text(anew)
    if stale:
        print(f"stale: {', '.join(stale)}; run `make docs`")
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
