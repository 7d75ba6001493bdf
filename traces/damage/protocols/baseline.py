"""Define what clients of this protocol may do, to explain damaged traces that pass.

A writer begins anew with each PUT. A reader begins anew with LIST.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.possible import OF_RESPONSES, response
from highwater.traces.damage.responses import ANOTHER, EARLY, VALUE
from highwater.traces.damage.survivors import Clients, Survivor, same_but
from highwater.traces.event import Event


def announced_again(s: Survivor) -> bool:
    """Return whether an instance has announced its name twice. No other put is empty."""
    return s.damage.kind == "repeat" and (s.before.op, s.before.body) == ("put", b"")


def no_value_either(s: Survivor) -> bool:
    """Return whether a caller was told that a key has no value: another caller, or of another key. A client that knows of one
    is refused."""
    return same_but(s, "client", "key") and is_no_value(s.before)


def is_no_value(e: Event) -> bool:
    return (e.kind, e.op, e.body) == ("told", "got", b"")


def no_value_in_this_call(s: Survivor) -> bool:
    return s.damage.kind in (EARLY, ANOTHER, VALUE) and is_no_value(response(s))


NO_VALUE = "a client that knows of no put of the key may be told so"
KNOWLEDGE = Knowledge(held=2, clients=Clients(begins=("list", "put")), responses={
    **OF_RESPONSES, "no value in this call": (NO_VALUE, no_value_in_this_call)}, equivalences={
    **OF_ALL,
    "announced again": ("an instance may announce its name again, as after a time-out", announced_again),
    "no value either": (NO_VALUE, no_value_either)})
