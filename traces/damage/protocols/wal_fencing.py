"""Define what clients of this protocol may do, to explain damaged traces that pass.

What a collector may delete follows from the manifest alone. It lists to find what is there.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Survivor, same_but


def need_not_list(s: Survivor) -> bool:
    return s.before.op == "list" and s.before.client.startswith("Collector") and (
        s.damage.kind == "drop" or same_but(s, "client"))


KNOWLEDGE = Knowledge(equivalences={**OF_ALL, "need not list": (
    "a collector may delete all ids up to replay_after, listed or not", need_not_list)})
