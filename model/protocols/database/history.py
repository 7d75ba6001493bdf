"""Say what the parts do when an update is put: when its file joins the history, and when its client stops waiting for it.

The content of a file is what each part puts on a store that ends with the file that the client has read.
"""

from collections.abc import Mapping
from typing import Any

from highwater.model.compose import Follow, alone, first_way
from highwater.model.protocols.database.clients import actor, latest, view
from highwater.model.protocols.database.constants import Constants, parts
from highwater.model.protocols.database.state import Intent, Shared

PUT, CLAIM = (("List", "ReadLatest", "CreateNext"),), (("Read", "CreateNext", "Accept"),)
LANDS: dict[str, Follow] = {  # kind of update -> part -> what it does
    "Open": {"epochs": PUT, "wal": (("ReadManifest", "Claim"),)},
    "Flush": {"epochs": PUT, "claims": (*CLAIM, ("ReadLanded", *CLAIM[0])), "wal": (("FlushNext",),)},
    "OpenCompactor": {"epochs": PUT, "claims": CLAIM},
    "Apply": {"epochs": (*PUT, ("List", "ReadLatest")), "claims": CLAIM},  # epochs merges all of L0, so perhaps before
    "Compactions": {"claims": CLAIM},
    "Checkpoint": {},
}
UNHEARD: dict[str, Follow] = {  # the same, if the client will not hear of it
    "Open": {"epochs": (("List", "ReadLatest", "LoseReply"),), "wal": (("ReadManifest", "LoseManifest"),)},
    "OpenCompactor": {"epochs": (("List", "ReadLatest", "LoseReply"),), "claims": (("Read", "CreateNext", "LoseReply"),)},
}
SEND, SEND_CLAIM = (("List", "ReadLatest", "SendCreate"),), (("Read", "SendCreate"),)
SENDS: dict[str, Follow] = {  # what the parts do when the client stops waiting for its create
    "Open": {"epochs": SEND, "wal": (("ReadManifest", "SendManifest"),)},
    "Flush": {"epochs": SEND, "claims": (*SEND_CLAIM, ("ReadLanded", *SEND_CLAIM[0])), "wal": (("SendManifest",),)},
    "OpenCompactor": {"epochs": SEND, "claims": SEND_CLAIM},
    "Apply": {"epochs": (*SEND, ("List", "ReadLatest")), "claims": SEND_CLAIM},
    "Compactions": {"claims": SEND_CLAIM},
    "Checkpoint": {},
}
KINDS = {("Writer", "manifest"): ("Open", "Flush"), ("Compactor", "manifest"): ("OpenCompactor", "Apply"),
         ("Compactor", "compactions"): ("Compactions",), ("Operator", "manifest"): ("Checkpoint",)}


def kind_of(role: str, part: str, w: Any) -> str:
    """Return the kind of the update that the client puts next."""
    if getattr(w, "intent", None):
        return w.intent.kind
    opens, *rest = KINDS[role, part]
    return rest[0] if rest and w.epochs.open else opens


def used(c: Constants, follow: Follow) -> Follow:
    return follow if c.WAL else {part: ways for part, ways in follow.items() if part != "wal"}


def intent_of(role: str, part: str, s: Shared, w: Any) -> Intent:
    """Return what the client is about to put, and what it knows: if it puts it again, what it knew the first time."""
    return getattr(w, "intent", None) or Intent(part, kind_of(role, part, w), getattr(w, "epochs", None),
                                                getattr(w, "claims", None), getattr(w, "wal", None), s.flusher)


def known_of(role: str, part: str, intent: Intent) -> Any:
    """Return what the client of a part knew before the update was put."""
    return intent.flusher if (role, part) == ("Writer", "claims") else getattr(intent, part)


def content_of(c: Constants, role: str, me: int, intent: Intent, base: Any) -> Any:
    """Return the content that a client puts over `base`: each part puts it on a store that ends with `base`."""
    for part, ways in used(c, LANDS[intent.kind]).items():
        found = alone(actor(c, role, me, part), ways, parts(c), view(c, part, intent.part, base), known_of(role, part, intent))
        if found:
            new = latest(part, intent.part, found[0])
            base = base._replace(**{part: new}) if intent.part == "manifest" else new
    return base


def follows(c: Constants, role: str, me: int, s: Shared, w: Any, follow: Follow) -> tuple[Shared, Any]:
    """Let each part follow. A part that cannot is noted."""
    for part, ways in used(c, follow).items():
        found = first_way(actor(c, role, me, part), ways, parts(c), s, w)
        s, w = found or (s._replace(apart=tuple(sorted({*s.apart, part}))), w)
    return s, w


def may_follow(c: Constants, role: str, me: int, s: Shared, w: Any, follow: Follow) -> tuple[Shared, Any]:
    """Let each part follow that can."""
    for part, ways in used(c, follow).items():
        s, w = first_way(actor(c, role, me, part), ways, parts(c), s, w) or (s, w)
    return s, w


def puts_of(role: str, part: str, table: Mapping[str, Follow]) -> dict[str, Follow]:
    return {kind: table[kind] for kind in KINDS[role, part] if kind in table}
