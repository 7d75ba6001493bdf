"""The answers that each call of impl/protocols/database_metadata.py may give, and what is true then.

The calls are those of the parts. A writer's manifest is a sequence with a boundary, so its calls may also raise the errors of a
sequence.
"""

from highwater.traces.calls import (
    DEFINITE,
    FILES,
    NEVER,
    NONE,
    PARTLY,
    Answer,
    Calls,
    Claim,
    by_model,
    definite,
    fault,
    indefinite,
    returns,
    with_timeouts,
)
from highwater.traces.event import Event
from highwater.traces.protocols import manifest_compactions_calls as compaction
from highwater.traces.protocols import sequenced_metadata_boundary_calls as boundary
from highwater.traces.protocols import wal_fencing_calls as wal
from highwater.traces.trace import Trace

OF_MANIFESTS = (*FILES, "NoLatest", "InvalidManifest", "InvalidBoundary", "BoundaryLost")
LEFT_OUT = ("ManifestLost",)  # the WAL has no manifest of its own that could be lost


def writer(call: str, definitely: str, indefinitely: str, update: str) -> dict[str, Answer]:
    """Return the answers of a writer's call: those of the WAL's, and the errors of a sequence of manifests."""
    errors = boundary.faults(definitely, update, indefinitely)
    return {**{name: errors[name] for name in OF_MANIFESTS},
            **{name: answer for name, answer in wal.CALLS[call].items() if name not in LEFT_OUT}}


def operator(told: str, means: str, recognised: str) -> dict[str, Answer]:
    return {
        "Committed": returns(told, means),
        "Recognised": returns(told, recognised),
        "OutcomeUnknown": indefinite("change unknown", "call again with the same id: it finds out"),
        "ObjectVersionBehindBoundary": indefinite("change unknown", "call again with the same id: it finds out"),
        "ObjectVersionExists": definite("not changed", "other clients were faster in every attempt: try again"),
        **boundary.faults("not changed", NEVER, "change unknown"),
    }


TAKEN = "an earlier call has taken it: the named manifest lists it"
MISSING = definite("not changed", "no such checkpoint is listed: take another one")
CALLS: Calls = with_timeouts({
    "initialise": compaction.CALLS["initialise"],
    "open": writer("open", "not open", "not open", PARTLY),
    "append": writer("append", "failed", "unknown", NEVER),
    "flush": writer("flush", "not flushed", "not flushed", NONE),
    "open_compactor": compaction.CALLS["open"],
    "compact": compaction.CALLS["compact"],
    "current": boundary.CALLS["current"],
    "take_checkpoint": {
        **operator("taken", "the named manifest lists it, and so does every later one until it is dropped", TAKEN),
        "CheckpointMissing": definite("not changed", "it was taken, and is dropped already: take another one", NONE),
    },
    "renew_checkpoint": {**operator("renewed", "the checkpoint has the new expiry", "an earlier call has renewed it"),
              "CheckpointMissing": MISSING},
    "drop_checkpoint": operator("dropped", "no later manifest lists the checkpoint", "the named manifest does not list it"),
    "drop_ended": operator("ended", "the checkpoints that had ended are dropped", "there was none"),
    "collect": {
        "tuple": returns("deleted", "these ids, and no others, are deleted by this round", "deleted", update=NONE),
        **{name: answer for name, answer in {**boundary.CALLS["collect"], **boundary.READ}.items() if name != "list"},
        **{name: answer._replace(told="not deleted") for name, answer in boundary.READ.items()},
        "OutcomeUnknown": indefinite("not deleted", "a boundary could not be advanced: call again", NONE),
        "InvalidCompactions": fault("not deleted", "the latest file is none of this codec's: mend it", NONE, DEFINITE),
    },
})


def right_epoch(trace: Trace, e: Event, value: str) -> str:
    """The record's epoch is the writer's in the model of the WAL."""
    return by_model(lambda s, l, _, epoch: l.epoch == int(epoch))(vars(trace)["wal"], e, value)


JUDGES: dict[str, Claim] = {**boundary.JUDGES, **compaction.JUDGES, **wal.JUDGES, "epoch": right_epoch}
