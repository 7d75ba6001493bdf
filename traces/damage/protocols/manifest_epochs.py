"""Define what clients of this protocol may do, to explain damaged traces that pass.

An initialisation lists the manifests, and creates the first one only if there is none. The store decides that, whatever the
listing showed.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Survivor, same_but


def of_an_initialisation(s: Survivor) -> bool:
    """Return whether a client lists for an initialisation."""
    told = [e.op for e in s.good[:s.damage.at] if (e.client, e.kind) == (s.before.client, "told")]
    return s.before.op == "list" and told[-1:] == ["initialising"] and (
        s.damage.kind == "drop" or same_but(s, "client", "keys", "truncated"))


KNOWLEDGE = Knowledge(held=8, equivalences={**OF_ALL, "of an initialisation": (
    "an initialisation creates the first manifest if there is none, whatever it has listed", of_an_initialisation)})
