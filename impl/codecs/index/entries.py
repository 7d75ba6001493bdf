"""Safety: an entry of the log is a command of a kind that we know, or it is refused. A newer kind is never skipped.

The body of an entry is `be_u32 kind | message`.
"""

import struct
from typing import Any

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index.messages import AddBlock, GetPlan, Truncate, UpdatePlan, decode, encode

KIND = struct.Struct(">I")
ADD_BLOCK, GET_PLAN, UPDATE_PLAN, TRUNCATE = range(1, 5)
KINDS = {ADD_BLOCK: AddBlock, GET_PLAN: GetPlan, UPDATE_PLAN: UpdatePlan, TRUNCATE: Truncate}
LEVEL = 1  # of the machine (impl/level.py): raise it with each new kind
KIND_OF = {message: kind for kind, message in KINDS.items()}


class UnknownEntry(Undecodable):
    """An entry of a kind that this release does not know."""


def entry(command: Any) -> bytes:
    """Return the body of the log entry with this command, a message of one of the classes in KINDS."""
    return KIND.pack(KIND_OF[type(command)]) + encode(command)


def command_of(body: bytes) -> Any:
    """Return the command of an entry. Raises UnknownEntry, DamagedMessage."""
    if len(body) < KIND.size:
        raise UnknownEntry(f"{len(body)} bytes are too few for an entry", field="kind")
    (kind,) = KIND.unpack_from(body)
    if kind not in KINDS:
        raise UnknownEntry(f"kind {kind}, and this highwater, whose index has level {LEVEL}, knows kinds {min(KINDS)} to "
                           f"{max(KINDS)}: start the version that wrote it", field="kind")
    return decode(KINDS[kind], body[KIND.size:], "command")
