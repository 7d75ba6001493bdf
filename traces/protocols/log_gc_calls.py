"""The answers that each call of impl/protocols/log_gc.py may give, and what is true then."""

from highwater.traces.calls import (
    FILES,
    NEVER,
    NONE,
    Answer,
    Calls,
    Claim,
    by_model,
    definite,
    fault,
    in_call,
    indefinite,
    returns,
    unreadable,
    with_timeouts,
)
from highwater.traces.calls import (
    JUDGES as COMMON,
)
from highwater.traces.event import Event
from highwater.traces.trace import Trace


def broken(told: str, update: str = NONE) -> dict[str, Answer]:
    """Return the errors of a boundary that no collector has written."""
    answers = {
        "InvalidBoundary": fault(told, "the boundary is none that a collector writes: stop, and mend it"),
        "BoundaryLost": fault(told, "the boundary is gone: stop, and restore it"),
    }
    return answers if update else {name: answer._replace(update=NONE) for name, answer in answers.items()}


READ = {
    "Unavailable": definite("not read", "call again", NONE),
    "NotRecovered": definite("not read", "collectors were faster in every attempt: collect with a larger min_age", NONE,
                             "rounds"),
    **unreadable("not read", NONE, *FILES, "InvalidSnapshot"),
    **broken("not read"),
}
CALLS: Calls = with_timeouts({
    "append": {
        "int": returns("committed", "the entry has this id, in every later recovery", "content"),
        "Unavailable": definite("failed", "call again"),
        **unreadable("failed", NEVER, *FILES),
        "ObjectVersionBehindBoundary": indefinite("refused", "the appender was too slow. Do not append it again by itself: "
                                                  "recover, and look for it"),
        "OutcomeUnknown": indefinite("unknown", "do not append it again by itself: recover, and look for it"),
        **broken("unknown", NEVER),
    },
    "recover": {"Recovered": returns("read", "it has every entry that was reported before", "id", update=NONE), **READ},
    "snapshot": {
        "int": returns("snapshot", "a snapshot holds all entries up to this id", update=NONE),
        **READ,
        "OutcomeUnknown": indefinite("not read", "the snapshot may be there, now or later, which is harmless", NONE),
    },
    "collect": {
        "list": returns("deleted", "this round deleted the entries with these ids, and no others", "deleted", update=NONE),
        "Unavailable": definite("not deleted", "call again: a round may be repeated after any error", NONE),
        **unreadable("not deleted", NONE, *FILES),
        "OutcomeUnknown": indefinite("not deleted", "the boundary could not be advanced: call again", NONE),
        **broken("not deleted"),
    },
})


def right_deletes(trace: Trace, e: Event, value: str) -> str:
    """The ids that a round returns are those of entries, although it deletes snapshots as well."""
    deleted = {old.key for old in in_call(trace, e) if old.op == "delete" and old.key.endswith(".log")}
    return "" if sorted(deleted) == value.split() else f"this call has deleted {sorted(deleted)}"


def right_rounds(trace: Trace, e: Event, value: str) -> str:
    """A recovery gives up after so many rounds. Each begins with the first page of a listing of the snapshots."""
    _, snapshots = trace.namespace.listed
    rounds = sum(old.op == "list" and old.key == snapshots and not old.condition for old in in_call(trace, e))
    return "" if rounds == int(value) else f"this call has begun {rounds}"


JUDGES: dict[str, Claim] = {
    **COMMON, "rounds": right_rounds, "deleted": right_deletes,
    "id": by_model(lambda s, l, e, value: l.pc == "Done" and len(l.got) == int(value))}
