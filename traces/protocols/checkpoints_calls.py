"""The answers that each call of impl/protocols/checkpoints.py may give, and what is true then."""

from highwater.traces.calls import (
    DEFINITE,
    NEVER,
    NONE,
    Answer,
    Calls,
    Claim,
    definite,
    fault,
    indefinite,
    returns,
    right_value,
    with_timeouts,
)
from highwater.traces.calls import JUDGES as COMMON
from highwater.traces.protocols import sequenced_metadata_boundary_calls as boundary
from highwater.traces.protocols.manifest_migration_calls import of_codec

RECOGNISED = "Recognised"  # the class of a result: an earlier call made the change
AGAIN = "call again with the same id: it finds out"
MISSING = definite("missing", "no such checkpoint is listed, and what it kept may be gone: take another one")
ENDED = definite("ended", "its lease is over by this client's clock: take another one")


def damaged(told: str, update: str) -> dict[str, Answer]:
    """Return the errors of a file that is none of the codec's."""
    return {name: fault(told, "the file is damaged, or of a later release: mend it", update, DEFINITE)
            for name in ("InvalidFile", "DamagedBuffer", "NewerFields", "CannotHold") if name in of_codec(told, update)}


def change(told: str, means: str, recognised: str) -> dict[str, Answer]:
    return {
        "Committed": returns(told, means, "value"),
        RECOGNISED: returns(told, recognised, "value"),
        "OutcomeUnknown": indefinite("unknown", AGAIN),
        "ObjectVersionBehindBoundary": indefinite("unknown", AGAIN),
        "ObjectVersionExists": definite("failed", "other clients were faster in every attempt: try again"),
        **boundary.faults("failed", NEVER, "unknown"),
        **damaged("failed", NEVER),
    }


DESTROYED = {"DatabaseDestroyed": definite("failed", "the database is marked as destroyed: it takes no checkpoints any more")}
LISTED = "an earlier call did it: the named manifest shows it"
CALLS: Calls = with_timeouts({
    "create": {**change("committed", "the named manifest lists it, and later ones do until it ends or is deleted", LISTED),
               "CheckpointMissing": MISSING, "CheckpointEnded": ENDED,
               "NotInitialized": definite("failed", "the database is a clone that is not complete: finish it first"),
               **DESTROYED},
    "refresh": {**change("renewed", "the checkpoint has the new expiry", LISTED), "CheckpointMissing": MISSING,
                "CheckpointEnded": ENDED, **DESTROYED},
    "delete": {**change("dropped", "no later manifest lists the checkpoint", LISTED), "CheckpointMissing": MISSING},
    "listed": {"tuple": returns("listed", "each checkpoint that was reported before the call, and is not deleted", update=NONE),
               **{name: answer for name, answer in boundary.READ.items() if name != "NotFound"}, **damaged("not read", NONE)},
    "update": {"Committed": returns("replaced", "the named manifest has the new SST", "value"),
               **{name: answer for name, answer in change("", "", "").items() if answer.told in ("unknown", "failed")}},
    "collect": {
        "tuple": returns("deleted", "these ids and SSTs, and no others, are deleted by this round", "deleted", update=NONE),
        **{name: answer for name, answer in boundary.COLLECT.items() if name != "list"},
        "NoLatest": definite("not deleted", boundary.EMPTY, NONE),
        "ObjectVersionBehindBoundary": indefinite("not deleted", "a collector was faster each time: call again", NONE),
        **damaged("not deleted", NONE),
    },
})


JUDGES: dict[str, Claim] = {**COMMON, "value": right_value}
