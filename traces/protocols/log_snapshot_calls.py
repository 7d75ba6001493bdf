"""The answers of a group of one server, and what is true then: those of impl/raft/node.py, whose entries are on its disk."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from highwater.traces.calls import Claim
from highwater.traces.event import Event
from highwater.traces.protocols import raft_calls

CALLS = {call: raft_calls.CALLS[call] for call in ("propose", "read")}


def right_index(trace: Any, e: Event, value: str) -> str:
    """The entry at the index that the answer tells is the caller's, and its sync has returned."""
    s, index, name = trace.refiner.shared(), int(value), e.body.decode()
    number = s.committed[index - 1] if 0 < index <= len(s.committed) else 0
    if number in s.acked and trace.names[number] == name:
        return ""
    return f"in the model entry {index} is {trace.names.get(number) or 'none of a caller'}, and {len(s.acked)} are acknowledged"


JUDGES: Mapping[str, Claim] = MappingProxyType({"index": right_index})
