"""Safety: what the clients of a database do to its metadata, each part of the composition allows.

Each mapping is a projection: the part's own state, and the client's own local part. What a request may be in a part is read off
the joint steps of the composition. The part has all its safeguards, whatever the composition lacks.
"""

from typing import Any

from highwater.model.protocols.database.clients import MODULES, ROLES
from highwater.model.protocols.database.constants import WITHOUT, Constants, parts
from highwater.model.protocols.database.requests import steps_of
from highwater.model.protocols.database.state import Shared
from highwater.model.refine import Refinement

ONTO = ("manifest", "compactions", "epochs", "claims", "wal")  # the parts
SMALL = {"WAL": False, "MAX_ID": 6}
LARGE: tuple[dict[str, Any], ...] = (
    {**SMALL, "OPERATORS": 1, "CHECKPOINTS": 1, "TAKES": 2, "COLLECTORS": 1, "FLUSHES": 0, "MAX_ID": 4},
    {**SMALL, "WRITERS": 0, "COMPACTORS": 2, "COMPACTIONS_COLLECTORS": 1, "MAX_PENDING": 1},
    {**SMALL, "WRITERS": 0, "OPERATORS": 1, "TAKES": 2, "CHECKPOINTS": 1, "COLLECTORS": 1, "MAX_PENDING": 1, "MAX_LOST": 1,
     "MAX_ID": 3},
)
INSTANCES: tuple[dict[str, Any], ...] = (
    *LARGE,
    {**SMALL, "WRITERS": 2, "COLLECTORS": 1, "MAX_ID": 4},
    {**SMALL, "COMPACTORS": 2},
    {**SMALL, "OPERATORS": 1, "CHECKPOINTS": 1, "TAKES": 1, "COLLECTORS": 1, "MAX_ID": 3},
    {**SMALL, "READERS": 1, "COLLECTORS": 1, "FLUSHES": 2},
    {**SMALL, "WRITERS": 0, "COMPACTORS": 2, "COMPACTIONS_COLLECTORS": 1},
    {"WRITERS": 2, "WAL_COLLECTORS": 1},
    {**SMALL, "WRITERS": 2, "MAX_PENDING": 1},
    {**SMALL, "WRITERS": 2, "MAX_LOST": 1},
    {**SMALL, "WRITERS": 2, "MAX_CRASHES": 1},
    {**SMALL, "COMPACTORS": 1, "MAX_PENDING": 1},
    {**SMALL, "COMPACTORS": 1, "MAX_LOST": 1, "COMPACTIONS_COLLECTORS": 1},
    {**SMALL, "COMPACTORS": 1, "MAX_CRASHES": 1},
    {"MAX_PENDING": 1, "MAX_LOST": 1, "MAX_CRASHES": 1},
)
TWO, ONE = {**SMALL, "WRITERS": 2}, {**SMALL, "COLLECTORS": 1}
CHECKPOINTS = {**ONE, "OPERATORS": 1, "CHECKPOINTS": 1, "TAKES": 2}
COMPACTING = {**SMALL, "WRITERS": 0, "COMPACTORS": 2, "COMPACTIONS_COLLECTORS": 1}
WRITING = {"WRITERS": 2, "MAX_ID": 6}
OVERTAKING = {"OPERATORS": 1, "TAKES": 2, "COLLECTORS": 1, "MAX_ID": 4}  # a late create takes the id of a file that was listed
LARGE_OFF: tuple[dict[str, Any], ...] = (  # a failure needs some 300,000 states
    {**TWO, **OVERTAKING, "VERDICT_CHECKED": False},
    {**OVERTAKING, "WAL_COLLECTORS": 1, "APPENDS": 0, "WAL_CHECKED": False},
)
LATER = (*LARGE, *LARGE_OFF)  # instances that only `make verify-deep` explores
OFF: tuple[dict[str, Any], ...] = (  # each safeguard switched off, on an instance that shows it
    *LARGE_OFF,
    {**COMPACTING, "COLLECTORS": 1, "OWN_BOUNDARY": False},
    {**WRITING, "COLLECTORS": 1, "APPENDS": 0, "FENCE_CHECKED": False},
    *({**TWO, "COLLECTORS": 1, "OFF": f"manifest.{name}"} for name in ("BOUNDARY", "CHECK", "OLD_WRITERS", "FRESH_BOUNDARY")),
    *({**ONE, "OFF": f"manifest.{name}"} for name in ("BOUNDARY_FIRST", "KEEP_LATEST")),
    {**ONE, "COLLECTORS": 2, "OFF": "manifest.CONDITIONAL_ADVANCE"},
    {**ONE, "READERS": 1, "OFF": "manifest.CHECK_READS"},
    {**TWO, "MAX_LOST": 1, "OFF": "manifest.ON_REFUSAL"},
    *({**CHECKPOINTS, "OFF": f"manifest.{name}"} for name in ("SPARE_CHECKPOINTS", "SPARE_LISTED")),
    *({**COMPACTING, "OFF": f"compactions.{name}"} for name in (
        "BOUNDARY", "CHECK", "OLD_WRITERS", "FRESH_BOUNDARY", "BOUNDARY_FIRST", "KEEP_LATEST")),
    {**COMPACTING, "COMPACTIONS_COLLECTORS": 2, "OFF": "compactions.CONDITIONAL_ADVANCE"},
    {**COMPACTING, "MAX_LOST": 1, "OFF": "compactions.ON_REFUSAL"},
    *({**TWO, "OFF": f"epochs.{name}"} for name in ("BUMP_OWN_ONLY", "EPOCH_CHECK", "SWALLOW_FENCED")),
    {**TWO, "MAX_PENDING": 1, "OFF": "epochs.UNKNOWN_IS_DONE"},
    {**SMALL, "READERS": 1, "OFF": "epochs.POLL_LIST"},
    {**SMALL, "COMPACTORS": 2, "OFF": "COMPACTOR_EPOCH"},
    {**SMALL, "WRITERS": 0, "COMPACTORS": 2, "MAX_CRASHES": 1, "OFF": "claims.HEAL"},
    {**SMALL, "COMPACTORS": 1, "OFF": "claims.APPLY_FIRST"},
    {**SMALL, "COMPACTORS": 1, "MAX_PENDING": 1, "OFF": "claims.RECOGNISE"},
    {**SMALL, "COMPACTORS": 2, "OFF": "claims.TAKE_OVER"},
    *({**WRITING, "OFF": f"wal.{name}"} for name in (
        "CREATE_IF_ABSENT", "FENCE", "VALIDATE", "CHECK", "RESOLVE_ONCE", "FLUSH_EXACT")),
    *({**WRITING, "WAL_COLLECTORS": 1, "OFF": f"wal.{name}"} for name in ("FENCE_AHEAD", "GC_BEHIND")),
    {"MAX_PENDING": 1, "OFF": "wal.UNKNOWN"},
)
BREAKS = {"VERDICT_CHECKED": ("epochs",), "WAL_CHECKED": ("wal",), "OWN_BOUNDARY": ("compactions",), "FENCE_CHECKED": ("wal",)}


def has_clients(c: Constants, onto: str) -> bool:
    """Tell whether some client of an instance takes steps of a part."""
    compacts = c.COMPACTORS + c.COMPACTIONS_COLLECTORS > 0
    return {"compactions": compacts, "wal": c.WAL and c.WRITERS + c.WAL_COLLECTORS > 0,
            "epochs": c.WRITERS + c.COMPACTORS + c.READERS > 0,
            "claims": (c.FLUSHES != 0 and c.WRITERS > 0) or c.COMPACTORS > 0}.get(onto, True)


def broken(c: Constants) -> tuple[str, ...]:
    """Return the parts that an instance with a safeguard switched off does not refine."""
    return tuple(WITHOUT[c.OFF]) or tuple(part for name, those in BREAKS.items() if not getattr(c, name) for part in those)


def refinement(c: Constants, onto: str) -> Refinement:
    """Return the projection onto a part."""
    def shared(_: Constants, s: Shared) -> Any:
        return getattr(s, onto)

    def local(_: Constants, me: int, w: Any) -> Any:
        return getattr(w, onto)

    def flusher(_: Constants, s: Shared) -> Any:
        return s.flusher

    part = MODULES[onto].model(getattr(parts(c._replace(OFF="")), onto))
    clients = {role: local for roles in ROLES[onto].values() for role in roles}
    return Refinement(part._replace(name=f"{onto} ({part.name})"), shared, clients, steps_of(onto),
                      acts_as={"Writer": ("Writer#0", flusher)} if onto == "claims" else {})
