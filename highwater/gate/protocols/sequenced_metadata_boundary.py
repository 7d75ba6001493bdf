"""Define checks of `highwater verify` for the boundary protocol only: instances too large for FizzBee, liveness, and the
canary of the simulation.
"""

from collections.abc import Iterator
from typing import Any

from highwater.gate.exits import HARNESS, OF_KIND, PROOF, SAFETY
from highwater.gate.rows import Check, Found
from highwater.model.explore.tabulated import explore
from highwater.model.liveness import always_possible, eventually
from highwater.model.protocols.sequenced_metadata_boundary import Constants, model, stale_files_are_collected
from highwater.reports.steps import told, told_lasso

STEM = "sequenced_metadata_boundary"
CANARY = "no_check"  # must fail, by the model and by harm
CANARY_BUDGET = 2_000  # seeds

INSTANCES = {  # constants, and the witnesses that the instance is too small for
    "2 writers x 2, 2 collectors": ({"COLLECTORS": 2},),
    "2 writers x 2, 1 reader, ids to 4": ({"READERS": 1, "MAX_ID": 4},),
    "2 writers x 2, a request pending": ({"MAX_PENDING": 1},),
    "2 writers x 2, checkpoints, a crash": ({"CHECKPOINTS": 1, "MAX_CRASHES": 1},),
    "1 writer x 3, pages, 2 collectors, ids to 4": ({"WRITERS": 1, "COMMITS": 3, "PAGE": 1, "COLLECTORS": 2, "MAX_ID": 4},
                                                    "StaleCreateLands", "RefusalIsIndefinite"),
}


LIVE = {"UpdatesEnd": {"MAX_ID": 5}, "ReadsEnd": {"COMMITS": 1, "READERS": 2}}
BOUNDED: tuple[dict[str, Any], ...] = ({}, {"CHECK": "off"}, {"CONDITIONAL_ADVANCE": False, "COLLECTORS": 2, "WRITERS": 1})


def checks() -> Iterator[Check]:
    for what, (constants, *never) in INSTANCES.items():
        yield Check(STEM, "model", what, exploration, (constants, never), weight=20)
    yield Check(STEM, "model", "a refused file can always still be collected", collectable, weight=5)
    for name, constants in LIVE.items():
        yield Check(STEM, "model", f"{name}, if steps are weakly fair", live, (name, constants), weight=5)
    yield Check(STEM, "model", "reductions leave out nothing, on two instances", reductions, weight=5)
    yield Check(STEM, "proof", "unrolled, it breaks what the explorer says, and no sooner", unrolled, tools=("z3",), weight=20)
    yield Check(STEM, "simulation", "the canary fails, as it must", canary, weight=2)


def exploration(constants: dict, never: list[str]) -> Found:
    instance = model(Constants(**constants))
    found = explore(instance)
    if found.violated:
        return Found("", SAFETY, told(instance, found.violated, found.trace))
    if not found.complete or set(found.never) != set(never):
        return Found("", HARNESS, f"complete: {found.complete}; never witnessed: {found.never}, expected: {never}")
    return Found(f"{found.states:,} states, {found.transitions:,} transitions, depth {found.depth}")


def live(name: str, constants: dict) -> Found:
    instance = model(Constants(**constants))
    lasso = eventually(instance, [name])[name]
    if lasso:
        return Found("", OF_KIND["liveness"], told_lasso(instance, lasso))
    return Found(", ".join(f"{constant} = {value}" for constant, value in constants.items()))


def reductions() -> Found:
    from highwater.gate import boundary_peer
    from highwater.model.explore.reductions import merging_differs, symmetry_differs

    figures = []
    for instance in (model(Constants()), boundary_peer.model(boundary_peer.Constants())):
        if differs := symmetry_differs(instance) or merging_differs(instance):
            return Found("", HARNESS, f"{instance.name}: {differs}")
        figures.append(f"{explore(instance).states:,} to {explore(instance, symmetry=True).states:,} states")
    return Found(", ".join(figures))


def collectable() -> Found:
    stuck = always_possible(model(Constants(MAX_CRASHES=1)), stale_files_are_collected)
    if stuck is not None:
        return Found("", OF_KIND["liveness"], f"after {[step.label for step in stuck]} a stale file stays for ever")
    return Found("from every state of 2 writers x 2 with a crash")


def unrolled() -> Found:
    """Bounded model checking against exhaustive search: the same verdict, and shortest counterexamples as long."""
    from highwater.model.proofs import sequenced_metadata_boundary as proofs
    from highwater.model.proofs.engine.instances import bounded

    figures = []
    for settings in BOUNDED:
        constants = Constants(**settings)
        found = explore(model(constants))
        result = bounded(proofs, constants, found.depth)
        steps = min((one.depth for one in result.found if one.steps), default=None)
        said = {"explorer": len(found.trace) - 1 if found.violated else None, "unrolled": steps}
        if len(set(said.values())) > 1 or any(one.verdict not in ("none", "fails") for one in result.found):
            return Found("", PROOF, f"steps to a violation with {settings or 'every safeguard'}: {said}")
        figures.append(f"{steps} steps" if steps else f"none in {found.depth}")
    return Found(", ".join(figures))


def canary() -> Found:
    from highwater.dst.search.hunt import hunt
    from highwater.dst.zoo import build_of

    judged = {by: hunt(build_of(CANARY, STEM), 1, CANARY_BUDGET, by_model=by == "model") for by in ("model", "history")}
    silent = [by for by, (waits, _) in judged.items() if not waits]
    if silent:
        message = f"the mutant {CANARY} passed {CANARY_BUDGET} seeds judged by {silent}: the simulation finds nothing"
        return Found("", HARNESS, message)
    return Found(", ".join(f"by {by} after {waits[0]} seeds" for by, (waits, _) in judged.items()))
