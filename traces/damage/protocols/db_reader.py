"""Require a reason for every damaged trace that passes.

What the reader, the writer and the collectors of a database may do explains all of them.
"""

from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.possible import OF_RESPONSES, passed, response
from highwater.traces.damage.responses import EARLY, is_own
from highwater.traces.damage.survivors import Survivor
from highwater.traces.event import Event
from highwater.traces.form import READS

TASKS = ("/poller", "/refresher")  # of a reader: they follow the manifests for all its calls


def followed_later(s: Survivor) -> bool:
    """Return whether a response moved before requests of the tasks that follow the manifests, and none of these read one that
    the reader had not read or put before."""
    own = passed(s) if s.damage.kind == EARLY else []
    known = {e.key for e in s.good[:s.damage.at] if is_own(e, response(s).client) and has_manifest(e)}
    return bool(own) and all(e.client.endswith(TASKS) and e.op in READS and (e.key in known or not has_manifest(e))
                             for e in own)


def has_manifest(e: Event) -> bool:
    """Return whether a client has the content of a manifest after this event."""
    return e.kind == "applied" and e.awaited and e.op in ("get", "create") and e.status == 200 and e.key.endswith(".manifest")


KNOWLEDGE = Knowledge(held=2, responses={**OF_RESPONSES, "followed later": (
    "a reader's tasks look for a manifest at any time, and found no other one after the response", followed_later)})
