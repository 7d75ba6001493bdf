"""Renders the output of the demo in README.md, and the tables of protocols, gates, exit codes and costs in docs/."""

import re
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from types import ModuleType

from bench.pages.protocol import DOCS, ROOT, page_data, reading_order, safeguards_of, stems
from highwater.cli.cost import HEAD, INPUTS, RUNS, contentions, inputs_of, rows_of
from highwater.cli.instances import module_of
from highwater.dst.cost import measure
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import STEMS, mutants_of, named
from highwater.dst.simulate import simulate
from highwater.gate.exits import MEANING
from highwater.gate.sizes import DEEP, GATE
from highwater.specs.runs import deeper, rows
from highwater.traces.explain.explain import explain


def protocols() -> str:
    """Render a row for each protocol, with figures from each layer."""
    lines = ["| protocol | runs of the spec | states compared with FizzBee: in `make verify`, and in all | properties | "
             "safeguards | proof, any number of clients | implementation | mutants |", "|---" * 8 + "|"]
    for stem in sorted(stems(), key=reading_order().index):
        runs, module = [row for row in rows() if row.stem == stem], module_of(stem)
        held, failed = ([row for row in runs if row.expect == verdict] for verdict in ("PASSED", "FAILED"))
        off = {setting for row in failed for setting in row.constants.items() if setting[0] in safeguards_of(module)}
        states, all_states = (sum(row.states for row in those if row.how == "graph") for those in (runs, map(deeper, runs)))
        systems = len(proofs.SYSTEMS) if (proofs := proofs_of(stem)) else 0
        proved = f"{systems} system{'s' * (systems > 1)}" if systems else ""
        lines.append(f"| [{stem}]({DOCS.name}/{stem}.md) | {len(held)} hold, {len(failed)} fail as they "
                     f"must | {states:,} / {all_states:,} | {len(module.ALWAYS)} | {len(off)} | {proved} | "
                     f"{implemented(stem)} | {len(mutants_of(stem).builds) if stem in STEMS else 0} |")
    return "\n".join(lines) + "\n"


def gates() -> str:
    """Render what each of the two gates runs."""
    larger = sum("states" in row.deep for row in rows())
    whole = sum("how" in row.deep for row in rows())
    followed = sum(row.how == "guided" for row in rows())
    figures = {
        "runs of the specs": [f"all {len(rows()):,}; in {followed} FizzBee only follows paths of the model",
                              f"all {len(rows()):,}, {larger} of them on a larger instance, and {whole} with the whole graph"],
        "proofs": ["all; large ones are compared with the model in its nearest states", "all, compared in all states"],
        "seeds of each scenario": [f"{size.seeds:,}" + (f", and {size.each_strategy:,} for each strategy" * bool(
            size.each_strategy)) for size in (GATE, DEEP)],
        "seeds compared with two hash seeds": [f"{size.compared:,}" for size in (GATE, DEEP)],
        "kills of each mutant": [f"{size.kills:,}" for size in (GATE, DEEP)],
        "runs of each protocol that FizzBee judges": [f"{size.judged:,}" for size in (GATE, DEEP)],
        "seeds on Spark": [f"{size.campaign:,}" for size in (GATE, DEEP)],
    }
    return "\n".join([f"| | `{GATE.name}` | `{DEEP.name}` |", "|---" * 3 + "|",
                      *(f"| {name} | {' | '.join(values)} |" for name, values in figures.items())]) + "\n"


def exit_codes() -> str:
    """Render every exit code of the commands, and its meaning."""
    return "\n".join([f"| {' | '.join(map(str, MEANING))} |", "|---" * len(MEANING) + "|",
                      f"| {' | '.join(MEANING.values())} |"]) + "\n"


def implemented(stem: str) -> str:
    """Link the implementation. A protocol that has none of its own, and a scenario, is the stores'."""
    places = [place for place in (page_data(stem).get("implementation", f"impl/protocols/{stem}.py"), f"impl/{stem}")
              if (ROOT / place).exists()]
    name = places[0] if places else ("impl/raft" if named(stem).nodes else "impl/stores") if stem in STEMS else ""
    return name and f"[{name}](../{name})"


def proofs_of(stem: str) -> ModuleType | None:
    return import_module(f"highwater.model.proofs.{stem}") if find_spec(f"highwater.model.proofs.{stem}") else None


def cost() -> str:
    """Render the table that `highwater cost` prints, from as many runs and the same inputs."""
    inputs = inputs_of(INPUTS)
    costs = [measure(*which, inputs.latencies, RUNS) for which in contentions()]
    return "".join([f"| {' | '.join(HEAD)} |\n", "|---" * len(HEAD) + "|\n",
                    *(f"| {' | '.join(row)} |\n" for row in rows_of(costs, inputs))])


def database() -> str:
    """Show the example that opens a database."""
    lines = (ROOT / "examples" / "database" / "visits.py").read_text().splitlines()
    return "".join(f"    {line}".rstrip() + "\n" for line in lines)


def demo() -> str:
    """Show what `highwater demo` prints of the run that it shrinks."""
    with TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-m", "highwater", "demo", "--out", folder], capture_output=True, text=True,
                              check=True)
    return f"```text\n{excerpt(done.stdout)}```\n"


def excerpt(output: str) -> str:
    """Cut out what was told falsely in the shrunk run, and its events. Raises ValueError if they are not in the output."""
    shrunk = output.partition("highwater dst shrink")[2]
    found = re.search(r"^(\S+ was told .*\n)(?:.*\n)*?(The last events.*\n(?:  .*\n)+)", shrunk, re.M)
    if not found:
        raise ValueError("the demo prints no shrunk run that ends with a false response")
    return f"{found[1]}\n{found[2]}"


def failure() -> str:
    """Explain the first failure of the mutant that a protocol's .toml names."""
    (stem, mutant), = ((stem, page_data(stem)["failure"]) for stem in stems() if "failure" in page_data(stem))
    outcome = next(outcome for seed in range(1000) if (outcome := simulate(Run(seed, stem, mutant))).kind)
    command = Run(outcome.seed, stem, mutant).command()
    text = explain(outcome.events, outcome.failure, named(stem).judge(outcome.shape), command)
    return f"    highwater dst run --seed {outcome.seed} --mutant {mutant}\n\n```text\n{text}```\n"
