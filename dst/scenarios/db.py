"""Simulate a whole database on SlateDB's own bytes: writers that take over from each other, readers, operators, compactors and
collectors (impl/db). One run in six has a clone, too: cloners, which work in it, and destroyers.

traces/protocols/db.py judges each request. What callers saw is judged by the rows: each write has a number, and each read shows
the newest versions at or below its own (traces/histories/versions.py). At the end the database is opened once more, and each
checkpoint that lasts is read. The clients are in dst/scenarios/database/.

With an audit a writer opens last, undisturbed, and reads everything.
"""

from highwater.dst.scenario import PATIENCE, Scenario, rarely
from highwater.dst.scenarios.database import cloner, others
from highwater.dst.scenarios.database.end import final_check
from highwater.dst.scenarios.database.shape import MOST, Impl, Shape, draw_shape, length, production, waits_ms
from highwater.dst.scenarios.database.writer import writer
from highwater.dst.scripts import db as of_writers
from highwater.dst.scripts import db_compactor as of_compactors
from highwater.dst.scripts import db_reads as of_reads
from highwater.dst.world.tampering import DAMAGE
from highwater.traces.event import Event
from highwater.traces.protocols.db import CLONE, FOLDERS, KEYS, SSTS, WAL, Constants, Trace, refiner
from highwater.traces.protocols.db_calls import WORDS
from highwater.traces.refine import refiner_of

__all__ = ["SCENARIO", "Impl", "production"]

OF_CLONE = FOLDERS[CLONE]
ROLES = {"Writer": ("writers", "calls"), "Reader": ("readers", "reads"), "Operator": ("operators", "changes"),
         "Compactor": ("compactors", "compactions"), "Collector": ("collectors", "rounds"),
         "Cloner": ("cloners", "clones"), "Destroyer": ("destroyers", "destroys")}


def trace_of(shape: Shape) -> Trace:
    clients = tuple((role, MOST[number]) for role, (number, _) in ROLES.items())
    return Trace(refiner_of(refiner, Constants(clients)), KEYS, shape.skew_ms, shape.fences)


def trace_options(shape: Shape) -> list[str]:
    return [*[f"--shape skew_ms={shape.skew_ms}"] * bool(shape.skew_ms), *["--shape fences=True"] * shape.fences]


MOMENTS = ("flushed", "compacted", "sst collected", "wal collected", "taken over", "cloned", "wal copied", "clone written to",
           "clone compacted", "detached", "clone in the way", "destroyed")
OF_A_CLONE = {"cloned": "cloned", "detached": "detached", "written": "clone written to", "compacted": "clone compacted",
              "pinned": "clone in the way", "destroyed": "destroyed"}  # what is told -> its witness


def moments_of(events: list[Event], shape: Shape) -> set[str]:
    found, openers = set[str](), set[str]()
    for e in events:
        if e.kind == "told":
            found |= {"compacted"} & {e.op}
            openers |= {e.client} if e.op == "opened" and e.client.startswith("Writer") else set()
            found |= {OF_A_CLONE.get(e.op, "")} - {""} if e.client.startswith(("Cloner", "Destroyer")) else set()
        elif e.kind == "applied" and e.op == "create" and e.status == 200 and e.body and e.key.startswith(OF_CLONE.wal.prefix):
            found |= {"wal copied"} if "/" not in e.client else set()  # a task of a cloner is its writer
        elif e.kind == "applied" and e.op == "create" and e.key.startswith(SSTS):
            found |= {"flushed"} if e.client.startswith("Writer") else set()
        elif e.kind == "applied" and e.op == "delete" and e.status == 204:
            found |= {f"{name} collected" for name, prefix in (("sst", SSTS), ("wal", WAL.prefix)) if e.key.startswith(prefix)}
    return found | ({"taken over"} if len(openers) > 1 else set())


SCENARIO = Scenario(
    stem="db",
    shape=Shape,
    draw_shape=draw_shape,
    roles=ROLES,
    most=MOST,
    optional=("Reader", "Operator", "Compactor", "Collector", "Cloner", "Destroyer"),
    mildest=Shape(apart_ms=1, pause_ms=1, audit=False),
    tiny=Shape(writers=1, calls=3, readers=0, reads=0, operators=0, changes=0, compactors=0, compactions=0, collectors=0,
               rounds=0, clones=0, destroys=0, apart_ms=1, pause_ms=1, audit=False),
    waits_ms=waits_ms,
    length=length,
    production=production,
    work={"Writer": writer, "Reader": others.reader, "Operator": others.operator, "Compactor": others.compactor,
          "Collector": others.collector, "Cloner": cloner.cloner, "Destroyer": cloner.destroyer},
    audit=(("Writer#0",),),
    scripts=(*of_writers.SCRIPTS, *of_compactors.SCRIPTS, *of_reads.SCRIPTS),
    share=0.2,
    trace_of=trace_of,
    trace_options=trace_options,
    final_check=final_check,
    told=WORDS,
    moments=MOMENTS,
    moments_of=moments_of,
    cost={},
    breaks=DAMAGE,
    model="database_metadata",
    rare=(*[PATIENCE] * len(DAMAGE), *rarely(*DAMAGE)[1:]),
    needs=("create", "update", "cache", "list"),
)
