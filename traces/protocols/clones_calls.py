"""The answers that each call of impl/protocols/clones.py may give, and what is true then."""

from collections.abc import Mapping

from highwater.traces.calls import (
    DEFINITE,
    JUDGES,
    NEVER,
    NONE,
    PARTLY,
    RETURNED,
    Answer,
    Calls,
    Claim,
    definite,
    fault,
    indefinite,
    returns,
    with_timeouts,
)
from highwater.traces.protocols.checkpoints_calls import CALLS as CHECKPOINTS
from highwater.traces.protocols.checkpoints_calls import damaged

AGAIN = "call again: it continues what it finds"
ELSE = "begin again from another source"


def partly(told: str) -> dict[str, Answer]:
    """Return the errors of a call that makes several updates, of which some may be made."""
    return {
        "OutcomeUnknown": indefinite(told, AGAIN, PARTLY),
        "ObjectVersionBehindBoundary": indefinite(told, AGAIN, PARTLY),
        "ObjectVersionExists": definite(told, "other clients were faster in every attempt: call again", PARTLY),
        "Unavailable": definite(told, AGAIN, PARTLY),
        "NoLatest": definite(told, "there is no database, or its files were collected too fast: call again", PARTLY),
        "InvalidBoundary": fault(told, "a boundary is none that a collector writes: stop, and mend it", PARTLY),
        "BoundaryLost": fault(told, "a boundary is gone: stop, and restore it", PARTLY),
        **{name: fault(told, "the file is damaged: mend it", PARTLY, DEFINITE)
           for name in (*damaged(told, NEVER), "ListingNeverEnds", "InvalidName", "InvalidId")},
    }


def renamed(call: str, done: str, failed: str) -> dict[str, Answer]:
    """Return the answers of a call of checkpoints in words of this scenario, without claims."""
    def told(answer: Answer) -> str:
        return done if answer.kind == RETURNED else failed if answer.update == NEVER else answer.told

    return {name: answer._replace(told=told(answer), claims=()) for name, answer in CHECKPOINTS[call].items()}


CALLS: Calls = with_timeouts({
    "clone": {
        "Committed": returns("cloned", "the clone is initialized"),
        "Recognised": returns("cloned", "another call has initialized the clone"),
        "CheckpointMissing": definite("not cloned", f"the source is not listed: {ELSE}", PARTLY),
        "CheckpointEnded": definite("not cloned", f"the source has ended: {ELSE}", PARTLY),
        "NotFound": definite("not cloned", f"the source was collected meanwhile: {ELSE}", PARTLY),
        "WalObjectMissing": definite("not cloned", f"the source was collected meanwhile: {ELSE}", PARTLY),
        "NotInitialized": definite("not cloned", "the parent is a clone that is not complete: finish it first", PARTLY),
        "DatabaseDestroyed": definite("not cloned", "the parent is marked as destroyed", PARTLY),
        "OtherParent": definite("not cloned", "the path has a clone of something else: use another path", PARTLY),
        "SourceBehind": definite("not cloned", "take a later checkpoint", PARTLY),
        "NotPinned": definite("not cloned", "what the clone names may be gone: restore the parent", PARTLY),
        "AttemptReplaced": indefinite("not cloned", "another cloner has begun again: call again", PARTLY),
        **partly("not cloned"),
    },
    "detach": {
        "list": returns("detached", "these finals are not listed, and the clone has no entries of them", update=NONE),
        "NotInitialized": definite("not detached", "the clone is not complete: finish it first", PARTLY),
        "NotFound": definite("not detached", "a checkpoint was removed meanwhile: call again", PARTLY),
        **partly("not detached"),
    },
    "create": renamed("create", "taken", "not changed"),
    "delete": renamed("delete", "dropped", "not changed"),
    "flush": renamed("update", "flushed", "not flushed"),
    "append": {"int": returns("logged", "the WAL object with this id is there", update=NONE),
               "Unavailable": definite("not logged", "call again", NONE),
               **{name: fault("not logged", "the listing is damaged: mend it", NONE, DEFINITE)
                  for name in ("ListingNeverEnds", "InvalidName", "InvalidId")}},
    "open": {"Committed": returns("open", "the database is initialized", update=NONE),
             "NotInitialized": definite("not open", "the clone is not complete: call again", NONE),
             **{name: answer._replace(told="not open", update=NONE) for name, answer in partly("not open").items()
                if name not in ("OutcomeUnknown", "ObjectVersionExists", "ObjectVersionBehindBoundary")}},
    "collect": CHECKPOINTS["collect"],
})
CLAIMS: Mapping[str, Claim] = JUDGES
