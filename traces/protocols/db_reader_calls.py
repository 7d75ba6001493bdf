"""The answers that each call of impl/protocols/db_reader.py, and of the writer beside it, may give, and what is true then."""

from typing import Any

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
    by_model,
    definite,
    fault,
    indefinite,
    returns,
    unreadable,
    with_timeouts,
)
from highwater.traces.event import Event

AGAIN = "call again"


def errors(told: str, unknown: str, never: str = NEVER, perhaps: str = PERHAPS) -> dict[str, Answer]:
    """Return the errors of a call that reads or changes the manifest."""
    return {
        "Unavailable": definite(told, AGAIN, never),
        "NoLatest": definite(told, "the latest file was collected each time before it could be read: call again", never),
        "OutcomeUnknown": indefinite(unknown, "it may be done, now or later", perhaps),
        "InvalidBoundary": fault(unknown, "the boundary is none that a collector writes: stop, and mend it", perhaps),
        "BoundaryLost": fault(unknown, "the boundary is gone: stop, and restore it", perhaps),
        **unreadable(told, never, *FILES, "InvalidManifest", "InvalidRows"),
    }


def right_rows(s: Any, l: Any, e: Event, value: str) -> bool:
    """Tell whether the rows are those of the scan's view: "7" stands for the rows 1 to 7."""
    return value == str(max((l.scan.upto, *l.scan.rows)))


CALLS: Calls = with_timeouts({
    "open": {"View": returns("opened", "the reader shows this checkpoint", update=NONE),
             "NotReadable": definite("not open", "its checkpoint was dropped before the WAL was replayed: call again", PARTLY),
             "NotFound": definite("not open", "its checkpoint was dropped at once: call again", PARTLY),
             "CheckpointMissing": definite("not open", "no such checkpoint is listed", NONE),
             "CheckpointEnded": definite("not open", "the lease of this checkpoint is over: take another one", PARTLY),
             "NotInitialized": definite("not open", "the database is a clone that is not complete: finish it first", NONE),
             "ObjectVersionExists": definite("not open", "other clients were faster in every attempt: call again", PARTLY),
             "ObjectVersionBehindBoundary": indefinite("not open", "a collector was faster each time: call again", PARTLY),
             **errors("not open", "not open", PARTLY, PARTLY)},
    "rows": {"list": returns("scanned", "all rows of the checkpoint on which the scan began", "rows", update=NONE),
             "NotReadable": definite("lost", "the checkpoint was dropped: begin another scan", NONE),
             "NotOpen": definite("not read", "the reader is not open: open another one", NONE),
             **{name: answer for name, answer in errors("not read", "not read", NONE, NONE).items()
                if name in ("Unavailable", "InvalidRows")}},
    "append": {"int": returns("logged", "the WAL object with this id is there", update=NONE),
               **errors("not logged", "not logged", NONE, NONE)},
    "flush": {"str": returns("flushed", "the SST is in L0, or there was nothing to flush"),
              "UpdateConflict": definite("not flushed", "another writer was faster"),
              **errors("not flushed", "flush unknown")},
    "compact": {"str": returns("compacted", "the SST is in the place of all others, or there was nothing to compact"),
                "UpdateConflict": definite("not compacted", "the SSTs are others by now"),
                "NotFound": fault("not compacted", "an SST of the latest manifest is gone", NEVER, DEFINITE),
                **errors("not compacted", "compaction unknown")},
    "collect": {"Plan": returns("deleted", "these objects, and no others, are deleted by this round", "deleted", update=NONE),
                "CheckpointGone": definite("not deleted", "a checkpoint was removed meanwhile: call again", NONE),
                "NoDatabase": fault("not deleted", "the database is gone", NONE, DEFINITE),
                **unreadable("not deleted", NONE, "InvalidCompactions"),
                **errors("not deleted", "not deleted", NONE, NONE)},
})
CLAIMS: dict[str, Claim] = {**JUDGES, "rows": by_model(right_rows)}
