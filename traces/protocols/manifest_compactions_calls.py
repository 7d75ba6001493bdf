"""The answers that each call of impl/protocols/manifest_compactions.py may give, and what is true then."""

from highwater.traces.calls import (
    FILES,
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
    right_value,
    unreadable,
    with_timeouts,
)
from highwater.traces.calls import (
    JUDGES as COMMON,
)


def errors(definitely: str, indefinitely: str, never: str = NEVER, perhaps: str = PERHAPS) -> dict[str, Answer]:
    return {
        "Unavailable": definite(definitely, "call again", never),
        "NoLatest": definite(definitely, "there is no file: initialise both, then call again", never),
        **unreadable(definitely, never, *FILES, "InvalidManifest", "InvalidCompactions"),
        "OutcomeUnknown": indefinite(indefinitely, "call again with the same arguments: it finds out", perhaps),
        "InvalidBoundary": fault(indefinitely, "a boundary is none that a collector writes: stop, and mend it", perhaps),
        "BoundaryLost": fault(indefinitely, "a boundary is gone: stop, and restore it", perhaps),
    }


FENCED = "a compactor that opened later is running: this one has ended, and the other one finds out what is done"
CALLS: Calls = with_timeouts({
    "initialise": {"NoneType": returns("initialised", "both have a first file", update=NONE),
                   **errors("not initialised", "not initialised", NONE, NONE)},
    "flush": {
        "Committed": returns("committed", "the SST is in every later manifest", "value"),
        "Recognised": returns("committed", "an earlier call has added the SST", "value"),
        **errors("failed", "unknown"),
    },
    "open": {"int": returns("opened", "both files have this epoch, or a higher one", update=NONE),
             "ObjectVersionExists": definite("not open", "other clients were faster in every attempt: call again", PARTLY),
             "FencedInDoubt": indefinite("not open", FENCED, PARTLY), **errors("not open", "not open", PARTLY, PARTLY),
             "ObjectVersionBehindBoundary": indefinite("not open", "a collector was faster each time: call again", PARTLY)},
    "compact": {"tuple": returns("compacted", "the result is in the manifest; nothing was done if it is empty", update=NONE),
                "FencedInDoubt": indefinite("fenced", FENCED, PARTLY),
                "InputMissing": indefinite("not compacted", "a claim that this protocol never makes: mend it", PARTLY),
                **errors("not compacted", "not compacted", PARTLY, PARTLY)},
    "collect": {"tuple": returns("deleted", "these ids, and no others, are deleted by this round", "deleted", update=NONE),
                **errors("not deleted", "not deleted", NONE, NONE)},
})


JUDGES: dict[str, Claim] = {**COMMON, "value": right_value}
