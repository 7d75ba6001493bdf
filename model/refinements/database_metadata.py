"""Safety: what the clients of a database do to its metadata, each part of the composition allows.

Each mapping is a projection: the part's own state, and the client's own local part. What a request may be in a part is read off
the joint steps of the composition. The part has all its safeguards, whatever the composition lacks.
"""

from typing import Any

from highwater.model.composition.clients import MODULES, ROLES
from highwater.model.composition.constants import Constants, parts
from highwater.model.composition.requests import steps_of
from highwater.model.composition.state import Shared
from highwater.model.refine import Refinement

ONTO = ("manifest", "compactions", "epochs", "claims", "wal")  # the parts


def has_clients(c: Constants, onto: str) -> bool:
    """Tell whether some client of an instance takes steps of a part."""
    compacts = c.COMPACTORS + c.COMPACTIONS_COLLECTORS > 0
    return {"compactions": compacts, "wal": c.WAL and c.WRITERS + c.WAL_COLLECTORS > 0,
            "epochs": c.WRITERS + c.COMPACTORS + c.READERS > 0, "claims": c.WRITERS + c.COMPACTORS > 0}.get(onto, True)


def refinement(c: Constants, onto: str = "manifest") -> Refinement:
    def shared(_: Constants, s: Shared) -> Any:
        return getattr(s, onto)

    def local(_: Constants, me: int, w: Any) -> Any:
        return getattr(w, onto)

    clients = {role: local for roles in ROLES[onto].values() for role in roles}
    flusher = {"Writer": ("Writer#0", lambda _, s: s.flusher)} if onto == "claims" else {}
    safe = getattr(parts(c._replace(OFF="")), onto)
    return Refinement(MODULES[onto].model(safe), shared, clients, steps_of(onto), acts_as=flusher)
