"""The answers that each call of impl/protocols/database_gc.py and database_gc_uploads.py may give, and what is true then."""

from highwater.traces.calls import (
    DEFINITE,
    FILES,
    JUDGES,
    NEVER,
    NONE,
    PARTLY,
    PERHAPS,
    Answer,
    Calls,
    Claim,
    definite,
    fault,
    indefinite,
    returns,
    unreadable,
    with_timeouts,
)

FENCED = "a compactor that opened later is running: this one has ended"
AGAIN = "call again"


def errors(definitely: str, indefinitely: str, never: str = NEVER, perhaps: str = PERHAPS) -> dict[str, Answer]:
    """Return the errors of a call that reads or changes a sequence."""
    return {
        "Unavailable": definite(definitely, AGAIN, never),
        "NoLatest": definite(definitely, "the latest file was collected each time before it could be read: call again", never),
        "OutcomeUnknown": indefinite(indefinitely, "it may be done, now or later", perhaps),
        "InvalidBoundary": fault(indefinitely, "a boundary is none that a collector writes: stop, and mend it", perhaps),
        "BoundaryLost": fault(indefinitely, "a boundary is gone: stop, and restore it", perhaps),
        **unreadable(definitely, never, *FILES, "InvalidManifest", "InvalidCompactions"),
    }


def changed(told: str, means: str) -> dict[str, Answer]:
    return {"Committed": returns(told, means), "Recognised": returns(told, "an earlier call has done it"),
            "CheckpointMissing": definite("not changed", "no such checkpoint is listed", NONE),
            **errors("not changed", "change unknown")}


CALLS: Calls = with_timeouts({
    "append": {"int": returns("logged", "the WAL object with this id is there", update=NONE),
               **errors("not logged", "not logged", NONE, NONE)},
    "flush": {"str": returns("flushed", "the SST was committed to L0"),
              "SstTooOld": definite("not flushed", "another writer was faster: upload another SST"),
              **errors("not flushed", "flush unknown")},
    "open": {"int": returns("opened", "both files have this epoch, or a higher one", update=NONE),
             "FencedInDoubt": indefinite("not open", FENCED, PARTLY),
             "ObjectVersionExists": definite("not open", "other clients were faster in every attempt: call again", PARTLY),
             "ObjectVersionBehindBoundary": indefinite("not open", "a collector was faster each time: call again", PARTLY),
             **errors("not open", "not open", PARTLY, PARTLY)},
    "compact": {"tuple": returns("compacted", "the outputs are in the manifest; nothing was done if it is empty", update=NONE),
                "FencedInDoubt": indefinite("fenced", FENCED, PARTLY),
                "InputMissing": indefinite("not compacted", "nobody but a compactor removes an input", PARTLY),
                **errors("not compacted", "not compacted", PARTLY, PARTLY)},
    "take_checkpoint": changed("taken", "the named manifest lists it, and so does every later one until it is dropped"),
    "renew_checkpoint": changed("renewed", "the checkpoint has the new expiry"),
    "drop_checkpoint": changed("dropped", "no later manifest lists the checkpoint"),
    "read_checkpoint": {"Read": returns("read", "the checkpoint's manifest and all that it names, or that it is not listed",
                                        update=NONE),
                        "NotFound": fault("not read", "an object of a listed checkpoint is gone", NONE, DEFINITE),
                        **errors("not read", "not read", NONE, NONE)},
    "collect": {"Plan": returns("deleted", "these objects, and no others, are deleted by this round", "deleted", update=NONE),
                "CheckpointGone": definite("not deleted", "a checkpoint was removed meanwhile: call again", NONE),
                "NoDatabase": fault("not deleted", "the database is gone", NONE, DEFINITE),
                **errors("not deleted", "not deleted", NONE, NONE)},
})
CLAIMS: dict[str, Claim] = {**JUDGES}
