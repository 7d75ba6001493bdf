"""highwater model explore, walk and step: visit every state of an instance, take random walks, or walk by hand."""

import os
from math import inf
from pathlib import Path
from shlex import quote
from time import monotonic
from types import ModuleType
from typing import Annotated, Literal

import typer
from rich.markup import escape

from highwater import project
from highwater.cli.console import announce_names, console, refuse, write_text
from highwater.cli.instances import Name, Settings, instance, made, module_of, of_user
from highwater.cli.on_spark import Conf, Master, session_options
from highwater.gate.exits import INCOMPLETE, LIVENESS, SAFETY
from highwater.messages import meant
from highwater.model.core import Bounds, Exploration, Model, State, Step, broken, init, moves, peak_bytes, without_client
from highwater.model.explore import auto, plain
from highwater.model.explore.reductions import NotSymmetric, NotUnseen, merged, merging_differs, small_enough
from highwater.model.explore.tabulated import explore
from highwater.model.guards import why_not
from highwater.model.liveness import Lasso, space
from highwater.model.liveness import eventually as judged
from highwater.reports.steps import doc_of, shown, spelt, told, told_lasso, told_steps

MOST_PARTITIONS = 10_000
SMALL = 50_000  # states: up to so many, merging is checked


def search(model: Model, engine: str, order: str, symmetry: bool, bounds: Bounds, progress=None) -> Exploration:
    """Explore with the chosen engine. Raises TooWide if the wide engine is chosen and a state does not fit it."""
    if order == "depth":
        return explore(model, progress=progress, symmetry=symmetry, bounds=bounds, depth_first=True)
    if engine == "plain":
        return plain.explore(model, progress=progress, symmetry=symmetry, bounds=bounds)
    if engine == "auto":
        return auto.explore(model, bounds, progress, symmetry)
    if engine == "wide":
        from highwater.model.explore import wide
        return wide.explore(model, progress=progress, symmetry=symmetry, bounds=bounds)
    return explore(model, progress=progress, symmetry=symmetry, bounds=bounds)


def explore_command(
    name: Name, settings: Settings = None,
    engine: Annotated[Literal["auto", "plain", "tabulated", "wide"], typer.Option(
        help="plain: the reference; tabulated: Python alone; wide: numpy; auto: tabulated, wide if it is large")] = "auto",
    order: Annotated[Literal["breadth", "depth"], typer.Option(help="breadth finds a shortest counterexample")] = "breadth",
    symmetry: Annotated[bool, typer.Option("--symmetry", help="one state for all that differ only in client names")] = False,
    merge: Annotated[bool, typer.Option("--merge", help="take invisible actions in one step with the action before")] = False,
    max_states: Annotated[int | None, typer.Option(min=1)] = None,
    max_depth: Annotated[int | None, typer.Option(min=0)] = None,
    max_memory_mb: Annotated[int | None, typer.Option(min=1, help="limit of this process")] = None,
    eventually: Annotated[list[str] | None, typer.Option(
        metavar="NAME", help="then check this `eventually` property under weak fairness; may be repeated")] = None,
    out: Annotated[Path | None, typer.Option(
        metavar="DIR", help="keep states in files in this folder; the same command resumes a stopped exploration")] = None,
    spark: Annotated[bool, typer.Option("--spark", help="keep states in files and explore with Spark's workers")] = False,
    master: Master = "",
    conf: Conf = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="with --out or --spark [default: one per processor]")] = None,
    partitions: Annotated[int | None, typer.Option(min=1, max=MOST_PARTITIONS, help="of the state files [default: 8]")] = None,
    brief: Annotated[bool, typer.Option("--brief", help="print only the number of states, and the actions of a "
                                                        "counterexample")] = False,
    html: Annotated[Path | None, typer.Option(help="write an HTML page to walk the states and the counterexample")] = None,
    html_states: Annotated[int, typer.Option(min=1, help="maximum number of states in the page")] = 20_000,
) -> None:
    """Visit every state of an instance, or print a shortest counterexample. Exits with 0 only if every state was visited."""
    whole, protocol = instance(name, settings), module_of(name)
    model = merged(whole) if merge else whole
    bounds = Bounds(max_states, max_depth, max_memory_mb and max_memory_mb * 1_000_000)
    if order == "depth" and engine in ("plain", "wide"):
        refuse(f"--order depth needs the tabulated engine; leave out --engine {engine}")
    if unknown := [name for name in eventually or () if name not in model.eventually]:
        refuse(f"{model.name} has no eventually property {unknown[0]!r}{meant(unknown[0], model.eventually)}; it has "
               f"{', '.join(model.eventually) or 'none'}")
    if symmetry and not model.renamed:
        refuse(f"{model.name} declares no interchangeable clients for these constants; leave out --symmetry")
    if merge and not any(whole.unseen.values()):
        refuse(f"{model.name} declares no invisible actions; leave out --merge")
    if symmetry and engine == "plain":
        refuse("the plain engine does not check that clients are interchangeable; leave out --engine plain or --symmetry")
    on_disk = spark or out is not None
    refuse_mixed({"--engine": engine != "auto", "--order depth": order == "depth", "--symmetry": symmetry,
                  "--eventually": bool(eventually), "--max-memory-mb": max_memory_mb is not None} if on_disk else {},
                 {"--master": bool(master), "--conf": bool(conf)} if not spark else {},
                 {"--jobs": jobs is not None, "--partitions": partitions is not None} if not on_disk else {})
    announce_names([name])
    if not brief:
        console.print(f"{model.name}: {constants_of(model)}", markup=False)
    with of_user(protocol):
        try:
            if merge:
                console.print(check_merging(whole, protocol), markup=False)
            with console.status("exploring") as status:
                def progress(states: int, depth: int) -> None:
                    status.update(f"exploring: {states:,} states, depth {depth}, {peak_bytes() / 1e6:,.0f} MB")
                if on_disk:
                    from highwater.cli.model.explore_disk import search_on_disk
                    what = {"model": name, **model.constants._asdict(), "merge": merge}
                    processes = jobs or os.cpu_count() or 1
                    of_spark = session_options(f"model explore {name}", spark, processes, master, conf)
                    found = search_on_disk(model, {k: str(v) for k, v in what.items()}, out, of_spark, processes, partitions,
                                           bounds, progress)
                else:
                    found = search(model, engine, order, symmetry, bounds, progress)
        except (NotSymmetric, NotUnseen) as error:
            console.print(escape(str(error)), style="red")
            raise typer.Exit(SAFETY) from None
    unseen = {(r, a) for r in whole.unseen for a in whole.unseen[r]} if merge else set()
    console.print("\n".join(told_counts(model, found) + (notes(model, found, unseen) if not brief else [])))
    trace, violated, loop, unjudged = found.trace, found.violated, None, False
    if violated:
        console.print(told(whole, violated, trace, brief))
    lasso = None
    if eventually and found.complete:
        with of_user(protocol):
            lasso, unjudged = judge(whole, eventually, bounds)
    elif eventually:
        why = f"{escape(violated)} fails" if violated else f"the search stopped at {found.stopped}"
        console.print(f"[bold yellow]NOT judged[/]: {escape(', '.join(eventually))}, because {why}")
    if lasso:
        trace, violated, loop = lasso.stem + lasso.cycle, lasso.violated, len(lasso.stem) - 1
        console.print(told_lasso(whole, lasso, brief))
    if html:
        from highwater.reports.page import page
        with project.elsewhere():
            said = " ".join(("highwater model explore", *project.words(), name, *(f"--set {quote(s)}" for s in settings or ()),
                             f"--html {quote(str(html))}"))
        with of_user(protocol):
            write_text(html, page(whole, trace, violated, loop=loop, command=said, max_states=html_states,
                                  more=f"{said} --html-states {10 * html_states}"))
        console.print(f"wrote {html}", markup=False)
    if violated:
        raise typer.Exit(LIVENESS if lasso else SAFETY)
    if found.stopped or unjudged:
        raise typer.Exit(INCOMPLETE)


def refuse_mixed(in_memory: dict[str, bool], of_spark: dict[str, bool], of_disk: dict[str, bool]) -> None:
    """Refuse options that have no effect on this kind of search."""
    for options, why in ((in_memory, "is for a search in memory: leave it out, or leave out --out and --spark"),
                         (of_spark, "is for Spark: add --spark"), (of_disk, "is for a search on disk: add --out or --spark")):
        for option, given in options.items():
            if given:
                refuse(f"{option} {why}")


def constants_of(model: Model) -> str:
    return ", ".join(f"{k}={v}" for k, v in model.constants._asdict().items())


def check_merging(whole: Model, protocol: ModuleType) -> str:
    """Check that merging loses nothing, on this instance if it is small, else on the default one; say which. Raises NotUnseen
    if something is lost, or if neither instance is small."""
    usual = protocol.Constants()
    with console.status("checking that merging loses nothing"):
        for constants in dict.fromkeys((whole.constants, usual)):
            checked = whole if constants == whole.constants else made(protocol, constants)
            if small_enough(checked, SMALL):
                if differs := merging_differs(checked):
                    raise NotUnseen(f"{whole.name}: merging changes the result, with {constants_of(checked)}: {differs}")
                here = "this instance" if checked is whole else f"a smaller instance, {constants_of(checked)}"
                return f"checked on {here}: merging loses nothing"
    raise NotUnseen(f"{whole.name}: cannot check that merging loses nothing: this instance and the default one "
                    f"({constants_of(made(protocol, usual))}) have more than {SMALL:,} states; leave out --merge")


class Stopped(Exception):
    """The whole graph exceeds a bound of the command line."""


def judge(model: Model, names: list[str], bounds: Bounds) -> tuple[Lasso | None, bool]:
    """Return the lasso of the first property that fails, or None; and whether a bound stopped the check. Print each property
    that holds. The graph is built whole and unreduced, also after a reduced search."""
    def watch(states: int, _: int = 0) -> None:
        if stopped := bounds._replace(depth=None, states=bounds.states and bounds.states + 1).reached(states, 0):
            raise Stopped(stopped if bounds.states is None or states <= bounds.states else f"{bounds.states:,} states")

    with console.status("looking for fair cycles"):
        try:
            space_ = space(model, watch)
            watch(len(space_.states))
        except Stopped as stopped:
            console.print(f"[bold yellow]NOT judged[/]: {escape(', '.join(names))}, because the whole graph is "
                          f"needed and stopped at {stopped}")
            return None, True
        for name in names:
            if lasso := judged(model, [name], space_)[name]:
                return lasso, False
            console.print(f"{name} holds along every weakly fair run: {doc_of(model, name)}", markup=False)
    return None, False


def told_counts(model: Model, found: Exploration) -> list[str]:
    degree = found.transitions / found.states
    lines = [f"{found.states:,} states, {found.transitions:,} transitions, depth {found.depth}, out-degree {degree:.2f} "
             f"(at most {found.widest}; {found.ends:,} states without a move), {peak_bytes() / 1e6:,.0f} MB at the peak"]
    if found.stopped:
        lines.append(f"[bold yellow]NOT complete[/]: stopped at {found.stopped}; states beyond it were not visited")
    return lines


def notes(model: Model, found: Exploration, unseen: set[tuple[str, str]]) -> list[str]:
    """Name what the search did not reach or check. `unseen`: actions that are not expected, as a reduction merges them."""
    lines: list[str] = []
    if found.never:
        lines.append(f"never witnessed: {escape(', '.join(found.never))}")
    if unchecked := [f"{name} ({role})" for name, role in without_client(model).items() if name not in model.sometimes]:
        lines.append(f"not checked, because no client has the role: {escape(', '.join(unchecked))}")
    if idle := [action for action in found.idle(model) if action not in unseen]:
        names = ", ".join(f"{role}.{action}".lstrip(".") for role, action in idle)
        lines.append(f"{'never fired' if found.complete else 'not fired so far'}: {escape(names)}")
    return lines


def walk_command(
    name: Name, settings: Settings = None,
    seed: Annotated[int, typer.Option(min=0, help="the same seed gives the same walks")] = 0,
    walks: Annotated[int, typer.Option(min=1)] = 10_000, steps: Annotated[int, typer.Option(min=1, help="of one walk")] = 1_000,
    budget_s: Annotated[float | None, typer.Option(min=0, help="stop after this many seconds, with exit code 3")] = None,
) -> None:
    """Take random walks until one violates a property. Exits with 0 only if all walks were taken; even that proves nothing."""
    from highwater.model.explore.walk import walk

    model, end = instance(name, settings), inf if budget_s is None else monotonic() + budget_s
    announce_names([name])
    with of_user(module_of(name)), console.status("walking") as status:
        found = walk(model, seed, walks, steps, lambda taken, far: status.update(f"walking: {taken:,} steps, {far} deep"),
                     lambda: monotonic() >= end)
    console.print(f"{found.walks:,} walks, {found.steps:,} steps, the longest {found.longest}"
                  + (f"; never witnessed: {', '.join(found.never)}" if found.never else ""), markup=False)
    if found.violated:
        console.print(f"walk {found.walk} of seed {seed}:")
        console.print(told(model, found.violated, found.trace))
        raise typer.Exit(SAFETY)
    if found.walks < walks:
        console.print(f"[bold yellow]NOT complete[/]: {found.walks:,} of {walks:,} walks were taken in {budget_s:g} s")
    console.print("No walk violated a property. That proves nothing: another walk may violate one.")
    if found.walks < walks:
        raise typer.Exit(INCOMPLETE)


def step_command(
    name: Name, settings: Settings = None,
    take: Annotated[str, typer.Option(help="moves to take first, by number: 0,2,1")] = "",
) -> None:
    """Walk by hand, through an instance of any size: the moves of a state are computed when you reach it."""
    model = instance(name, settings)
    trace = [Step(("", "Init", ()), init(model))]
    announce_names([name])
    with of_user(module_of(name)):
        for text in take.split(",") if take else ():
            forward(model, trace, text)
        by_hand(model, trace)


def by_hand(model: Model, trace: list[Step]) -> None:
    while True:
        enabled = show_state(model, trace)
        try:
            text = typer.prompt(f"0 to {len(enabled) - 1}, " * bool(enabled) + "w why not, b back, q quit")
        except typer.Abort:
            return
        if text == "q":
            return
        if text == "b":
            del trace[max(1, len(trace) - 1):]
        elif text == "w":
            console.print("\n".join(refusals(model, trace[-1].state)), markup=False)
        elif text.isdecimal() and int(text) < len(enabled):
            trace.append(enabled[int(text)])
        else:
            console.print(f"there is no move {text!r} here", markup=False)


def forward(model: Model, trace: list[Step], text: str) -> None:
    enabled = list(moves(model, trace[-1].state))
    if not text.strip().isdecimal() or int(text) >= len(enabled):
        refuse(f"--take: there is no move {text!r} after {len(trace) - 1} steps; choose from 0 to {len(enabled) - 1}")
    trace.append(enabled[int(text)])


def show_state(model: Model, trace: list[Step]) -> list[Step]:
    state, enabled = trace[-1].state, list(moves(model, trace[-1].state))
    console.print("\n".join(told_steps(model, tuple(trace), len(trace) - 1)))
    console.print(f"{'':3} {shown(state.shared)}", markup=False)
    for process, local in zip(model.processes, state.locals):
        console.print(f"    {process.name or 'the store'} {shown(local)}", markup=False)
    for violated in broken(model, state):
        console.print(f"    [bold red]{escape(violated)} fails here[/]")
    for number, step in enumerate(enabled):
        console.print(f"{number:3} {spelt(step)}")
    return enabled


def refusals(model: Model, state: State) -> list[str]:
    """Say for each disabled action why it is disabled."""
    return [f"    {process.name + '.' if process.name else ''}{name}: "
            f"{why_not(action, model.constants, process.index, state.shared, local)}"
            for process, local in zip(model.processes, state.locals) for name, action in process.actions.items()
            if not any(True for _ in action(model.constants, process.index, state.shared, local))]
