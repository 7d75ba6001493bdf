"""List the checks of `highwater verify` for one protocol: its specs, proof, refinement, simulation, mutants, and the checks of
highwater/gate/protocols/.

Safety: a module that cannot be imported is a failed row of its protocol. The checks that need no such module are listed all the
same, and so are those of other protocols.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from highwater import pages, project
from highwater.gate import damage, mutants, mutation, proofs, refinements, simulation, specs
from highwater.gate.exits import INCOMPLETE
from highwater.gate.rows import Check, failed, said
from highwater.gate.sizes import Size

USED = (  # each may import those before it
    "model", "impl", "mapping", "scenario", "mutants", "proof", "refinement", "inheritance", "checks", "recorded", "damage",
    "judge")

SPEC_FILE = "spec.fizz"
OPTIONAL = {  # part that a user's protocol may lack -> what no check shows without it, and the topic of the page about it
    "proof": ("that a safety property holds for any number of clients", "proof"),
    "refinement": ("that the model refines a more abstract one", "project"),
    "inheritance": ("that a refinement holds for any number of clients", "project"),
    "recorded": ("compares the log of a real client's requests with the model", "strangers"),
    "damage": ("shows that damaged traces are noticed", "trace-damage"),
    "judge": ("lets FizzBee judge simulated runs", "project"),
    "checks": ("is of the project's own making", "project"),
    SPEC_FILE: ("compares the model with a second description", "project"),
}


def of_protocol(protocol: str, size: Size, has_scenario: bool) -> Iterator[Check]:
    """Yield all checks of a protocol."""
    broken = unusable(protocol)
    yield from those_of(protocol, broken)
    simulated = has_scenario and "scenario" not in broken
    groups = {  # part that the checks need -> the checks
        "model": specs.checks(protocol, size.deep),
        "checks": own_checks(protocol, size.deep),
        "proof": proofs.checks(protocol, size.deep),
        "refinement": refinements.checks(protocol, size.deep),
        "inheritance": refinements.unbounded_checks(protocol),
        "scenario": (*simulation.checks(protocol, size), *damage.checks(protocol), *mutation.checks(protocol, size.deep))
        if simulated else (),
        "mutants": mutants.checks(protocol, size) if simulated else (),
    }
    for part, checks in groups.items():
        if part not in broken:
            yield from listed(protocol, part, checks)
    yield from missing(protocol, broken)


def own_checks(protocol: str, deep: bool) -> Iterator[Check]:
    """Yield the checks that a protocol has of its own, and those of `verify-deep` if it has some."""
    if project.has("checks", protocol):
        of = project.load("checks", protocol)
        yield from of.checks()
        if deep and hasattr(of, "deep_checks"):
            yield from of.deep_checks()


def unusable(protocol: str) -> dict[str, Exception]:
    """Import the modules of a protocol. Return the parts that cannot be used, and the reasons."""
    from highwater.dst.scenarios import mutants_of, named

    loads = {part: partial(project.load, part) for part in USED} | {"scenario": named, "mutants": mutants_of}
    found: dict[str, Exception] = {}
    for part, load in loads.items():
        try:
            if project.has(part, protocol):
                load(protocol)
        except Exception as error:  # a module may raise anything
            found[part] = error
    return found


def those_of(protocol: str, broken: dict[str, Exception]) -> Iterator[Check]:
    """Yield a check that fails for each part that cannot be used, but once for parts that fail in the same line of code."""
    reported = set()
    for part, error in broken.items():
        where = project.raised(error.__cause__ or error)
        if where not in reported:
            reported.add(where)
            yield Check(protocol, part, f"{part}.py can be used", said, tuple(failed(error)[:3]))


def listed(protocol: str, part: str, checks: Iterable[Check]) -> Iterator[Check]:
    """Yield checks, and one that fails if they cannot be listed to the end."""
    try:
        yield from checks
    except Exception as error:  # of a user's module, which may lack a name or lists its own checks
        yield Check(protocol, part, "its checks can be listed", said, tuple(failed(error)[:3]))


def absent_parts(protocols: Iterable[str]) -> Iterator[str]:
    """Yield a line for each check that users' protocols lack because a part is not there: the protocols, and how to add it."""
    mine = [protocol for protocol in protocols if project.is_users(protocol)]
    for part, (what, where) in OPTIONAL.items():
        if lacking := [protocol for protocol in mine if not has_part(part, protocol)]:
            file = part if "." in part else f"{part}.py"
            yield f"no {file} ({', '.join(lacking)}), so no check {what}. To add it: {pages.named(where)}"


def has_part(part: str, protocol: str) -> bool:
    return project.spec(protocol, ".fizz").is_file() if part == SPEC_FILE else project.has(part, protocol)


def missing(protocol: str, broken: dict[str, Exception]) -> Iterator[Check]:
    """Yield a check that cannot run for each part that a user's protocol lacks, so that the gate is incomplete."""
    from highwater.dst.scenarios import named

    if not project.is_users(protocol):
        return
    judged = project.has("scenario", protocol) and "scenario" not in broken
    of_another = judged and named(protocol).model  # its model is another protocol's
    parts = ("scenario", "mutants") if of_another else ("model", "scenario", "mutants")
    for part in (part for part in parts if not project.has(part, protocol)):
        lacks = f"{project.file_of(part, protocol)} is missing: it is for {project.PARTS[part].verbs}"
        yield Check(protocol, part, f"there is no {part}.py", said, ("", INCOMPLETE, lacks))
