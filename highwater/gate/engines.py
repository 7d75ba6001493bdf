"""What `highwater verify` checks beside every protocol's own: the engines and judges themselves, on the boundary protocol; and
larger instances of that than FizzBee can go through.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from highwater.dst.scenarios import DEFAULT
from highwater.gate.checks import CORES, Check, Found
from highwater.gate.exits import HARNESS, INCOMPLETE, NONDETERMINISM, OF_KIND, PROOF, SAFETY, SPEC, of_kinds

CANARY = "no_check"  # must fail, by the model and by what callers were told
CANARY_BUDGET = 2_000  # seeds
JUDGED = 4  # runs that FizzBee judges, too: some seconds each
IMPOSSIBLE = "delete_before_advance"  # a mutant that does what the spec cannot do

INSTANCES = {  # constants, and the witnesses that the instance is too small for
    "2 writers x 2, 2 collectors": ({"COLLECTORS": 2},),
    "2 writers x 2, 1 reader, ids to 4": ({"READERS": 1, "MAX_ID": 4},),
    "2 writers x 2, a request pending": ({"MAX_PENDING": 1},),
    "2 writers x 2, checkpoints, a crash": ({"CHECKPOINTS": 1, "MAX_CRASHES": 1},),
    "1 writer x 3, pages, 2 collectors, ids to 4": ({"WRITERS": 1, "COMMITS": 3, "PAGE": 1, "COLLECTORS": 2, "MAX_ID": 4},
                                                    "StaleCreateLands", "RefusalIsIndefinite"),
}


LIVE = {"UpdatesEnd": {"MAX_ID": 5}, "ReadsEnd": {"COMMITS": 1, "READERS": 2}}
BOUNDED = ({}, {"CHECK": "off"}, {"CONDITIONAL_ADVANCE": False, "COLLECTORS": 2, "WRITERS": 1})


def models() -> Iterator[Check]:
    for what, (constants, *never) in INSTANCES.items():
        yield Check(DEFAULT, "model", what, lambda constants=constants, never=tuple(never): exploration(constants, never))
    yield Check(DEFAULT, "model", "a refused file can always still be collected", collectable)
    for name, constants in LIVE.items():
        yield Check(DEFAULT, "model", f"{name}, if steps are weakly fair", lambda name=name, of=constants: live(name, of))
    yield Check(DEFAULT, "model", "reductions leave out nothing, on two instances", reductions)
    yield Check(DEFAULT, "model", "the wide engine visits what the plain one visits", engines)
    yield Check(DEFAULT, "proof", "unrolled, it breaks what the explorer says, and no sooner", unrolled)


def judges(seeds: int) -> Iterator[Check]:
    yield Check(DEFAULT, "simulation", "the canary fails, as it must", canary)
    yield Check(DEFAULT, "simulation", "FizzBee follows runs as we do, and not a mutant's", second_judge)
    yield Check(DEFAULT, "campaign", f"{seeds:,} seeds on Spark, the same rows as here", lambda: on_spark(seeds))


def exploration(constants: dict, never: tuple[str, ...]) -> Found:
    from highwater.cli.model.explore import told
    from highwater.model.explore.tabulated import explore
    from highwater.model.protocols.sequenced_metadata_boundary import Constants, model

    instance = model(Constants(**constants))
    found = explore(instance)
    if found.violated:
        return Found("", SAFETY, told(instance, found.violated, found.trace))
    if not found.complete or set(found.never) != set(never):
        return Found("", HARNESS, f"complete: {found.complete}; never witnessed: {found.never}, expected: {never}")
    return Found(f"{found.states:,} states, {found.transitions:,} transitions, depth {found.depth}")


def live(name: str, constants: dict) -> Found:
    from highwater.cli.model.explore import told_lasso
    from highwater.model.liveness import eventually
    from highwater.model.protocols.sequenced_metadata_boundary import Constants, model

    instance = model(Constants(**constants))
    lasso = eventually(instance, [name])[name]
    if lasso:
        return Found("", OF_KIND["liveness"], told_lasso(instance, lasso))
    return Found(", ".join(f"{constant} = {value}" for constant, value in constants.items()))


def reductions() -> Found:
    from highwater.gate import boundary_peer
    from highwater.model.explore.reductions import merging_differs, symmetry_differs
    from highwater.model.explore.tabulated import explore
    from highwater.model.protocols import sequenced_metadata_boundary as protocol

    figures = []
    for instance in (protocol.model(protocol.Constants()), boundary_peer.model(boundary_peer.Constants())):
        if differs := symmetry_differs(instance) or merging_differs(instance):
            return Found("", HARNESS, f"{instance.name}: {differs}")
        figures.append(f"{explore(instance).states:,} to {explore(instance, symmetry=True).states:,} states")
    return Found(", ".join(figures))


def engines() -> Found:
    from highwater.gate import boundary_peer
    from highwater.model.explore import plain, tabulated, wide

    instance = boundary_peer.model(boundary_peer.S1)
    found = {engine.__name__: engine.explore(instance) for engine in (plain, tabulated, wide)}
    if len(set(found.values())) > 1:
        return Found("", HARNESS, "\n".join(f"{name}: {result[:5]}" for name, result in found.items()))
    return Found(f"{found['highwater.model.explore.wide'].states:,} states of S1, three engines")


def collectable() -> Found:
    from highwater.model.liveness import always_possible
    from highwater.model.protocols.sequenced_metadata_boundary import Constants, model, stale_files_are_collected

    stuck = always_possible(model(Constants(MAX_CRASHES=1)), stale_files_are_collected)
    if stuck is not None:
        return Found("", OF_KIND["liveness"], f"after {[step.label for step in stuck]} a stale file stays for ever")
    return Found("from every state of 2 writers x 2 with a crash")


def unrolled() -> Found:
    """Bounded model checking against exhaustive search: the same verdict, and shortest counterexamples as long."""
    from highwater.model.explore.tabulated import explore
    from highwater.model.proofs import sequenced_metadata_boundary as proofs
    from highwater.model.proofs.engine.instances import bounded
    from highwater.model.protocols.sequenced_metadata_boundary import Constants, model

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
    from highwater.dst.mutants.sequenced_metadata_boundary import MUTANTS as ZOO
    from highwater.dst.search.hunt import hunt

    judged = {by: hunt(ZOO[CANARY][1], 1, CANARY_BUDGET, by_model=by == "model") for by in ("model", "history")}
    silent = [by for by, (waits, _) in judged.items() if not waits]
    if silent:
        message = f"the mutant {CANARY} passed {CANARY_BUDGET} seeds judged by {silent}: the simulation finds nothing"
        return Found("", HARNESS, message)
    return Found(", ".join(f"by {by} after {waits[0]} seeds" for by, (waits, _) in judged.items()))


def second_judge() -> Found:
    """FizzBee, driven along runs of the simulation (highwater/conformance/judge.py)."""
    from highwater.conformance.judge import judge, small_runs
    from highwater.specs.fizzbee.check import Fizz
    from highwater.specs.fizzbee.errors import FizzMissing

    try:
        fizz = Fizz.find()
    except FizzMissing as error:
        return Found("", INCOMPLETE, str(error))
    runs = [*small_runs("", JUDGED), *small_runs(IMPOSSIBLE, 1)]
    with ThreadPoolExecutor(CORES) as pool:
        judged = list(pool.map(lambda run: judge(fizz, run[0]), runs))
    wrong = [f"{command}: ours says {outcome.signature or 'ok'}, FizzBee {'accepts' if found.accepted else found.why}"
             for (outcome, command), found in zip(runs, judged) if found.accepted == bool(outcome.kind)]
    if wrong:
        return Found("", SPEC, "\n".join(wrong))
    return Found(f"{JUDGED} runs accepted, {sum(found.steps for found in judged[:JUDGED])} links; rejected: {judged[-1].why}")


def on_spark(seeds: int) -> Found:
    from highwater.dst.campaign.folder import Asked
    from highwater.dst.campaign.processes import local_engine
    from highwater.dst.campaign.waves import run
    from highwater.dst.campaign.what import NoSpark, campaign_of
    from highwater.dst.spark.engine import spark_engine

    summaries = {}
    with TemporaryDirectory() as folder:
        for name, engine in (("local", local_engine), ("spark", spark_engine)):
            try:
                summaries[name] = run(campaign_of(DEFAULT), Asked((0, seeds)), Path(folder) / name, partial(engine, CORES),
                                      CORES).summary
            except NoSpark as error:
                return Found("", INCOMPLETE, str(error))
    if summaries["spark"] != summaries["local"]:
        return Found("", NONDETERMINISM, f"Spark: {summaries['spark']}, local processes: {summaries['local']}")
    failures = summaries["spark"]["failures"]
    if failures:
        return Found("", of_kinds(failure["kind"] for failure in failures), "\n".join(f["replay"] for f in failures))
    return Found(f"{summaries['spark']['runs']:,} rows, digest {summaries['spark']['digest'][:12]}")
