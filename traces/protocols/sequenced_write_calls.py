"""The answers that each call of impl/protocols/sequenced_write.py may give, and what is true then."""

from highwater.traces.calls import (
    DEFINITE,
    FILES,
    NEVER,
    NONE,
    Calls,
    definite,
    fault,
    indefinite,
    returns,
    unreadable,
    with_timeouts,
)

WRITE = {
    "ObjectVersionExists": definite("failed", "other clients were faster in every attempt: try again, or later", NEVER,
                                    "attempts"),
    "NotFound": fault("failed", "a file that was listed is gone, which nobody may do: call again", NEVER, DEFINITE),
    "NoLatest": fault("failed", "the store says that a file exists, and does not list it: call again later", NEVER, DEFINITE),
    "Unavailable": definite("failed", "call again"),
    **unreadable("failed", NEVER, *FILES, "InvalidManifest"),
    "OutcomeUnknown": indefinite("unknown", "do not repeat it by itself; read the files and look for its id"),
}
READ = {
    "NotFound": definite("not read", "a file is gone, or there was none with this id", NONE),
    "Unavailable": definite("not read", "call again", NONE),
    **unreadable("not read", NONE, *FILES, "InvalidManifest"),
}
ALL = "every update that was reported before the call is in it"
CALLS: Calls = with_timeouts({
    "update": {"Committed": returns("committed", "the named file holds it", "content", "attempts"), **WRITE},
    "append": {"int": returns("committed", "the entry is the file with this id", "content", "attempts"), **WRITE},
    "current": {
        "Committed": returns("read", ALL, "content", update=NONE),
        "NoneType": returns("read", "there is no file: no update was reported before the call", update=NONE),
        **READ,
    },
    "read": {
        "list": returns("read", ALL, update=NONE),
        "Manifest": returns("read", "the state in the file with this id", update=NONE),
        **READ,
    },
})
