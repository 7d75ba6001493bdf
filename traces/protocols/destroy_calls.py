"""The answers that each call of impl/protocols/destroy.py may give, and what is true then."""

from highwater.traces.calls import (
    FILES,
    PARTLY,
    Answer,
    Calls,
    Claim,
    definite,
    indefinite,
    returns,
    right_value,
    unreadable,
    with_timeouts,
)
from highwater.traces.calls import JUDGES as COMMON
from highwater.traces.protocols import checkpoints_calls as checkpoints
from highwater.traces.protocols import sequenced_metadata_boundary_calls as boundary

GONE = "the database is destroyed, or about to be: its boundary is ahead of every id"
DESTROYED = definite("refused", "the database is marked as destroyed: use another one")
AGAIN = "call again: it goes on where it stopped"


def sealed(answers: dict[str, Answer]) -> dict[str, Answer]:
    """Return the answers of a call on a database that may be sealed meanwhile."""
    return {**answers, "InvalidBoundary": indefinite("unknown", GONE)}


CALLS: Calls = with_timeouts({
    "create": sealed({**checkpoints.CALLS["create"], "DatabaseDestroyed": DESTROYED}),
    "delete": sealed({**checkpoints.CALLS["delete"]}),
    "commit": sealed({
        **{name: answer for name, answer in boundary.UPDATE.items() if name != "Committed"},
        "Committed": returns("committed", "the named manifest has the new SST", "value"),
        "Recognised": returns("committed", "an earlier call did it", "value"),
        "ObjectVersionExists": definite("failed", "other clients were faster in every attempt: try again"),
        "ObjectVersionBehindBoundary": indefinite("unknown", GONE),
        "FencedInDoubt": indefinite("fenced", "close: another writer has opened since, or the database is destroyed")}),
    "mark": sealed({
        **checkpoints.change("marked", "the named manifest has the mark, and every later one", "an earlier call did it"),
        "InvalidDeletion": definite("pinned", "a checkpoint is listed: delete it first, or destroy the clone that needs it")}),
    "finish": {
        "list": returns("destroyed", "nothing is left but the tombstone, and what is under way; these keys this call deleted",
                        "deleted"),
        "NotMarked": definite("not marked", "nobody has marked the database: nothing is deleted"),
        "GraceRuns": definite("waits", "the grace is not over: nothing is deleted"),
        "InvalidDeletion": definite("pinned", "a checkpoint is listed: nothing is deleted"),
        "Unavailable": definite("failed", AGAIN, PARTLY), "NoLatest": definite("failed", AGAIN, PARTLY),
        **unreadable("failed", PARTLY, *FILES, "InvalidManifest"),
        "InvalidBoundary": indefinite("unknown", AGAIN, PARTLY), "OutcomeUnknown": indefinite("unknown", AGAIN, PARTLY),
        "ObjectVersionBehindBoundary": indefinite("unknown", AGAIN, PARTLY),
        "BoundaryLost": boundary.WITHOUT_DOUBT["BoundaryLost"]._replace(told="unknown", update=PARTLY),
    },
})
JUDGES: dict[str, Claim] = {**COMMON, "value": right_value}
