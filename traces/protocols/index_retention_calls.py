"""The answers of impl/index/retention.py to whoever runs a cleaner, and what is true then."""

from highwater.traces.calls import NONE, Calls, definite, indefinite, returns

CALLS: Calls = {
    "clean": {
        "int": returns("cleaned", "units that were still as they were read are dropped; the others stay for the next time",
                       update=NONE),
        "PollAgain": definite("not cleaned", "another term has begun since the units were read: clean again", NONE),
        "NotLeader": definite("not cleaned", "this node does not lead: the leader's cleaner drops the units", NONE),
        "Unavailable": definite("not cleaned", "the log took no command: clean again", NONE),
        "OutcomeUnknown": indefinite("not cleaned", "the command may drop units, now or later: clean again", NONE),
        "TimedOut": indefinite("not cleaned", "the caller's time was over: clean again", NONE),
    },
}
