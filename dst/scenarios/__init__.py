"""Safety: none of its own; where a scenario is found, and what it must bring.

A scenario is the module dst/scenarios/STEM.py of a protocol. The simulator, its search, the shrinker, campaigns and the command
line ask it for these, and for nothing else:

    Shape, draw_shape(of)          how large a run is, a NamedTuple that has at least the fields of COMMON; drawn from the seed:
                                   of(field, *values) is one of these values
    ROLES, MOST, OPTIONAL          role -> the fields of Shape that say how many clients, and how much each has to do; at most
                                   so many clients; the roles that a run may be without
    MILDEST                        Shape's fields at their mildest, for the shrinker (sizes left out)
    TINY                           a Shape that bounded search can go through
    unit_ms(shape)                 the time by which phases and stalls are measured
    waits_ms(shape), length(shape) what the protocol and its callers wait by; about how many events a run without faults has
    production                     a Build: makes the protocol's client of a World, a Shape and the client's number
    begin(store)                   what is in the store before the first request
    WORK, AUDIT                    role -> coroutine of a client (dst/actors.py); who works again, in turns, after the faults
    trace_of(shape)                what judges the trace: traces/protocols/STEM.py
    trace_options(shape)           the options of `trace check` for a recorded trace of such a run
    final_check(actors, events)    raises Failure; the callers' history, and what only the end can show
    TOLD, SEEN, seen(events, shape)   what callers can be told; moments that a campaign should reach, and which a run has

    MODEL                          the model's stem, where it is another's
    NEEDS                          which requests of a store its protocol relies on beside plain ones: of "create" (only if
                                   absent), "update" (only over a version), "cache" (reads only what has changed), "list". By
                                   it `store probe` says whom a store endangers. It judges no scenario that is without it
    COST                           contention -> the Shape at which `highwater cost` measures a commit; {} if there is none

A protocol's known-bad clients are in dst/mutants/STEM.py: MUTANTS, name -> (what it does wrong, its Build); ORACLES, name ->
what the signatures of its failures begin with, (by the model's judgement, by harm that callers came to).
"""

from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

CONTRACT = {  # folder -> the constants of its modules, as above; dst/determinism/lint.py takes an empty one for no cache
    "dst/scenarios": ("ROLES", "MOST", "OPTIONAL", "MILDEST", "TINY", "WORK", "AUDIT", "TOLD", "SEEN", "MODEL", "NEEDS",
                      "COST"),
    "dst/mutants": ("MUTANTS", "ORACLES"),
}
DEFAULT = "sequenced_metadata_boundary"
COMMON = ("page_size", "chaos", "audit", "skew_ms", "store", "stall_ms", "sdk")
STEMS = tuple(sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py")))


@cache
def named(stem: str) -> ModuleType:
    """Raises LookupError."""
    return import_module(f"{__name__}.{known(stem)}")


@cache
def mutants_of(stem: str) -> ModuleType:
    """Raises LookupError."""
    return import_module(f"highwater.dst.mutants.{known(stem)}")


def known(stem: str) -> str:
    if stem not in STEMS:
        raise LookupError(f"there is no scenario {stem!r}; there are: {', '.join(STEMS)}")
    return stem
