"""The answers of a metadata index to those who add blocks and compact them: those of traces/protocols/metadata_fsm_calls.py."""

from highwater.traces.protocols import metadata_fsm_calls

CALLS = {call: metadata_fsm_calls.CALLS[call] for call in ("add", "get", "poll", "transfer")}
JUDGES = metadata_fsm_calls.JUDGES
