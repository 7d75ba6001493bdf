"""The answers that each call of impl/protocols/simple_conditional.py may give, and what is true then."""

from highwater.traces.calls import NEVER, NONE, Calls, definite, indefinite, returns, unreadable, with_timeouts

CALLS: Calls = with_timeouts({
    "initialise": {
        "NoneType": returns("initialised", "there is a first content", update=NONE),
        "Unavailable": definite("not initialised", "call again"),
        "OutcomeUnknown": indefinite("not initialised", "call again: a second first content is impossible", NONE),
    },
    "current": {
        "Content": returns("read", "it has every update that was reported before the call", "content", "version", update=NONE),
        "NotFound": definite("not read", "there is no content: initialise it, then call again", NONE),
        "Unavailable": definite("not read", "call again", NONE),
        **unreadable("not read", NONE, "InvalidManifest"),
    },
    "update": {
        "Content": returns("committed", "the content holds it", "content", "version", "attempts"),
        "UpdateConflict": definite("failed", "other clients were faster in every attempt: try again, or later", NEVER,
                                   "attempts"),
        "NotFound": definite("failed", "there is no content: initialise it, then call again"),
        "Unavailable": definite("failed", "call again"),
        **unreadable("failed", NEVER, "InvalidManifest"),
        "OutcomeUnknown": indefinite("unknown", "do not repeat it by itself; read the content and look for its id"),
    },
})
