"""The answers that each call of impl/protocols/wal_fencing.py may give, and what is true then."""

from itertools import takewhile

from highwater.traces.calls import (
    APPLIED,
    NEVER,
    NONE,
    PARTLY,
    Calls,
    Claim,
    by_model,
    definite,
    fault,
    indefinite,
    own,
    returns,
    unreadable,
    with_timeouts,
    within,
)
from highwater.traces.calls import (
    JUDGES as COMMON,
)
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS
from highwater.traces.trace import Trace

OTHER = "open another writer, whose records tell"
LOST = "the manifest is gone: stop, and restore it"
CALLS: Calls = with_timeouts({
    "open": {
        "Wal": returns("opened", "it has every record that was reported before the call", update=NONE),
        "WalKv": returns("opened", "each key has the latest value that was reported before the call", update=NONE),
        "UpdateConflict": definite("not open", "other writers were faster in every attempt: open another one", NONE,
                                          "attempts"),
        "FencedUnapplied": definite("not open", "a later writer has taken over; this one may have fenced an earlier one",
                                    PARTLY),
        "Unavailable": definite("not open", "open another writer; this one may have fenced an earlier one", PARTLY),
        **unreadable("not open", PARTLY, "ListingNeverEnds", "InvalidName", "InvalidId"),
        "OutcomeUnknown": indefinite("not open", "open another writer; this one may have fenced an earlier one", PARTLY),
        "InvalidWal": fault("not open", "an object is none of this protocol's: call again after it is mended", PARTLY),
        "ManifestLost": fault("not open", LOST, PARTLY),
    },
    "append": {
        "Record": returns("committed", "the record is in every later recovery", "epoch"),
        "NoneType": returns("committed", "the put of the store of keys and values is in every later recovery"),
        "FencedUnapplied": definite("fenced", "a later writer has taken over: the record is in no log"),
        "Closed": definite("failed", "this writer had stopped, and sent nothing: open another one"),
        "Unavailable": definite("failed", "call again"),
        "InvalidId": definite("failed", "the ids are used up"),
        "OutcomeUnknown": indefinite("unknown", OTHER),
    },
    "flush": {
        "NoneType": returns("flushed", "all records up to the last one are in the manifest", update=NONE),
        "FencedUnapplied": definite("not flushed", "a later writer has taken over; this flush changed nothing", NONE,
                                    "unapplied"),
        "Closed": definite("not flushed", "this writer had stopped, and sent nothing: open another one", NONE),
        "OutcomeUnknown": indefinite("not flushed", "acknowledged records stay durable; open another writer", NONE),
    },
    "checkpoint": {
        "WalCheckpoint": returns("checkpointed", "collectors spare the WAL objects of all records that are not flushed",
                                 update=NONE),
        "FencedUnapplied": definite("not checkpointed", "a later writer has taken over; no checkpoint was taken", NONE,
                                    "unapplied"),
        "Closed": definite("not checkpointed", "this writer had stopped, and sent nothing: open another one", NONE),
        "OutcomeUnknown": indefinite("not checkpointed", "it may be listed: open another writer, and look in its manifest",
                                     NONE),
    },
    "drop": {
        "NoneType": returns("dropped", "the checkpoint is not listed", update=NONE),
        "FencedUnapplied": definite("not checkpointed", "a later writer has taken over; this call dropped nothing", NONE,
                                    "unapplied"),
        "Closed": definite("not checkpointed", "this writer had stopped, and sent nothing: open another one", NONE),
        "OutcomeUnknown": indefinite("not checkpointed", "it may be dropped: open another writer, and drop it again", NONE),
    },
    "read": {
        "Known": returns("read", "the manifest", update=NONE),
        "Unavailable": definite("not read", "call again", NONE),
        "InvalidWal": fault("not read", "the manifest is none of this protocol's: mend it", NONE),
    },
    "read_again": {
        "Known": returns("read", "the manifest", update=NONE),
        "Unavailable": definite("not read", "call again", NONE),
        "InvalidWal": fault("not read", "the manifest is none of this protocol's: mend it", NONE),
        "ManifestLost": fault("not read", LOST, NONE),
    },
    "put": {
        "Known": returns("put", "the manifest is put"),
        "AlreadyExists": definite("not put", "another client has put one: read it", NEVER),
        "PreconditionFailed": definite("not put", "another client has changed it: read it", NEVER),
        "Unavailable": definite("not put", "call again", NEVER),
        "OutcomeUnknown": indefinite("put unknown", "read it"),
    },
    "collect": {
        "list": returns("deleted", "these ids, and no others, are deleted by this round", "deleted", update=NONE),
        "Unavailable": definite("not deleted", "call again: a round may be repeated after any error", NONE),
        **unreadable("not deleted", NONE, "ListingNeverEnds", "InvalidName", "InvalidId"),
        "InvalidWal": fault("not deleted", "the manifest is none of this protocol's: mend it", NONE),
    },
})


def is_unapplied(trace: Trace, e: Event, value: str) -> str:
    """No put of the call may have been applied. A put of an earlier call may arrive in this one."""
    sent = [old for old in takewhile(within, own(trace, e.client)) if old.op in MUTATIONS and old.awaited]
    perhaps = any(old.status in (*APPLIED, 503) or old.kind == "timeout" for old in sent)
    return "a put of this call was applied, or may have been" if perhaps else ""


JUDGES: dict[str, Claim] = {
    **COMMON, "epoch": by_model(lambda s, l, e, value: l.epoch == int(value)), "unapplied": is_unapplied}
