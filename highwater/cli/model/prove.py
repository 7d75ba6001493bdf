"""highwater model prove: prove the safety properties of every instance, or with --bounded of the first steps of one.

Safety: the exit code is 0 only if every claim is proved for every action, and the proof's transition relation is the model's.
"""

from collections.abc import Iterable
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from highwater import messages, project
from highwater.cli.console import announce_names, console, refuse
from highwater.cli.instances import Name, Settings, constants_of, module_of, of_user
from highwater.gate.exits import PROOF, SAFETY, worst

SECONDS = 20.0  # limit of one query; a whole proof usually takes a few seconds
TOLD = 5  # printed differences between the relation and the model
NEAREST = 2_000  # states to compare per instance when a safeguard is off: there may be many


def prove_command(
    name: Name, settings: Settings = None,
    bounded: Annotated[int | None, typer.Option(min=0, metavar="K", help=(
        "instead, check that no path of up to K steps of the instance given by --set breaks a property"))] = None,
    timeout_s: Annotated[float, typer.Option("--timeout", metavar="SECONDS", help=(
        "limit of one query; a query that takes longer fails"))] = SECONDS,
    each: Annotated[bool, typer.Option("--each", help="print a row for each query, not for each claim")] = False,
) -> None:
    """Prove the safety properties for any number of clients, ids, checkpoints and requests in flight."""
    from highwater.model.proofs.engine.system import Misnamed

    module_of(name)  # refuses what is no protocol
    if not 0.001 <= timeout_s <= 3600:
        refuse(f"--timeout {timeout_s:g} is out of range: give 0.001 to 3600 seconds")
    proofs, timeout_ms = proofs_of(name), round(timeout_s * 1000)
    constants = constants_of(settings, proofs.m)  # of the model that is proved: for a composition, that of one part
    announce_names([name])
    try:
        with of_user(proofs.m):
            code = prove(proofs, constants, timeout_ms, each) if bounded is None else \
                unroll(proofs, constants, bounded, timeout_ms)
    except Misnamed as error:
        place = messages.place(error) or messages.place(error.__context__ or error)
        console.print(f"[bold red]the proof names something that the model does not have[/]: {escape(str(error))}"
                      + f" ({place})" * bool(place))
        code = PROOF
    raise typer.Exit(code)


def proofs_of(name: str) -> ModuleType:
    """Return the module of a protocol's proof. Refuses a protocol without one.

    The module defines SAFEGUARDS, SYSTEMS, INSTANCES, WALKED, WALKS, STEPS, prove, system, scope, and the model's module as m.
    They are used here and in model/proofs/engine/instances.py."""
    if not project.has("proof", name):
        refuse(f"there is no proof of {name}: {project.file_of('proof', name)} would hold it")
    return project.load("proof", name)


# --- every instance

def prove(proofs: ModuleType, constants: Any, timeout_ms: int, each: bool) -> int:
    """Prove with the safeguards of `constants` and return the exit code. Bounds among the constants have no effect."""
    usual = type(constants)()._asdict()
    unusual = {name: value for name, value in constants._asdict().items() if value != usual[name]}
    if bounds := [name for name in unusual if name not in proofs.SAFEGUARDS]:
        console.print(f"{', '.join(bounds)} has no effect: the proof covers every instance; add --bounded K for one instance")
    holds = tied(proofs, {name: value for name, value in unusual.items() if name in proofs.SAFEGUARDS})
    for note, system in proofs.SYSTEMS.items():
        with console.status("proving") as status:
            proof = proofs.prove(constants, lambda row, note=note: status.update(f"proving{note}: {row.action}"),
                                 timeout_ms=timeout_ms, **system)
        if each or not note or not proof.holds:
            console.print(table_of(proof, each, brief=bool(note)))
        slowest = max(proof.rows, key=lambda row: row.ms)
        console.print(f"{'proved' if proof.holds else '[bold red]NOT proved[/]'}{note}: {len(proof.rows):,} queries, "
                      f"{proof.ms:,.0f} ms; the slowest took {slowest.ms:,.0f} ms ({slowest.action}, {slowest.clause})"
                      + (f"; switched off: {', '.join(proof.disabled)}" if proof.disabled else ""))
        first: dict[str, Any] = {}
        for row in proof.rows:
            if row.verdict != "proved":
                first.setdefault(row.action, row)
        for row in first.values():
            console.print(f"[bold red]{escape(told(row, timeout_ms))}[/]")
            console.print(row.counterexample, markup=False)
        holds &= proof.holds
    if not holds:
        console.print("A counterexample to induction may be unreachable: look for a path with --bounded K or explore.")
    return 0 if holds else PROOF


def tied(proofs: ModuleType, safeguards: dict[str, Any]) -> bool:
    """Compare the relation with the model on instances with these safeguards. Print mismatches and clauses that fail in a
    reachable state. Return whether there are none."""
    from highwater.model.proofs.engine.instances import tie, walked

    nearest = NEAREST if safeguards else None
    with console.status("comparing the relation with the model"):
        ties = [(instance, tie(proofs, proofs.m.Constants(**{**instance, **safeguards}), nearest))
                for instance in proofs.INSTANCES]
        far = walked(proofs, proofs.m.Constants(**{**proofs.WALKED, **safeguards}))
    states, steps = sum(each.states for _, each in ties), sum(each.steps for _, each in ties)
    ties.append((proofs.WALKED, far))
    mismatches = list(dict.fromkeys(mismatch for _, each in ties for mismatch in each.mismatches))
    console.print(f"the relation {'[bold red]is NOT[/]' if mismatches else 'is'} the model's on the compared steps: "
                  f"{steps:,} steps, from {'the nearest ' * bool(safeguards)}{states:,} states of {len(ties) - 1} instances "
                  f"({bounds_of(proofs, proofs.INSTANCES)}), and {far.steps:,} on {proofs.WALKS} random walks "
                  f"({bounds_of(proofs, [proofs.WALKED])})")
    for mismatch in mismatches[:TOLD]:
        console.print(mismatch, markup=False)
    broken: dict[str, dict[str, Any]] = {}
    for instance, each in ties:
        if not instance.keys() & proofs.SAFEGUARDS:
            broken = {**{name: {**instance, **safeguards} for name in each.broken}, **broken}
    for name, instance in broken.items():
        where = ", ".join(f"{k}={v}" for k, v in instance.items())
        console.print(f"[bold red]{name} does not hold[/] in a reachable state" + (f" with {where}" if where else ""))
    return not mismatches and not broken


def bounds_of(proofs: ModuleType, instances: Iterable[dict[str, Any]]) -> str:
    """Describe the largest value of each size constant in these instances, such as "WRITERS <= 2"."""
    made = [proofs.m.Constants(**instance)._asdict() for instance in instances]
    return ", ".join(f"{name} <= {max(of[name] for of in made)}" for name in proofs.WALKED)


def table_of(proof: Any, each: bool, brief: bool) -> Table:
    """Make a row for each proved claim, and one for each action that fails a claim. `brief`: only the failures."""
    table = Table("claim", "action", "ms", "verdict")
    for of_properties in (True, False):
        rows = [row for row in proof.rows if (row.action == "Property") == of_properties]
        for clause in dict.fromkeys(row.clause for row in rows):
            of_clause = [row for row in rows if row.clause == clause]
            alone = [row for row in of_clause if each or row.verdict != "proved"]
            others = [row.action for row in of_clause if row not in alone]
            for row in alone:
                table.add_row(clause, row.action, f"{row.ms:.0f}", coloured(row.verdict))
            if others and not brief:
                where = "initially, " * ("Init" in others) + f"after each of {len(others) - ('Init' in others)} actions"
                table.add_row(clause, "whenever the invariant holds" if of_properties else where,
                              f"{sum(row.ms for row in of_clause if row.action in others):.0f}", "proved")
        table.add_section()
    for action in proof.impossible:
        why = {True: "it can be taken", False: "never possible: its guard contradicts the invariant", None: "unknown"}
        table.add_row("(the action is possible)", action, "", f"[bold red]{why[proof.possible[action]]}")
    return table


def coloured(verdict: str) -> str:
    return verdict if verdict in ("proved", "none") else f"[bold red]{verdict}[/]"


def told(row: Any, timeout_ms: int) -> str:
    where = {"Init": "the initial state does not satisfy", "Property": "the invariant does not imply"}
    if row.verdict == "fails":
        return f"{where.get(row.action, f'{row.action} does not keep')} {row.clause}"
    return f"{row.action}, {row.clause}: {row.verdict}, so it is not proved (with --timeout {timeout_ms / 1000:g})"


# --- one instance

def unroll(proofs: ModuleType, constants: Any, depth: int, timeout_ms: int) -> int:
    from highwater.model.proofs.engine.instances import bounded
    from highwater.model.proofs.engine.instances import told as told_in_words
    from highwater.model.proofs.engine.unrolled import TooLarge

    console.print(", ".join(f"{name}={value}" for name, value in constants._asdict().items()), markup=False)
    with console.status("unrolling") as status:
        try:
            result = bounded(proofs, constants, depth, lambda t: status.update(f"asking for a path of {t} steps"), timeout_ms)
        except TooLarge as error:
            refuse(str(error))
    table = Table("claim", "where", "ms", "counterexample")
    for found in result.found:
        where = f"after {found.depth} steps" if found.steps else f"on paths of up to {found.depth} steps" \
            if found.verdict == "none" else f"on paths of {found.depth + 1} steps"
        table.add_row(found.property, where, f"{found.ms:,.0f}", coloured(found.verdict))
    console.print(table)
    console.print(f"{result.moves} ways to take an action, {result.conditions} conditions a state, {result.ms:,.0f} ms"
                  + ("" if result.reached or not result.holds else "; no path is that long"))
    for steps, broken in sorted(grouped(result.found).items(), key=lambda path: len(path[0])):
        console.print(f"[bold red]{', '.join(broken)}[/]: a shortest counterexample, of {len(steps) - 1} steps")
        console.print(told_in_words(proofs, constants, steps), markup=False)
    codes = [{"none": 0, "fails": SAFETY}.get(found.verdict, PROOF) for found in result.found]
    return worst(codes)


def grouped(found: Iterable[Any]) -> dict[tuple, list[str]]:
    """Group the broken properties by the path that breaks them."""
    paths: dict[tuple, list[str]] = {}
    for each in found:
        if each.steps:
            paths.setdefault(each.steps, []).append(each.property)
    return paths
