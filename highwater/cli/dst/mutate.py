"""highwater dst mutate: put small mistakes into an implementation, and see which the simulation and the tests notice."""

import json
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from highwater.cli.console import announce_names, console, known_scenario, refuse, steps_shown, write_text
from highwater.gate.exits import HARNESS
from highwater.gate.run import cores

LISTED_AT_MOST = 0.1  # of all mutants, as equivalent


def mutate_command(
        protocol: Annotated[str | None, typer.Option(help="only the file of this protocol's implementation")] = None,
        file: Annotated[list[Path] | None, typer.Option(help="only this file; may be repeated")] = None,
        since: Annotated[str | None, typer.Option(help="only lines that are not as in this commit")] = None,
        count: Annotated[int, typer.Option(min=1, help="about how many mutants to draw, in proportion to lines")] = 100,
        seed: Annotated[int, typer.Option(min=0, help="draws the mutants")] = 0,
        budget: Annotated[int, typer.Option(min=0, help="seeds to simulate of each mutant, over its scenarios: at least 40, or "
                                                  "0 to simulate none, with --tests")] = 2_000,
        by_tests: Annotated[bool, typer.Option("--tests", help="run the tests that execute the lines of a mutant that the "
                                               "simulation leaves. The first time all tests run, to record which those are")]
        = False,
        tests_in: Annotated[list[Path] | None, typer.Option(help="with --tests: only the tests of this file or folder; may be "
                                                            "repeated")] = None,
        jobs: Annotated[int | None, typer.Option(min=1, help="mutants to judge at a time [default: one for each core]")] = None,
        report: Annotated[Path | None, typer.Option("--json", help="write a line for each mutant here, as JSON")] = None,
        ) -> None:
    """Draw small mistakes in the code of an implementation, and look whether the simulation or a test notices each."""
    from highwater.dst.scenarios import scenarios_of, stems
    from highwater.mutate import wanted
    from highwater.mutate.by_tests import all_killed, recorded
    from highwater.mutate.draw import drawn
    from highwater.mutate.equivalent import listed, reason
    from highwater.mutate.judge import FEW, RECORDED, Verdict, judged, reached_by
    from highwater.specs.fizzbee.run import build_module

    folders = [str(path.resolve()) for path in tests_in or ()]
    if 0 < budget < FEW or not (budget or by_tests):
        refuse(f"--budget is at least {FEW}; or 0, with --tests")
    if folders and not by_tests:
        refuse("--tests-in says which tests --tests runs: give both")
    if missing := [path for path in folders if not Path(path).exists()]:
        refuse(f"{missing[0]} is no file or folder of tests")
    if protocol:
        known_scenario(protocol)
    if report:
        write_text(report, "")
    try:
        files, entries = wanted.files(protocol, file or ()), listed()
        changed = wanted.changed_since(since, list(files)) if since else None
        mutants = drawn(files, count, seed, None if changed is None else lambda mutant: wanted.is_within(mutant, changed))
    except (ValueError, SyntaxError) as error:
        refuse(str(error))
    if not mutants:
        refuse("there is nothing to mutate: " + (f"no line differs from {since}" if since else "no operator fits these files"))
    kept, root = build_module().cache() / "mutate", wanted.root()
    scenarios = scenarios_of(protocol) if protocol else stems()
    found: list[Verdict] = []
    announce_names((), scenarios, at_once=True)
    try:
        reached = {}
        if budget:
            with steps_shown("recording which lines run", len(scenarios)) as show:
                reached = reached_by(scenarios, RECORDED, files, root, kept, jobs or cores(), show)
        with steps_shown("judging mutants", len(mutants)) as show:
            for verdict in judged(mutants, reached, budget, jobs or cores(), show):
                found.append(verdict._replace(reason=reason(verdict.mutant, entries)))
                if budget:
                    console.print(line_of(found[-1]), markup=False)
        if by_tests:
            tests = recorded(root, list(files), kept, folders)
            left = [at for at, verdict in enumerate(found) if not verdict.killed]
            with steps_shown("running the tests of mutants", len(left)) as show:
                for at, failed in zip(left, all_killed(root, [found[at].mutant for at in left], tests, jobs or cores(), show)):
                    if failed:
                        by = "simulation in tests" if failed.simulates else "tests"
                        found[at] = found[at]._replace(killed=by, how=failed.test)
                    if failed or not budget:
                        console.print(line_of(found[at]), markup=False)
    except RuntimeError as error:
        console.print(f"[bold red]wrong[/] {error}")
        raise typer.Exit(HARNESS) from None
    finally:  # what is known so far, also after Ctrl-C
        if report:
            write_text(report, "".join(json.dumps(fields_of(verdict)) + "\n" for verdict in found))
    raise typer.Exit(HARNESS if summed_up(found, by_tests) else 0)


def line_of(verdict: Any) -> str:
    where = f"{verdict.where}, seed {verdict.seed}: " if verdict.seed >= 0 else ""
    if verdict.killed:
        said = f"killed by {verdict.killed}: {where}{verdict.how}"
    else:
        said = "survived" + (f", in {', '.join(verdict.reached)}" if verdict.reached else ": no scenario executes it")
    return f"{verdict.mutant.name}\n    {said}" + (f" (listed as equivalent: {verdict.reason})" if verdict.reason else "")


def fields_of(verdict: Any) -> dict[str, Any]:
    mutant = verdict.mutant
    return {"file": mutant.file, "line": mutant.first, "operator": mutant.operator, "before": mutant.before,
            "after": mutant.after, "killed": verdict.killed, "how": verdict.how, "scenario": verdict.where,
            "seed": verdict.seed, "reached": verdict.reached, "equivalent": verdict.reason}


def summed_up(found: list[Any], by_tests: bool) -> bool:
    """Print the rates. Return whether a mutant survived, or a listed one was killed, or too many are listed."""
    judged = [verdict for verdict in found if not verdict.reason]
    reached = [verdict for verdict in judged if verdict.reached]
    by = Counter(verdict.killed for verdict in judged)
    console.print(f"{len(found)} mutants, {len(found) - len(judged)} of them listed as equivalent")
    console.print(f"simulation: killed {by['simulation']} of {len(reached)} that a scenario executes"
                  f"{share(by['simulation'], len(reached))}, and {len(judged) - len(reached)} are executed by none")
    if by_tests:
        whole = len(judged) - by[""]
        console.print(f"tests: killed {by['tests']}, and {by['simulation in tests']} by simulating; "
                      f"together {whole} of {len(judged)}{share(whole, len(judged))}")
    wrong = [f"is listed as equivalent, but was killed: {v.mutant.name}" for v in found if v.reason and v.killed]
    if len(found) - len(judged) > max(1, LISTED_AT_MOST * len(found)):
        wrong.append(f"{len(found) - len(judged)} of {len(found)} mutants are listed as equivalent, more than 10 %")
    for words in wrong:
        console.print(f"[bold red]wrong[/] {words}", soft_wrap=True)
    return bool(wrong or by[""])


def share(part: int, whole: int) -> str:
    return f" ({part / whole:.0%})" if whole else ""
