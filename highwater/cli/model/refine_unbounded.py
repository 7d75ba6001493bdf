"""highwater model refine --unbounded: prove with Z3 that every step of every instance is one of an abstract model.

Safety: the exit code is 0 only if the concrete invariant, the abstract one and every step are proved, and if all texts of the
proof are the models'.
"""

from types import ModuleType
from typing import Any

from rich.markup import escape

from highwater import project
from highwater.cli.console import console, refuse
from highwater.cli.model.prove import SECONDS, TOLD, tied
from highwater.gate.exits import PROOF, REFINEMENT, worst


def check_covered(name: str, mapping: ModuleType, constants: Any) -> None:
    """Refuse constants that the mapping does not cover."""
    for constant, values in getattr(mapping, "COVERS", {}).items():
        if getattr(constants, constant) not in values:
            refuse(f"the mapping of {name} covers {constant}={' or '.join(map(str, values))} only; "
                   f"it is {getattr(constants, constant)}")


def inherits(name: str, mapping: ModuleType, constants: Any) -> int:
    """Prove each system of a protocol with the safeguards of `constants`, and return the exit code."""
    from highwater.model.proofs.engine.system import Misnamed

    check_covered(name, mapping, constants)
    for part, what in (("proof", "proof, so it has no invariant"), ("inheritance", "mapping for a proof")):
        if not project.has(part, name):
            refuse(f"{name} has no {what}: {project.file_of(part, name)} would hold it; without --unbounded its instances are "
                   "checked")
    of = project.load("inheritance", name)
    usual = type(constants)()._asdict()
    safeguards = {knob: value for knob, value in constants._asdict().items()
                  if knob in of.concrete.SAFEGUARDS and value != usual[knob]}
    try:
        codes = [0 if tied(of.concrete, safeguards) and mapping_is_the_models(of) else PROOF]
        codes += [proved(of, constants, note) for note in of.SYSTEMS]
    except Misnamed as error:
        console.print(f"[bold red]the mapping does not fit[/]: {escape(str(error))}")
        return REFINEMENT
    return worst(codes)


def mapping_is_the_models(of: ModuleType) -> bool:
    from highwater.model.proofs.engine.inherit import tie

    with console.status("comparing the mapping with the model's"):
        found = tie(of)
    said = "[bold red]are NOT[/]" if found.mismatches else "are"
    console.print(f"the mapping and the relation of {of.REFINEMENT.names[1]} {said} the models': {found.steps:,} steps, from "
                  f"{found.states:,} states")
    for mismatch in found.mismatches[:TOLD]:
        console.print(mismatch, markup=False)
    return not found.mismatches


def proved(of: ModuleType, constants: Any, note: str) -> int:
    """Prove one system. Print one line, and each step that does not refine."""
    from highwater.model.proofs.engine.inherit import inherit

    onto = of.REFINEMENT.names[1]
    with console.status("proving") as status:
        found = inherit(of, constants, of.SYSTEMS[note], lambda row: status.update(f"proving{note}: {row.action}"),
                        round(SECONDS * 1000))
    figures = f"{len(found.steps.rows):,} queries, {found.steps.ms:,.0f} ms"
    if found.holds:
        console.print(f"[green]proved[/]{note}: every step is one of {onto}, or leaves the mapped state as it is: {figures}; "
                      f"inherited: {', '.join(of.abstract.CLAIMS)}")
        return 0
    console.print(f"[bold red]NOT proved[/]{note}: {figures}")
    for whose, proof in zip(of.REFINEMENT.names, found):
        if not proof.holds:
            console.print(f"the invariant of {whose} is not proved, so nothing follows from the steps: "
                          f"{', '.join(dict.fromkeys(action for action, _ in proof.failing)) or proof.impossible}")
    if found.steps.impossible:
        console.print(f"nothing is proved of actions that never fire: {', '.join(found.steps.impossible)}")
    for row in {row.action: row for row in reversed(found.steps.rows) if row.verdict != "proved"}.values():
        console.print(row.counterexample or f"{row.action}: {row.clause}: {row.verdict}", markup=False)
    return REFINEMENT if found.steps.failing else PROOF
