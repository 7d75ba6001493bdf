"""Define what clients of this protocol may do, to explain damaged traces that pass.

An initialisation lists the manifests, and creates the first one only if there is none. The store decides that, whatever the
listing showed. A process may begin with a new reader, to which all is new, at any poll.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.possible import OF_RESPONSES
from highwater.traces.damage.responses import VALUE
from highwater.traces.damage.survivors import Survivor, same_but


def of_an_initialisation(s: Survivor) -> bool:
    """Return whether a client lists for an initialisation."""
    told = [e.op for e in s.good[:s.damage.at] if (e.client, e.kind) == (s.before.client, "told")]
    return s.before.op == "list" and told[-1:] == ["initialising"] and (
        s.damage.kind == "drop" or same_but(s, "client", "keys", "truncated"))


def of_a_new_reader(s: Survivor) -> bool:
    """Return whether only the claim about what is new differs: to a new reader all SSTs that it returns are new."""
    if s.damage.kind != VALUE or s.before.op != "read" or s.after != s.before._replace(
            keys=(*s.before.keys[:-1], *s.after.keys[-1:])):
        return False
    number, *new = s.after.keys[-1].removeprefix("new=").split()
    return number == "0" and sorted(new) == sorted(s.after.body.decode().split())


KNOWLEDGE = Knowledge(
    held=8,
    equivalences={**OF_ALL, "of an initialisation": (
        "an initialisation creates the first manifest if there is none, whatever it has listed", of_an_initialisation)},
    responses={**OF_RESPONSES, "of a new reader": (
        "the process polls with a new reader, to which all SSTs are new", of_a_new_reader)})
