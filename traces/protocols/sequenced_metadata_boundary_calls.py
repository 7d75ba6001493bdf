"""The answers that each call of impl/protocols/sequenced_metadata_boundary.py and update_ids.py may give, and what is true
then."""

from highwater.traces.calls import (
    DEFINITE,
    FILES,
    NEVER,
    NONE,
    PERHAPS,
    Answer,
    Calls,
    Claim,
    content,
    definite,
    fault,
    in_call,
    indefinite,
    returns,
    unreadable,
    with_timeouts,
)
from highwater.traces.calls import JUDGES as COMMON
from highwater.traces.event import Event
from highwater.traces.trace import Trace

EMPTY = "there is no file, or the latest cannot be read although it is listed: initialise it, or call again"

LOOK = "do not repeat it by itself: read the latest value and look for the update; with an id, `update_once` does this"


def faults(told: str, update: str, indefinitely: str) -> dict[str, Answer]:
    """Return the errors that every call may raise: of reads, and of a namespace that somebody else has changed."""
    return {
        "Unavailable": definite(told, "call again", update),
        "NoLatest": definite(told, EMPTY, update),
        **unreadable(told, update, *FILES, "InvalidManifest"),
        "InvalidBoundary": fault(indefinitely, "the boundary is none that a collector writes: stop, and mend it", PERHAPS
                                      if update else NONE),
        "BoundaryLost": fault(indefinitely, "the boundary is gone: stop, and restore it", PERHAPS if update else NONE),
    }


UPDATE = {
    "Committed": returns("committed", "the named file holds it, and every later one", "content", "attempts"),
    "ObjectVersionExists": definite("failed", "other clients were faster in every attempt: try again, or later", NEVER,
                                    "attempts"),
    **faults("failed", NEVER, "unknown"),
    "ObjectVersionBehindBoundary": indefinite("refused", f"the writer was too slow; {LOOK}"),
    "OutcomeUnknown": indefinite("unknown", LOOK),
}
RECOGNISED = {
    **UPDATE,
    "Recognised": returns("recognised", "an earlier attempt has committed it: the returned value holds it", "value"),
    "OutcomeUnknown": indefinite("unknown", "call again with the same id, from another process if need be: it finds out"),
    "ObjectVersionBehindBoundary": indefinite("unknown", "call again with the same id: it finds out"),
}
SESSION = {
    **RECOGNISED,
    "SessionForgotten": indefinite("unknown", "open another session, and look at the content"),
}
GONE = definite("not read", "the file is gone: a collector has deleted it", NONE)
READ = {"NotFound": GONE, **faults("not read", NONE, "not read")}
WITHOUT_DOUBT = {
    "Unavailable": definite("not deleted", "call again: a round may be repeated after any error", NONE),
    **unreadable("not deleted", NONE, *FILES),
    "InvalidBoundary": fault("not deleted", "the boundary is none that a collector writes: stop, and mend it", NONE),
    "BoundaryLost": fault("not deleted", "the boundary is gone: stop, and restore it", NONE),
}
COLLECT = {
    **WITHOUT_DOUBT,
    "list": returns("deleted", "these ids, and no others, are deleted by this round", "deleted", update=NONE),
    "InvalidManifest": fault("not deleted", "the latest file is none of this codec's: call again after it is mended", NONE,
                             DEFINITE),
    "OutcomeUnknown": indefinite("not deleted", "the boundary could not be advanced: call again", NONE),
}
CALLS: Calls = with_timeouts({
    "initialise": {
        "NoneType": returns("initialised", "there is a first file, or there was one", update=NONE),
        **{name: answer._replace(told="not initialised", update=NONE) for name, answer in UPDATE.items()
           if answer.kind != "returned" and not name.startswith("ObjectVersion") and name != "NoLatest"},
    },
    "update": UPDATE,
    "update_once": RECOGNISED,
    "update_recognised": RECOGNISED,
    "drop_ended": RECOGNISED,
    "open": RECOGNISED,
    "again": SESSION,
    "current": {"Committed": returns("read", "every update that was reported before the call is in it", update=NONE), **READ},
    "read": {"Manifest": returns("read", "the value of the file with this id", update=NONE), **READ},
    "advance_boundary": {
        "NoneType": returns("advanced", "the durable boundary is at least this", update=NONE), **WITHOUT_DOUBT,
        "OutcomeUnknown": indefinite("not deleted", "the boundary may be advanced or not: call again", NONE),
    },
    "collect": COLLECT,
})


def right_value(trace: Trace, e: Event, value: str) -> str:
    """The returned value is what this call got under a key. `value`: the key, and the content."""
    found = any([old.key, content(old.body)] == value.split() for old in in_call(trace, e) if old.op == "get")
    return "" if found else "this call has got no such content"


def right_deletes(trace: Trace, e: Event, value: str) -> str:
    return COMMON["deleted"](trace, e, value) if e.client.startswith("Collector") else "only a collector deletes"


JUDGES: dict[str, Claim] = {**COMMON, "value": right_value, "deleted": right_deletes}
