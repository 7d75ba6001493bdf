"""List the checks of `highwater verify` for one protocol: its specs, proof, simulation, mutants, and the checks of
highwater/gate/protocols/.
"""

from collections.abc import Iterator

from highwater import project
from highwater.gate import mutants, proofs, simulation, specs
from highwater.gate.exits import INCOMPLETE
from highwater.gate.rows import Check, said
from highwater.gate.sizes import Size


def of_protocol(protocol: str, size: Size, has_scenario: bool) -> Iterator[Check]:
    """Yield all checks of a protocol."""
    yield from specs.checks(protocol, size.deep)
    yield from own_checks(protocol)
    yield from proofs.checks(protocol)
    if has_scenario:
        yield from simulation.checks(protocol, size)
        yield from mutants.checks(protocol, size)
    yield from missing(protocol)


def own_checks(protocol: str) -> Iterator[Check]:
    if project.has("checks", protocol):
        yield from project.load("checks", protocol).checks()


def missing(protocol: str) -> Iterator[Check]:
    """Yield a check that cannot run for each part that a user's protocol lacks, so that the gate is incomplete."""
    from highwater.dst.scenarios import named

    if not project.is_users(protocol):
        return
    of_another = project.has("scenario", protocol) and named(protocol).model  # its model is another protocol's
    parts = ("scenario", "mutants") if of_another else ("model", "scenario", "mutants")
    for part in (part for part in parts if not project.has(part, protocol)):
        lacks = f"{project.file_of(part, protocol)} is missing: it is for {project.PARTS[part].verbs}"
        yield Check(protocol, part, f"there is no {part}.py", said, ("", INCOMPLETE, lacks))
