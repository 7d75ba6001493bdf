"""The answers that each call of impl/protocols/manifest_epochs.py may give, and what is true then."""

from itertools import islice, takewhile

from highwater.traces.calls import (
    DEFINITE,
    DONE,
    FILES,
    NEVER,
    NONE,
    Answer,
    Calls,
    Claim,
    definite,
    fault,
    indefinite,
    own,
    returns,
    unreadable,
    with_timeouts,
)
from highwater.traces.calls import JUDGES as COMMON
from highwater.traces.event import Event
from highwater.traces.trace import Trace

EMPTY = "there is no manifest: initialise the database, then call again"
GONE = "a manifest that was listed is gone, and nobody may delete one: restore it, or call again to begin with the latest"
READ = {
    "Unavailable": definite("not read", "call again", NONE),
    "NoLatest": definite("not read", EMPTY, NONE),
    "NotFound": fault("not read", GONE, NONE, DEFINITE),
    **unreadable("not read", NONE, *FILES, "InvalidManifest"),
}
INITIALISE = {
    "NoneType": returns("initialised", "there is a first manifest", update=NONE),
    "Unavailable": definite("not initialised", "call again"),
    **unreadable("not initialised", NEVER, *FILES),
    "OutcomeUnknown": indefinite("not initialised", "call again: a second first manifest is impossible", NONE),
}
OPEN = {
    "Committed": returns("opened", "the instance has its epoch", "content"),
    "ObjectVersionExists": definite("version_exists", "another instance was faster in every attempt: open another instance"),
    "Unavailable": definite("failed", "open again: after a failed read it starts over with LIST, after a refused create it "
                            "repeats the create"),
    "NoLatest": definite("failed", EMPTY),
    "NotFound": fault("failed", GONE, NEVER, DEFINITE),
    **unreadable("failed", NEVER, *FILES, "InvalidManifest"),
    "OutcomeUnknown": indefinite("unknown", "perhaps the manifest has an epoch that no instance has, which is harmless: open "
                                 "another instance"),
}
UPDATE = {
    "FencedUnapplied": definite("fenced", "close: the instance that opened since has taken over"),
    "FencedApplied": indefinite("fenced_applied", "close. For a flush: it was applied, its response was lost, and then another "
                                "writer opened. The effect of a compaction or collection is in the manifest, but the "
                                "successor may have produced it: a compactor must not keep its output because of this error "
                                "alone. The same update again gets the same error", DONE),
    "ObjectVersionExists": definite("version_exists", "the deadline came after a conflict: try again"),
    "InDoubt": definite("failed", "repeat the update that is in doubt first: it finds out"),
    "Unavailable": definite("failed", "call again: after a failed read it starts over with LIST, after a refused create it "
                            "repeats the create"),
    "NoLatest": definite("failed", EMPTY),
    "NotFound": fault("failed", GONE, NEVER, DEFINITE),
    **unreadable("failed", NEVER, *FILES, "InvalidManifest"),
    "OutcomeUnknown": indefinite("unknown", "repeat the same update, which finds out; any other update raises InDoubt until "
                                 "then"),
}


def update(told: str) -> dict[str, Answer]:
    return {"Committed": returns(told, "the named manifest holds it", "content"), **UPDATE}


NOTHING = {"NoneType": returns("nothing", "there was nothing to do", update=NONE)}
CALLS: Calls = with_timeouts({
    "initialise": INITIALISE,
    "open": OPEN,
    "flush": update("committed"),
    "compact": {**update("compacted"), **NOTHING},
    "drop_ended_checkpoints": {**update("collected"), **NOTHING},
    "poll": {"Polled": returns("read", "every flush that was reported before the call is in it", "content", "new",
                               update=NONE), **READ},
})


def right_news(trace: Trace, e: Event, value: str) -> str:
    """The SSTs that a poll calls new are those that no earlier poll of its reader returned. `value`: the number of its earlier
    polls, and the names. A reader without earlier polls is a new one."""
    number, *names = value.split()
    life = takewhile(lambda old: old.kind != "crash", own(trace, e.client))
    earlier = list(islice((old for old in life if old.op == "read"), int(number)))
    if int(number) and (not earlier or polls_before(earlier[0]) != int(number) - 1):
        return f"its reader has not returned {number} polls before"
    before = {name for old in earlier for name in old.body.split()}
    new = sorted(name.decode() for name in e.body.split() if name not in before)
    return "" if new == sorted(names) else f"{new} are new to this reader"


def polls_before(e: Event) -> int:
    """Return how many earlier polls of its reader a response counts; -1 if it has no such claim."""
    return next((int(claim.split("=")[1].split()[0]) for claim in e.keys if claim.startswith("new=")), -1)


JUDGES: dict[str, Claim] = {**COMMON, "new": right_news}
