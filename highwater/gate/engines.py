"""Define the checks of `highwater verify` that need no protocol: the engines agree, in memory and on Spark, the simulation
executes the statements of the protocols, but those that are listed with a reason, and functions on manifests hold."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from highwater.gate import mutation
from highwater.gate.exits import HARNESS, INCOMPLETE, NONDETERMINISM, PROOF, SAFETY, of_kinds
from highwater.gate.rows import Check, Found
from highwater.gate.sizes import Size

GROUP = "engines"  # in the place of a protocol
JOBS = 1  # a check takes one core
LEAST, MOST = 30, 5_000  # seeds of each scenario: for all, and while a statement without a reason was not executed


def checks(size: Size) -> Iterator[Check]:
    yield Check(GROUP, "model", "the wide engine visits what the plain one visits", engines)
    yield Check(GROUP, "simulation", "all statements of the protocols are executed, or have a reason", executed, (LEAST, MOST),
                weight=25)
    yield Check(GROUP, "model", "projection and union of every small database", functions, weight=20)
    yield Check(GROUP, "proof", "facts about spans, for any keys", spans, tools=("z3",))
    yield from mutation.shared_checks(GROUP, size.deep)
    yield Check(GROUP, "campaign", f"{size.campaign:,} seeds on Spark, the same rows as here", on_spark, (size.campaign,),
                ("pyspark", "pyarrow", "java"), weight=60)


def engines() -> Found:
    from highwater.gate import boundary_peer
    from highwater.model.explore import plain, tabulated, wide

    instance = boundary_peer.model(boundary_peer.S1)
    found = {engine.__name__: engine.explore(instance) for engine in (plain, tabulated, wide)}
    if len(set(found.values())) > 1:
        return Found("", HARNESS, "\n".join(f"{name}: {result[:5]}" for name, result in found.items()))
    return Found(f"{found['highwater.model.explore.wide'].states:,} states of S1, three engines")


def functions() -> Found:
    from highwater.model.functions.projection_union import SAFEGUARDS, Constants
    from highwater.model.functions.projection_union_checks import CHECKS, first

    tiny, small = (Constants(KEYS=keys, SSTS=2) for keys in (2, 3))
    for name in CHECKS:
        if story := first(name, small):
            return Found("", SAFETY, f"{name}: {'; '.join(story)}")
    for knob in sorted(SAFEGUARDS):
        if not any(first(name, of._replace(**{knob: False})) for of in (tiny, small) for name in CHECKS):
            return Found("", HARNESS, f"no property fails without {knob}")
    return Found(f"{len(CHECKS)} properties hold, and one fails without each of {len(SAFEGUARDS)} safeguards")


def spans() -> Found:
    from highwater.model.proofs.functions.spans import LEMMAS, REFUTED, counterexample

    for name in LEMMAS:
        if values := counterexample(name):
            return Found("", PROOF, f"{name}: {values}")
    for name, knobs in REFUTED:
        if not counterexample(name, knobs):
            return Found("", HARNESS, f"{name} holds without its safeguard, too")
    return Found(f"{len(LEMMAS)} lemmas proved, and each refuted without its safeguard")


def executed(least: int, most: int) -> Found:
    from highwater.dst.scenarios import stems
    from highwater.mutate.coverage import listed, measured
    from highwater.mutate.wanted import simulated

    found = measured(simulated(), stems(), least, most, listed())
    if found.unlisted:
        unit = found.unlisted[0]
        return Found("", HARNESS, f"{len(found.unlisted)} statements are not executed and have no reason, the first is "
                     f"{unit.file}:{unit.line} in {unit.function}: highwater dst coverage --file {unit.file}")
    if found.stale:
        return Found("", HARNESS, f"unreached.toml lists what is executed or not there: {found.stale[0].function}: "
                     f"{found.stale[0].line}")
    return Found(f"{found.share():.1f} % of {len(found.units):,} statements in {found.runs:,} runs")


def on_spark(seeds: int) -> Found:
    from highwater.dst.campaign.folder import Asked
    from highwater.dst.campaign.place import Folder
    from highwater.dst.campaign.processes import local_engine
    from highwater.dst.campaign.waves import run
    from highwater.dst.campaign.what import NoSpark, campaign_of
    from highwater.dst.scenarios import DEFAULT
    from highwater.dst.spark.engine import spark_engine
    from highwater.dst.spark.session import SessionOptions

    summaries = {}
    with TemporaryDirectory() as folder:
        of_spark = SessionOptions(JOBS, name="highwater verify")
        for name, start in (("local", partial(local_engine, JOBS)), ("spark", partial(spark_engine, of_spark))):
            try:
                summaries[name] = run(campaign_of(DEFAULT), Asked((0, seeds)), Folder(Path(folder) / name),
                                      start, JOBS).summary
            except NoSpark as error:
                return Found("", INCOMPLETE, str(error))
    if summaries["spark"] != summaries["local"]:
        return Found("", NONDETERMINISM, f"Spark: {summaries['spark']}, local processes: {summaries['local']}")
    failures = summaries["spark"]["failures"]
    if failures:
        return Found("", of_kinds(failure["kind"] for failure in failures), "\n".join(f["replay"] for f in failures))
    return Found(f"{summaries['spark']['runs']:,} rows, digest {summaries['spark']['digest'][:12]}")
