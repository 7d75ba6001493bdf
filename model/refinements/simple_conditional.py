"""Safety: what the clients of the simple conditional protocol do, one_object allows, if the content tells its updates apart.

A writer knows the content that its next put is based on, or the content that it has put. A reader knows what it last read.
"""

from highwater.model.abstract import one_object as abstract
from highwater.model.protocols.simple_conditional import Constants, Reader, Shared, Writer
from highwater.model.refine import Refinement

ONTO = "one_object"
COVERS = {"CONTENT": ("log",)}  # a flag does not tell which updates made it
OFF = (  # each safeguard switched off, on an instance that shows it
    {"CONDITIONAL": False},
    {"REREAD": False},
    {"RESOLVE": "reapply", "MAX_LOST": 1},
    {"FRESH_READS": False, "READERS": 1, "UPDATES": 1},
)
INSTANCES = (
    {"READERS": 1, "UPDATES": 1, "MAX_PENDING": 1, "MAX_LOST": 1, "MAX_CRASHES": 1},
    {"WRITERS": 3, "UPDATES": 1, "RESOLVE": "check"},
    {"MAX_LOST": 1, "RESOLVE": "check"},
)


def shared(c: Constants, s: Shared) -> abstract.Shared:
    pool = tuple(sorted((update, body[:-1]) for update, body, _, _ in s.pool))
    return abstract.Shared(s.content, pool, s.history, s.acked)


def writer(c: Constants, me: int, w: Writer) -> abstract.Client:
    return abstract.Client(frozenset() if w.pc == "Idle" else frozenset({w.base}))


def reader(c: Constants, me: int, r: Reader) -> abstract.Client:
    return abstract.Client(frozenset({r.got}) if r.got else frozenset())


STEPS = {
    "Writer": {"Read": ("Read",), "PutOk": ("Put",), "Acknowledge": ("Acknowledge",), "Recognise": ("Acknowledge",),
               "SendPut": ("Send",)},
    "Reader": {"Read": ("Read",), "StaleRead": ("Read",)},
    "": {"ApplyPending": ("Apply",)},
}


def refinement(c: Constants) -> Refinement:
    onto = abstract.model(abstract.Constants(c.WRITERS + c.READERS, c.UPDATES or 0, None))
    return Refinement(onto, shared, {"Writer": writer, "Reader": reader}, STEPS, abstract.forgets)
