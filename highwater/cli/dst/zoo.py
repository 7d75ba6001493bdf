"""highwater dst zoo and exhaust: measure how soon each strategy finds each mutant, and run all runs of a tiny scope."""

import csv
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from math import inf, isinf
from multiprocessing import get_context
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.progress import track
from rich.table import Table

from highwater.cli.console import (
    STEM,
    Protocol,
    Scenario,
    announce,
    build_of,
    console,
    refuse,
    scenario_of,
    terminal_width,
    write_text,
)
from highwater.dst.run_spec import protocol_words
from highwater.dst.scenarios import mutants_of, named
from highwater.dst.search.hunt import NAMES, STRIDE, Estimate, First, first_failure, quantile, share
from highwater.dst.zoo import CATALOGUE, expected, ids_of
from highwater.dst.zoo import build_of as built
from highwater.gate.exits import INCOMPLETE, of_kinds
from highwater.messages import meant, mistakes

GATE = 150  # runs: the default portfolio's median for each mutant, judged by the model
Cell = tuple[str, str]  # mutant, strategy


class Task(NamedTuple):
    mutant: str
    strategy: str
    campaign: int
    cap: int
    by_model: bool
    scenario: str = STEM


class Line(NamedTuple):
    """The results of one strategy's campaigns against one mutant. inf: beyond the cap."""

    mutant: str
    strategy: str
    found: int
    campaigns: int
    median: Estimate  # runs
    p90: Estimate
    mean: float  # of runs, each at most the cap
    cpu_median: Estimate  # seconds
    cpu_p90: Estimate
    signatures: Counter
    unexpected: tuple[str, ...]  # signatures of another oracle than the mutant's


# --- running


def work(task: Task) -> First:
    mutant, strategy, campaign, cap, by_model, scenario = task
    with mistakes():  # an exception of another process has no traceback
        return first_failure(strategy, campaign, cap, built(mutant, scenario), by_model, time.process_time, scenario)


def run(tasks: list[Task], jobs: int) -> Iterator[First]:
    """Run the tasks in `jobs` processes and yield their results in order. The results do not depend on `jobs`."""
    if jobs == 1:
        yield from map(work, tasks)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(work, tasks)


def line(mutant: str, strategy: str, firsts: list[First], by_model: bool, scenario: str = STEM) -> Line:
    runs = [float(first.runs) if first.signature else inf for first in firsts]
    cpu = [first.cpu_s if first.signature else inf for first in firsts]
    signatures = Counter(first.signature for first in firsts if first.signature)
    return Line(mutant, strategy, sum(signatures.values()), len(firsts), quantile(runs, 0.5), quantile(runs, 0.9),
                sum(first.runs for first in firsts) / len(firsts), quantile(cpu, 0.5), quantile(cpu, 0.9), signatures,
                tuple(sorted(s for s in signatures if not s.startswith(expected(mutant, by_model, scenario)))))


def judged(lines: Iterable[Line], by_model: bool, scenario: str = STEM) -> list[str]:
    """List the faults: unexpected oracles; for the portfolio judged by the model, also mutants that survived a campaign or
    took too long."""
    wrong = []
    for of in lines:
        if of.unexpected:
            wrong.append(f"{of.mutant}: {of.strategy} found it as {', '.join(of.unexpected)}; expected: "
                         f"{' or '.join(expected(of.mutant, by_model, scenario)) or 'nothing'}")
        if by_model and of.strategy == "portfolio" and of.found < of.campaigns:
            wrong.append(f"{of.mutant}: survived {of.campaigns - of.found} of {of.campaigns} campaigns")
        elif by_model and of.strategy == "portfolio" and of.median.value > GATE:
            wrong.append(f"{of.mutant}: a median of {of.median.value:,.0f} runs, more than {GATE}")
    return wrong


# --- printing


def number(value: float, digits: int = 0) -> str:
    return "> cap" if isinf(value) else f"{value:,.{digits}f}" if digits or value % 1 else f"{value:,.0f}"


def estimated(of: Estimate, digits: int = 0) -> str:
    """Format an estimate with its interval."""
    return f"{number(of.value, digits)} ({number(of.low, digits)}–{'…' if isinf(of.high) else number(of.high, digits)})"


def halves(of: Estimate) -> str:
    return estimated(of, 1 if of.value % 1 and not isinf(of.value) else 0)


def as_table(lines: list[Line], scenario: str = STEM) -> Table:
    table = Table("", "mutant", "strategy", "found", "median runs", "P90 runs", "mean, capped", "median CPU-s", "P90 CPU-s",
                  "as")
    before = ""
    for of in lines:
        if of.mutant != before and len({of.strategy for of in lines}) > 1:
            table.add_section()
        name = (ids_of(scenario, of.mutant), of.mutant) if of.mutant != before else ("", "")
        table.add_row(*name, of.strategy, f"{of.found}/{of.campaigns}",
                      halves(of.median), halves(of.p90), f"{of.mean:,.1f}", estimated(of.cpu_median, 2),
                      estimated(of.cpu_p90, 2), ", ".join(f"{s} {n}" for s, n in of.signatures.most_common()))
        before = of.mutant
    return table


def write_csv(path: Path, results: dict[Cell, list[First]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("mutant", "strategy", "campaign", "first_seed", "runs", "signature", "cpu_s"))
        for (mutant, strategy), firsts in results.items():
            for campaign, first in enumerate(firsts):
                writer.writerow((mutant, strategy, campaign, campaign * STRIDE, *first[:2], f"{first.cpu_s:.6f}"))


# --- docs/simulation/zoo.md: parts between markers. `measured` depends on the machine, the others on the code alone


def catalogue() -> str:
    rows = [f"| {z} | {what} | {waits if isinstance(waits, str) else ''} | "
            f"{'' if isinstance(waits, str) else ', '.join(waits)} |" for z, (what, waits) in CATALOGUE.items()]
    return "\n".join(["| | bug | missing model | mutants |", "|---|---|---|---|", *rows]) + "\n"


def oracles() -> str:
    rows = [f"| {name} | {ids_of(STEM, name)} | {what} | {', '.join(f'`{p}`' for p in expected(name, True))} | "
            f"{', '.join(f'`{p}`' for p in expected(name, False)) or 'none known'} |"
            for name, (what, _) in mutants_of(STEM).builds.items()]
    head = "| mutant | | what it does wrong | found by the model as | by harm as |"
    return "\n".join([head, "|---|---|---|---|---|", *rows]) + "\n"


def runs_part(lines: list[Line], cap: int) -> str:
    """Make the table of runs: a row for each mutant, a column for each strategy, with median, interval and P90."""
    strategies, mutants = list(dict.fromkeys(of.strategy for of in lines)), list(dict.fromkeys(of.mutant for of in lines))
    cells = {(of.mutant, of.strategy): ("" if of.found == of.campaigns else f"{of.found}/{of.campaigns}: ") +
             f"{halves(of.median)}; {number(of.p90.value)}" for of in lines}
    rows = [f"| {name} | {' | '.join(cells.get((name, strategy), '') for strategy in strategies)} |" for name in mutants]
    return "\n".join([f"{lines[0].campaigns} campaigns of at most {cap:,} runs for each cell: median (95 % interval); P90.", "",
                      f"| mutant | {' | '.join(strategies)} |", "|---" * (len(strategies) + 1) + "|", *rows]) + "\n"


def measured_part(lines: list[Line]) -> str:
    rows = [f"| {of.mutant} | {of.strategy} | {estimated(of.cpu_median, 2)} | {number(of.cpu_p90.value, 2)} |" for of in lines]
    return "\n".join(["| mutant | strategy | median CPU-s (95 % interval) | P90 |", "|---|---|---|---|", *rows]) + "\n"


def with_parts(text: str, parts: dict[str, str]) -> str:
    for name, content in parts.items():
        opening, found, rest = text.partition(f"<!-- generated: {name} -->\n")
        if not found:
            raise ValueError(f"there is no part {name!r}")
        text = opening + found + content + "<!-- end -->" + rest.partition("<!-- end -->")[2]
    return text


def parts_of(lines: list[Line], cap: int, by_model: bool) -> dict[str, str]:
    by = "by_model" if by_model else "by_harm"
    return {"catalogue": catalogue(), "oracles": oracles(), by: runs_part(lines, cap), f"measured_{by}": measured_part(lines)}


# --- the verbs


def zoo_command(
        strategy: Annotated[str, typer.Option(help="all, or several, separated by commas")] = "portfolio",
        campaigns: Annotated[int, typer.Option(min=1, help="independent campaigns for each mutant and strategy")] = 30,
        cap: Annotated[int, typer.Option(min=1, max=STRIDE, help="maximum runs of a campaign")] = 10_000,
        harm: Annotated[bool, typer.Option("--harm", help="judge by the callers' history only, not by the model")] = False,
        mutant: Annotated[list[str] | None, typer.Option(help="only this mutant; may be repeated [default: all; with "
                                                              "--harm, those whose harm is known]")] = None,
        jobs: Annotated[int, typer.Option(min=1, help="processes")] = 2,
        protocol: Protocol = None, scenario: Scenario = None,
        out: Annotated[Path | None, typer.Option("--csv", help="write a row for each campaign")] = None,
        page: Annotated[Path | None, typer.Option(help="write the tables into this page, a zoo.md")] = None) -> None:
    """Run every mutant until it fails, in many campaigns, and report how soon each strategy finds it, and as what."""
    strategies = NAMES if strategy == "all" else tuple(strategy.split(","))
    unknown = [name for name in strategies if name not in NAMES]
    if unknown:
        refuse(f"there is no strategy {unknown[0]!r}{meant(unknown[0], NAMES)}; choose all or some of {', '.join(NAMES)}")
    stem = scenario_of(protocol, scenario)
    for name in mutant or ():
        build_of(name, stem)
    mutants = mutant or [name for name in mutants_of(stem).builds if not harm or expected(name, False, stem)]
    if page and stem != STEM:
        refuse(f"--page holds the tables of {STEM}: leave it out for another protocol")
    announce(stem, at_once=True)
    if out:
        write_text(out, "")  # refuses now, not in an hour
    text = read_page(page) if page else ""
    tasks = [Task(name, of, campaign, cap, not harm, stem)
             for name in mutants for of in strategies for campaign in range(campaigns)]
    results: dict[Cell, list[First]] = {}
    for task, first in zip(tasks, track(run(tasks, jobs), "campaigns", total=len(tasks), console=console, transient=True)):
        results.setdefault(task[:2], []).append(first)
    lines = [line(*cell, firsts, not harm, stem) for cell, firsts in results.items()]
    console.print(as_table(lines, stem))
    console.print("In brackets: 95 % intervals; …: too few campaigns for a bound. A mutant found in "
                  f"{campaigns}/{campaigns} is found in at least {share(campaigns, campaigns)[0]:.0%} of all such campaigns, "
                  "with the same confidence.")
    if out:
        write_csv(out, results)
    if page:
        write_text(page, with_parts(text, parts_of(lines, cap, not harm)))
    wrong = judged(lines, not harm, stem)
    for words in wrong:
        console.print(f"[bold red]wrong[/] {words}", soft_wrap=True)
    raise typer.Exit(of_kinds(["harness"] if wrong else []))


def read_page(path: Path) -> str:
    parts = ("catalogue", "oracles", "by_model", "by_harm", "measured_by_model", "measured_by_harm")
    try:
        text = path.read_text()
        with_parts(text, dict.fromkeys(parts, ""))
    except (OSError, ValueError) as error:
        refuse(f"{path} cannot hold these tables: {error}")
    return text


def exhaust_command(
        delays: Annotated[int, typer.Option(min=0, help="maximum in a run")] = 2,
        faults: Annotated[int, typer.Option(min=0, help="maximum in a run")] = 0,
        of: Annotated[str, typer.Option(help="kinds of faults, separated by commas")] = "reply_lost,late,crash",
        mutant: Annotated[str | None, typer.Option(help="a known-bad implementation of dst/mutants/ in place of impl/")] = None,
        sizes: Annotated[list[str] | None, typer.Option("--set", help="NAME=NUMBER of the scope: writers=2; may be repeated"
                                                        )] = None,
        most: Annotated[int, typer.Option(min=1, help="maximum number of runs")] = 1_000_000,
        harm: Annotated[bool, typer.Option("--harm", help="judge by the callers' history only")] = False,
        protocol: Protocol = None, scenario: Scenario = None,
        every: Annotated[bool, typer.Option("--every", help="continue after a failure and count all")] = False) -> None:
    """Run every run of a tiny scope with at most these delays and faults. No failure then means that none of them fails."""
    from highwater.dst.search.exhaust import Bounds, search
    from highwater.dst.world.faults import FATES
    from highwater.traces.explain.explain import explain

    kinds = tuple(of.split(","))
    for kind in kinds:
        if kind not in FATES[1:]:
            refuse(f"there is no fault {kind!r}{meant(kind, FATES[1:])}; choose from {', '.join(FATES[1:])}")
    stem = scenario_of(protocol, scenario)
    bounds, shape = Bounds(delays, faults, kinds), named(stem).tiny
    for setting in sizes or ():
        name, _, value = setting.partition("=")
        fields = shape._asdict()
        limits = {name: range(0, 1001) for name, like in fields.items() if isinstance(like, int)}
        limits |= LIMITS | {name: range(0, most + 1) for name, most in named(stem).most.items() if name not in LIMITS}
        if name not in fields or name not in limits or not value.isdecimal() or int(value) not in limits[name]:
            refuse(f"{setting!r}: write NAME=NUMBER, with one of " + ", ".join(
                f"{name} {limit[0]} to {limit[-1]}" for name, limit in limits.items() if name in fields))
        shape = shape._replace(**{name: type(getattr(shape, name))(int(value))})
    build = build_of(mutant, stem)
    announce(stem)
    with console.status("") as status:
        found = search(bounds, shape, build, not harm, most, not every, lambda runs: runs % 500 or
                       status.update(f"{runs:,} runs"), stem)
    scope = ", ".join(f"{name} {value}" for name, value in shape._asdict().items() if value)
    console.print(f"{scope}; at most {delays} delays and {faults} faults" + (f" ({', '.join(kinds)})" if faults else ""))
    console.print(f"{found.runs:,} runs, {found.traces:,} different traces, {found.failed:,} failed: " + (
        "all runs of the scope" if found.complete else "not all runs of the scope"))
    for signature, (run_number, outcome) in found.failures.items():
        console.print(f"[bold red]{outcome.kind}[/] ({signature}), first in run {run_number:,}")
        if not every and outcome.failure:
            again = f"highwater dst exhaust {protocol_words(stem)} --delays {delays} --faults {faults} --of {of}" + (
                f" --mutant {mutant}" if mutant else "") + "".join(f" --set {s}" for s in sizes or ()) + " --harm" * harm
            console.print(explain(outcome.events, outcome.failure, named(stem).judge(shape), again,
                                  width=terminal_width()), markup=False)
    kinds_failed = [outcome.kind for _, outcome in found.failures.values()]
    raise typer.Exit(of_kinds(kinds_failed) if kinds_failed or found.complete else INCOMPLETE)


LIMITS = {"writers": range(1, 4), "commits": range(0, 4), "collectors": range(0, 3), "rounds": range(0, 4),
          "readers": range(0, 2), "reads": range(0, 4), "page_size": range(1, 1001), "manifest": range(0, 2),
          "min_age_ms": range(1, 1001)}
