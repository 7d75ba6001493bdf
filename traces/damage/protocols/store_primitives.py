"""Define what clients of this protocol may do, to explain damaged traces that pass.

Each request of a client stands by itself. The response to a read of a missing object does not say which object it was.
"""

from highwater.traces.damage.clients import OF_ALL, exists
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Clients, Survivor, same_but
from highwater.traces.form import MUTATIONS, READS


def another_is_missing(s: Survivor) -> bool:
    return same_but(s, "key") and (s.before.op, s.before.status) == ("get", 404) and not exists(s, s.after.key)


KNOWLEDGE = Knowledge(clients=Clients(begins=READS + MUTATIONS), equivalences={**OF_ALL, "another is missing": (
    "the client asked for another object, which is missing too", another_is_missing)})
