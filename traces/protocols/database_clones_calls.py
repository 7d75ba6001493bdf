"""The answers that each call of impl/protocols/database_clones.py may give, and what is true then: those of its parts."""

from collections.abc import Mapping

from highwater.traces.calls import Calls, Claim
from highwater.traces.protocols.clones_calls import CALLS as OF_CLONES
from highwater.traces.protocols.database_metadata_calls import CALLS as OF_DATABASES
from highwater.traces.protocols.database_metadata_calls import JUDGES

CALLS: Calls = {**OF_DATABASES, **{call: OF_CLONES[call] for call in ("clone", "detach", "create", "delete")}}
CLAIMS: Mapping[str, Claim] = JUDGES
