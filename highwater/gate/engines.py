"""Define the checks of `highwater verify` that need no protocol: the engines agree, in memory and on Spark."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from highwater.gate.exits import HARNESS, INCOMPLETE, NONDETERMINISM, of_kinds
from highwater.gate.rows import Check, Found
from highwater.gate.sizes import Size

GROUP = "engines"  # in the place of a protocol
JOBS = 1  # a check takes one core


def checks(size: Size) -> Iterator[Check]:
    yield Check(GROUP, "model", "the wide engine visits what the plain one visits", engines)
    yield Check(GROUP, "campaign", f"{size.campaign:,} seeds on Spark, the same rows as here", on_spark, (size.campaign,),
                ("java",), weight=60)


def engines() -> Found:
    from highwater.gate import boundary_peer
    from highwater.model.explore import plain, tabulated, wide

    instance = boundary_peer.model(boundary_peer.S1)
    found = {engine.__name__: engine.explore(instance) for engine in (plain, tabulated, wide)}
    if len(set(found.values())) > 1:
        return Found("", HARNESS, "\n".join(f"{name}: {result[:5]}" for name, result in found.items()))
    return Found(f"{found['highwater.model.explore.wide'].states:,} states of S1, three engines")


def on_spark(seeds: int) -> Found:
    from highwater.dst.campaign.folder import Asked
    from highwater.dst.campaign.processes import local_engine
    from highwater.dst.campaign.waves import run
    from highwater.dst.campaign.what import NoSpark, campaign_of
    from highwater.dst.scenarios import DEFAULT
    from highwater.dst.spark.engine import spark_engine

    summaries = {}
    with TemporaryDirectory() as folder:
        for name, engine in (("local", local_engine), ("spark", spark_engine)):
            try:
                summaries[name] = run(campaign_of(DEFAULT), Asked((0, seeds)), Path(folder) / name, partial(engine, JOBS),
                                      JOBS).summary
            except NoSpark as error:
                return Found("", INCOMPLETE, str(error))
    if summaries["spark"] != summaries["local"]:
        return Found("", NONDETERMINISM, f"Spark: {summaries['spark']}, local processes: {summaries['local']}")
    failures = summaries["spark"]["failures"]
    if failures:
        return Found("", of_kinds(failure["kind"] for failure in failures), "\n".join(f["replay"] for f in failures))
    return Found(f"{summaries['spark']['runs']:,} rows, digest {summaries['spark']['digest'][:12]}")
