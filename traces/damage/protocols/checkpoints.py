"""Define what callers of this protocol may be told, to explain damaged traces that pass.

The content of an SST means nothing to checkpoints. No request shows which checkpoint a call asks for that finds it missing or
ended.
"""

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Clients, Survivor, of_client, same_but
from highwater.traces.protocols.checkpoints_contents import SSTS, checkpoint_name, leases
from highwater.traces.trace import update_of


def ended_as_well(s: Survivor) -> bool:
    """Return whether the lease of the other checkpoint, too, has ended by the manifest that the client got last."""
    if not same_but(s, "body") or (s.before.kind, s.before.op) != ("told", "ended") or not s.after.body:
        return False
    got = last_got(s)
    return bool(got) and 0 < leases(got).get(update_of(s.after.body.decode()), 0) <= s.before.t_ms


def missing_as_well(s: Survivor) -> bool:
    """Return whether the other checkpoint, too, is missing in the manifest that the client got last, in our own form."""
    if not same_but(s, "body") or (s.before.kind, s.before.op) != ("told", "missing") or not s.after.body:
        return False
    got = last_got(s)
    return got[:1] == b"{" and checkpoint_name(*update_of(s.after.body.decode())).encode() not in got


def last_got(s: Survivor) -> bytes:
    """Return the manifest that the client got last; b"" if there is none."""
    own = of_client(s.before, reversed(s.good[:s.damage.at]))
    return next((e.body for e in own if (e.kind, e.op, e.status) == ("applied", "get", 200) and "/manifest/" in e.key), b"")


AS_WELL = {
    "ended as well": ("no request says which checkpoint it is, and the lease of the other one has ended too", ended_as_well),
    "missing as well": ("no request says which checkpoint it is, and the other one is not listed either", missing_as_well),
}
KNOWLEDGE = Knowledge(held=2, clients=Clients(opaque=(SSTS,)), equivalences={**OF_ALL, **AS_WELL})
