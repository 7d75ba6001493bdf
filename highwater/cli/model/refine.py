"""highwater model refine: check that every step of a model is one of an abstract model, or leaves the mapped state as it is."""

from types import ModuleType
from typing import Annotated, Any

import typer
from rich.markup import escape

from highwater import project
from highwater.cli.console import announce_names, console, refuse
from highwater.cli.instances import Name, Settings, instance, of_user
from highwater.cli.model.explore import constants_of, search
from highwater.cli.model.refine_unbounded import check_covered, inherits
from highwater.gate.exits import INCOMPLETE, REFINEMENT
from highwater.gate.refinements import first_failure, mapped_onto, names_of
from highwater.messages import meant
from highwater.model.core import Bounds, Model, Step
from highwater.model.refine import Failure, Mapped, Refinement, Unmapped, differences, refining, shown
from highwater.reports.steps import spelt


def refine_command(
    name: Name, settings: Settings = None,
    onto: Annotated[list[str] | None, typer.Option(
        metavar="MODEL", help="the abstract model, or a part of a composition; without it, all that it refines")] = None,
    max_states: Annotated[int | None, typer.Option(min=1)] = None,
    walks: Annotated[int | None, typer.Option(min=1, help="instead, take so many random walks: for large instances")] = None,
    steps: Annotated[int, typer.Option(min=1, help="of one walk")] = 1_000,
    seed: Annotated[int, typer.Option(min=0, help="with --walks: the same seed gives the same walks")] = 0,
    unbounded: Annotated[bool, typer.Option("--unbounded", help=(
        "instead, prove it with Z3 for any number of clients, ids and requests in flight"))] = False,
) -> None:
    """Check that a model refines an abstract model, or each of its parts. Exits with 0 only if every step from every reachable
    state refines."""
    if walks is not None and max_states is not None:
        refuse("--max-states is for a search: leave it out, or leave out --walks")
    if unbounded and (walks or max_states):
        refuse("--unbounded is for every instance: leave it out, or leave out --walks and --max-states")
    model = instance(name, settings)
    mapping = mapping_of(name, onto or [])
    announce_names([name])
    if unbounded:
        raise typer.Exit(inherits(name, mapping, model.constants))
    try:
        with of_user(mapping):
            mapped = mapped_of(name, model, mapping, tuple(onto or names_of(mapping)))
            found, what = walked(mapped, walks, steps, seed) if walks else searched(mapped, max_states)
    except Unmapped as error:
        refuse(f"the module {mapping.__name__}: {error}")
    instances = [model, *(of.refinement.onto for of in mapped)]
    console.print("\n".join((*(f"{each.name}: {constants_of(each)}" for each in instances), what)), markup=False)
    if found.violated:
        of, wrong = first_failure(mapped, found)
        console.print(told(model, of.refinement.onto, found.trace, wrong))
        raise typer.Exit(REFINEMENT)
    stopped = not walks and found.stopped
    for of in mapped:
        explain(of, "taken " if walks or stopped else "")
    if stopped:
        console.print(f"[bold yellow]NOT complete[/]: stopped at {stopped}; steps from further states were not checked")
        raise typer.Exit(INCOMPLETE)


def explain(mapped: Mapped, taken: str) -> None:
    """Print what a mapping says of the steps that were checked. Exits if it says nothing."""
    there = mapped.refinement.onto
    actions = ", ".join(sorted(".".join(filter(None, each)) for each in mapped.taken))
    if not actions:
        console.print(f"[bold red]every step leaves the mapped state as it is[/]: the mapping says nothing of {there.name}")
        raise typer.Exit(REFINEMENT)
    console.print(f"[green]ok[/]: every step {taken}is a step of {there.name}, or leaves the mapped state as it is; actions of "
                  f"{there.name}: {actions}")


def mapping_of(name: str, onto: list[str]) -> ModuleType:
    """Return the module of a protocol's mapping. Refuses a protocol without one, and an abstract model that is not its own."""
    if not project.has("refinement", name):
        refuse(f"{name} refines no abstract model: {project.file_of('refinement', name)} would hold the mapping"
               if project.has("model", name) else f"{name} is no protocol, so it has no mapping onto an abstract model")
    mapping = project.load("refinement", name)
    if isinstance(mapping.ONTO, str) and len(set(onto)) > 1:
        refuse(f"--onto is given {len(onto)} times: a protocol refines one model, {name} refines {mapping.ONTO}")
    if not isinstance(mapping.ONTO, str) and not (hasattr(mapping, "has_clients") and hasattr(mapping, "broken")):
        refuse(f"the module {mapping.__name__}: ONTO is {mapping.ONTO!r}; write one name, a protocol refines one model, or "
               "define has_clients and broken, as a composition does")
    unknown = [each for each in onto if each not in names_of(mapping)]
    if unknown:
        refuse(f"there is no mapping of {name} onto {unknown[0]}{meant(unknown[0], names_of(mapping))}: it refines "
               f"{', '.join(names_of(mapping))}")
    return mapping


def mapped_of(name: str, model: Model, mapping: ModuleType, onto: tuple[str, ...]) -> list[Mapped]:
    """Refuses constants that the mapping does not cover. Raises Unmapped if the mapping does not fit the models."""
    check_covered(name, mapping, model.constants)
    if isinstance(mapping.ONTO, str):
        refinement: Any = mapping.refinement(model.constants)
        if not isinstance(refinement, Refinement):
            refuse(f"the module {mapping.__name__}: refinement({model.constants}) returns {refinement!r}, not a "
                   "highwater.model.refine.Refinement")
        return [Mapped(model, refinement)]
    found = mapped_onto(mapping, model, onto)
    if not found:
        refuse(f"no client of this instance takes a step of {', '.join(onto)}: set more clients, or leave out --onto")
    return found


def searched(mapped: list[Mapped], max_states: int | None) -> tuple[Any, str]:
    with console.status("exploring") as status:
        found = search(refining(*mapped), "auto", "breadth", False, Bounds(max_states),
                       lambda states, depth: status.update(f"exploring: {states:,} states, depth {depth}"))
    return found, f"{found.states:,} states, {found.transitions:,} steps"


def walked(mapped: list[Mapped], walks: int, steps: int, seed: int) -> tuple[Any, str]:
    from highwater.model.explore.walk import walk

    found = walk(refining(*mapped), seed, walks, steps)
    return found, f"{found.walks:,} random walks of seed {seed}, {found.steps:,} steps, the longest walk {found.longest}"


def told(model: Model, onto: Model, trace: tuple[Step, ...], wrong: Failure) -> str:
    """Format the path to a step that does not refine, and the step: both states, the action, and what the abstract model says.
    """
    path = ", ".join(spelt(step) for step in trace[1:]) or "none"
    lines = [f"[bold red]{escape(wrong.process)}{'.' * bool(wrong.process)}{wrong.action} is no step of {onto.name}[/]",
             f"  after: {path}"]
    for name, before, after in ((model.name, wrong.before, wrong.after), (onto.name, wrong.mapped, wrong.mapped_after)):
        lines.append(f"  in {name}:")
        lines += [escape(f"    {field}: {shown(old)} → {shown(new)}") for field, old, new in differences(
            (before.shared, *before.locals), (after.shared, *after.locals))]
    lines += [escape(f"  {why}") for why in wrong.why]
    return "\n".join(lines)
