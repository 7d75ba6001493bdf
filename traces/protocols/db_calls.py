"""The answers that the callers of a database may get: of a writer, a reader, a checkpoint, a compactor, a collector (impl/db).

`NoLatest` and `NoDatabase`: nobody has opened the database yet.
"""

from highwater.traces.calls import (
    DEFINITE,
    FILES,
    NEVER,
    NONE,
    PERHAPS,
    Answer,
    Calls,
    definite,
    fault,
    indefinite,
    returns,
    with_timeouts,
)

TRY_AGAIN = "nothing is done: call again"


def failing(*names: str, means: str = TRY_AGAIN) -> dict[str, Answer]:
    """Return definite errors of calls that make no named update."""
    return {name: definite("failed", means, NONE) for name in names}


def doubtful(means: str) -> dict[str, Answer]:
    return {"OutcomeUnknown": indefinite("in doubt", means, NONE)}


def damaged(told: str, doubt: str = "in doubt", update: str = NONE) -> dict[str, Answer]:
    """Return the errors that name an object which somebody has damaged or deleted."""
    means = "an object is damaged or gone: mend it, and call again"
    return {
        **{name: fault(told, means, update, DEFINITE) for name in (
            *FILES, "InvalidFile", "DamagedBuffer", "DamagedObject", "NewerFields", "NoLatest", "NotFound")},
        **{name: fault(doubt, means, PERHAPS if update else NONE) for name in ("InvalidBoundary", "BoundaryLost")},
    }


FENCED = "another writer has opened: open another one"
OF_AN_OPEN_WRITER = {**damaged("failed"), **failing("FencedUnapplied", "Closed", means=FENCED), **failing("Unavailable")}
NO_CLONE = failing("NotInitialized", means="it is a clone that is not complete: finish it first")
DESTROYED = failing("DatabaseDestroyed", means="the database was destroyed: only what is listed can still be deleted")
OF_AN_UPDATE = {**damaged("failed"), **failing("NoLatest", "Unavailable"), **DESTROYED,
                **doubtful("it may be listed: call again with the same id")}
OF_FEW_ATTEMPTS = failing("ObjectVersionExists", means="others have put each next manifest first: call again")
LOST = "the checkpoint is not listed any more, or its lease has ended: take another one"
CALLS: Calls = with_timeouts({
    "open": {
        "Db": returns("opened", "the writer has all rows that were acknowledged before", "epoch", update=NONE),
        **damaged("failed"),
        **failing("FencedUnapplied", "UpdateConflict", "Unavailable", "NoLatest"), **DESTROYED, **NO_CLONE,
        **doubtful("it is not open; an epoch may be claimed, so that other writers are fenced"),
    },
    "write": {
        "int": returns("written", "the batch is durable, with this number", "rows"),
        **damaged("not written", update=NEVER),
        "FencedUnapplied": definite("not written", FENCED), "Closed": definite("not written", FENCED),
        "Unavailable": definite("not written", TRY_AGAIN, NEVER),
        "OutcomeUnknown": indefinite("in doubt", "the batch may be there: open another writer, and read", PERHAPS),
    },
    **{call: {"NoneType": returns("done", "all that was written before is in SSTs", update=NONE), **OF_AN_OPEN_WRITER,
              **doubtful("the rows are in the WAL or in SSTs: open another writer")} for call in ("flush", "poll")},
    "checkpoint": {
        "str": returns("taken", "the checkpoint has all that was written before the call", "checkpoint",
                       update=NONE),
        **OF_AN_OPEN_WRITER, **OF_AN_UPDATE,
    },
    **{call: {"tuple": returns("read", "what the newest rows show", update=NONE), **OF_AN_OPEN_WRITER,
              **failing("CannotRead", means=LOST)} for call in ("get", "scan")},
    "follow": {"NoneType": returns("opened", "the reader shows all that was acknowledged before", "checkpoint", update=NONE),
               **OF_AN_UPDATE, **OF_FEW_ATTEMPTS, **failing("NotReadable", "CheckpointEnded", means=LOST), **NO_CLONE},
    "view": {"NoneType": returns("opened", "the reader shows what the checkpoint keeps", "checkpoint", update=NONE),
             **damaged("failed"),
             **failing("CheckpointMissing", "CheckpointEnded", "NotReadable", means=LOST),
             **failing("NoLatest", "Unavailable", "NotFound")},
    "take": {**dict.fromkeys(("Committed", "Recognised"), returns(
        "taken", "the checkpoint is listed", "checkpoint", update=NONE)),
             **OF_AN_UPDATE, **OF_FEW_ATTEMPTS},
    **{call: {**dict.fromkeys(("Committed", "Recognised"), returns(
        "done", "the checkpoint is changed", "checkpoint", update=NONE)),
              **failing("CheckpointMissing", "CheckpointEnded", means=LOST), **OF_AN_UPDATE, **OF_FEW_ATTEMPTS}
       for call in ("refresh", "delete")},
    "begin": {"int": returns("opened", "the compactor has this epoch", "epoch", update=NONE), **NO_CLONE,
              **OF_AN_UPDATE, **OF_FEW_ATTEMPTS,
              "FencedInDoubt": indefinite("ended", "another compactor has opened", NONE)},
    "compact": {
        "Compaction": returns("compacted", "the result is in the manifest", "compaction", "outputs", update=NONE),
        "NoneType": returns("done", "there is nothing to compact", update=NONE),
        **OF_AN_UPDATE, **failing("CannotRead"),
        "InputMissing": indefinite("in doubt", "the manifest has not what was claimed: an operator has to look", NONE),
        "FencedInDoubt": indefinite("ended", "another compactor has opened", NONE),
    },
    "collect": {"Plan": returns("collected", "these are deleted", "deleted", update=NONE),
                **failing("NoDatabase", "CheckpointGone"), **OF_AN_UPDATE},
    "clone": {
        **dict.fromkeys(("Committed", "Recognised"), returns("cloned", "the clone is initialized, and pinned", update=NONE)),
        **OF_AN_UPDATE,
        **failing("CheckpointMissing", "CheckpointEnded", "SourceBehind", "WalObjectMissing", "NotFound",
                  means="the source is gone, or too old: begin again from another one"),
        **failing("OtherParent", "NotPinned", "NotInitialized", means="there is no such clone, and there will be none"),
        "AttemptReplaced": indefinite("in doubt", "another cloner has begun again: call again", NONE),
        "ObjectVersionBehindBoundary": indefinite("in doubt", "there was a database at the clone's path, or there is", NONE),
    },
    "detach": {"list": returns("detached", "these finals are gone, and their entries", "finals", update=NONE), **OF_AN_UPDATE,
               **failing("NotInitialized", "NotFound")},
    "mark": {
        **dict.fromkeys(("Committed", "Recognised"), returns("marked", "the database is marked as destroyed", update=NONE)),
        **OF_AN_UPDATE, "InvalidDeletion": definite("pinned", "a checkpoint is listed, perhaps a clone's", NONE),
    },
    "fence": {"int": returns("done", "no writer appends anything any more", update=NONE),
              **damaged("failed"), **failing("Unavailable"),
              **doubtful("the fence may be there: call again")},
    "finish": {
        "list": returns("destroyed", "nothing is left but the tombstone", update=NONE), **OF_AN_UPDATE,
        "InvalidDeletion": definite("pinned", "a checkpoint is listed, perhaps a clone's", NONE),
        **dict.fromkeys(("GraceRuns", "NotMarked"), definite("waits", "it is not time yet: call again later", NONE)),
    },
})
WORDS = (*dict.fromkeys(answer.told for answers in CALLS.values() for answer in answers.values()), "closed")
