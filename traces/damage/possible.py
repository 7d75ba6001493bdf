"""Safety: a survivor of responses.KINDS is explained only if the response is true of its own call, where it now stands.

A response that claims nothing is true of every call. One that claims that a call had no effect is true of a call without a
write. What a caller has read is true for every caller that has read the same in its own call. A true response for a caller of
another role has no explanation, unless a caller of that role receives such responses in other runs.
"""

from collections.abc import Iterator
from itertools import takewhile

from highwater.traces.calls import DEFINITE, INDEFINITE
from highwater.traces.damage.clients import NO_EFFECT, WEAK
from highwater.traces.damage.responses import ANOTHER, EARLY, EXCHANGE, LOST, VALUE, WRONG, is_own, role_of
from highwater.traces.damage.survivors import Equivalences, Survivor, lost, unread, write
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, PUTS, READS

NO_WORD = ("OutcomeUnknown", "TimedOut", "Unavailable", "LeadershipLost", "TransferFailed",
           "NodeStopped")  # indefinite, and no more than that


def response(s: Survivor) -> Event:
    """Return the damaged response, as its caller received it in the damaged trace."""
    at = s.damage.at + (s.damage.kind in (ANOTHER, WRONG))
    return s.damage.events[at]


def is_told(s: Survivor) -> bool:
    return s.damage.kind in (EARLY, ANOTHER, WRONG, VALUE)


def claims_nothing(e: Event) -> bool:
    """Return whether a response is true whatever the requests of the call were."""
    if e.op in WEAK or (e.keys[2:3] == (INDEFINITE,) and e.keys[1] in NO_WORD):
        return True
    return len(e.keys) > 3 and not e.body and all(claim.endswith("=") for claim in e.keys[3:])


def claims_no_effect(e: Event) -> bool:
    return e.op in NO_EFFECT or e.keys[2:3] == (DEFINITE,)


def claims_effect(e: Event) -> bool:
    return not claims_nothing(e) and not claims_no_effect(e)


def call(s: Survivor, caller: str, before: int) -> Iterator[Event]:
    """Yield the requests that a caller has sent in its open call before an event of the good trace, the latest first."""
    for e in reversed(s.good[:before]):
        if e.client == caller and e.kind in ("told", "crash"):
            return
        if is_own(e, caller):
            yield e


def passed(s: Survivor) -> list[Event]:
    """Return the caller's own events before which its response moved."""
    return [e for e in s.good[s.damage.at:s.damage.to] if is_own(e, response(s).client)]


def writes(e: Event) -> bool:
    return bool(write(e)) or (e.pending and e.op in MUTATIONS)


# --- equivalences

def says_nothing(s: Survivor) -> bool:
    return is_told(s) and claims_nothing(response(s))


def had_no_effect(s: Survivor) -> bool:
    """Return whether a call is said to have had no effect, its caller has written nothing in it, and no response before says
    that this update is applied."""
    e = response(s)
    if not is_told(s) or not claims_no_effect(e):
        return False
    if e.body and s.damage.kind == VALUE and any((o.op in PUTS and e.body in o.body) or (
            o.kind == "told" and o.body == e.body and claims_effect(o)) for o in s.good[:s.damage.at]):
        return False
    own = passed(s) if s.damage.kind == EARLY else call(s, e.client, s.damage.at) if s.damage.kind != VALUE else ()
    return not any(map(writes, own))


def known_before(s: Survivor) -> bool:
    """Return whether the requests that now follow the response are lost, or repeat reads that its call has sent since its last
    write, with the same results."""
    own = passed(s) if s.damage.kind == EARLY else []
    reads = takewhile(lambda o: not writes(o), call(s, response(s).client, s.damage.at)) if own else ()
    before = {o[4:12] for o in reads}
    return bool(own) and all(lost(e, s.good) or (e.op in READS and e[4:12] in before) for e in own)


def lost_in_vain(s: Survivor) -> bool:
    """Return whether the call of a lost request is said to have had no effect, or nothing is said of it, and it writes nothing
    afterwards."""
    if s.damage.kind != LOST:
        return False
    own = [e for e in s.rest if e.client == s.before.client or is_own(s.before, e.client) or is_own(e, s.before.client)]
    at = next((i for i, e in enumerate(own) if e.kind in ("told", "crash")), len(own))
    end = own[at] if at < len(own) else None
    says_no_more = end is None or end.kind == "crash" or claims_nothing(end) or claims_no_effect(end)
    return says_no_more and not any(map(writes, own[:at]))


def asked_the_same(s: Survivor) -> bool:
    """Return whether the other caller has sent the same requests in its own call, with the same results."""
    if s.damage.kind != ANOTHER:
        return False
    own = {o[4:9] for o in call(s, response(s).client, s.damage.at)}
    others = [o[4:9] for o in call(s, s.before.client, s.damage.at) if o.kind == "applied"]
    return bool(others) and all(o in own for o in others)


def received_at_that_moment(s: Survivor) -> bool:
    """Return whether the caller receives this response elsewhere as well, and between the two places it has sent nothing, and
    nobody has changed an object."""
    if s.damage.kind != VALUE:
        return False
    e, at = s.after, s.damage.at
    same = (i for i, o in enumerate(s.good) if o._replace(t_ms=e.t_ms) == e)
    between = (s.good[min(i, at):max(i, at)] for i in same)
    return any(not any(writes(o) or is_own(o, e.client) or o.kind == "step" for o in events) for events in between)


def received_elsewhere(s: Survivor) -> bool:
    """Return whether callers of that role receive such responses in other runs: it is not the wrong kind of caller."""
    e = response(s)
    return s.damage.kind == WRONG and e.op in s.roles().get(role_of(e.client), ())


def means_the_same(s: Survivor) -> bool:
    """Return whether both contents mean the same, or nothing to the protocol while nobody reads them."""
    if s.damage.kind != EXCHANGE or s.before.op not in PUTS:
        return False
    one = s.before
    two = next(e for e in s.rest if e.body == s.after.body and e.op == one.op)
    opaque = one.key.startswith(s.clients.opaque or " ") and unread(one.key, s.rest)
    return opaque or (bool(s.meaning(one)) and s.meaning(one) == s.meaning(two))


OF_RESPONSES: Equivalences = {
    "says nothing": ("the response claims nothing, so it is true of every call", says_nothing),
    "had no effect": ("the response claims that the call had no effect, and that call wrote nothing", had_no_effect),
    "known before": ("the requests that follow the response are lost, or repeat reads since the last write of its call",
                     known_before),
    "lost in vain": ("the call of the lost request writes nothing more, and claims no effect", lost_in_vain),
    "asked the same": ("the other caller has sent the same requests, with the same results", asked_the_same),
    "received at that moment": ("its caller receives that response as well, and nothing has changed between the two",
                                received_at_that_moment),
    "received elsewhere": ("callers of that role receive such responses in other runs", received_elsewhere),
    "contents mean the same": ("both contents mean the same, or nothing while nobody reads them", means_the_same),
}
