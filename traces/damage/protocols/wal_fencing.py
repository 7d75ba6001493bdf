"""Define what clients of this protocol may do, to explain damaged traces that pass.

What a collector may delete follows from the manifest alone. It lists to find what is there.
"""

import json
from typing import Any

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.knowledge import Knowledge
from highwater.traces.damage.survivors import Survivor, same_but, unread
from highwater.traces.form import PUTS


def need_not_list(s: Survivor) -> bool:
    return s.before.op == "list" and s.before.client.startswith("Collector") and (
        s.damage.kind == "drop" or same_but(s, "client"))


def same_records(s: Survivor) -> bool:
    """Return whether a manifest that nobody reads has the same records, as bodies."""
    return same_but(s, "body") and s.before.op in PUTS and s.before.key.endswith(".manifest") and (
        unread(s.before.key, s.rest) and bodies(s.before.body) == bodies(s.after.body))


def bodies(manifest: bytes) -> Any:
    """Return a manifest's fields, with the bodies of its records in any order."""
    fields = json.loads(manifest or b"{}")
    return fields | {"flushed": sorted(record["body"] for record in fields.get("flushed", ()))}


KNOWLEDGE = Knowledge(held=2, equivalences={
    **OF_ALL,
    "need not list": ("a collector may delete all ids up to replay_after, listed or not", need_not_list),
    "same records": ("nobody reads the manifest, and its records have the same bodies", same_records),
})
