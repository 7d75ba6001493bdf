"""Safety: what the clients of the boundary protocol do, sequenced_files allows.

A writer knows the file that its next one is based on. Once it has created a file it knows that its update is in it. After its
check of the boundary it knows that the file is in the history. A collector knows the ids that it has listed and not deleted.
It knows that they are free once it has checked the boundary after it has read the checkpoints.
"""

from highwater.model.abstract import sequenced_files as abstract
from highwater.model.abstract.sequenced_files import Client
from highwater.model.abstract.sequenced_files import File as AbstractFile
from highwater.model.protocols.sequenced_metadata_boundary import Collector, Constants, File, Reader, Shared, Writer, known
from highwater.model.refine import Refinement

ONTO = "sequenced_files"
COVERS = {"KNOWN": ("never", "accepted")}  # who builds on a file that the boundary has refused is sure of nothing
FAULTS = {"MAX_PENDING": 1, "MAX_LOST": 1, "MAX_CRASHES": 1}
INSTANCES = (
    {"READERS": 1, "COMMITS": 1},
    {"COMMITS": 1, **FAULTS},
    {"COMMITS": 1, "CHECKPOINTS": 1, "PAGE": 1},
    {"COMMITS": 1, "ON_REFUSAL": "recognised", "MAX_LOST": 1},
    {"KNOWN": "accepted", "COLLECTORS": 1},
)
OFF = (  # each safeguard switched off, on an instance that shows it
    {"BOUNDARY": False, "COMMITS": 1},
    {"CHECK": "before", "COMMITS": 1},
    {"CHECK": "off", "COMMITS": 1},
    {"OLD_WRITERS": 1, "COMMITS": 1},
    {"FRESH_BOUNDARY": False, "COMMITS": 3, "MAX_ID": 5},
    {"BOUNDARY_FIRST": False, "COMMITS": 1},
    {"CONDITIONAL_ADVANCE": False, "COLLECTORS": 2},
    {"KEEP_LATEST": False, "COMMITS": 1},
    {"SPARE_CHECKPOINTS": False, "CHECKPOINTS": 1, "COMMITS": 1},
    {"SPARE_LISTED": False, "CHECKPOINTS": 1, "COMMITS": 1},
    {"CHECK_READS": False, "CHECKPOINTS": 1, "COMMITS": 1},
    {"ON_REFUSAL": "unchecked", "COMMITS": 1, "MAX_LOST": 1},
)


def file(one: File | None) -> AbstractFile | None:
    return one and AbstractFile(one.updates, one.checkpoints)


def shared(c: Constants, s: Shared) -> abstract.Shared:
    flying = frozenset((one[0], one[1], AbstractFile(frozenset(one[2]), frozenset(one[3]))) if one[0] == "Create" else one
                       for one in s.pool)
    return abstract.Shared(tuple(map(file, s.files)), s.boundary, flying, frozenset((w, k) for _, w, k in s.acked), frozenset())


def writer(c: Constants, me: int, w: Writer) -> Client:
    base = AbstractFile(w.base.updates, w.base.checkpoints)
    match w.pc:
        case "Ready" | "Prechecked":
            return Client(read=frozenset({(w.n, base)}))
        case "Created":
            put = frozenset() if known(c) == "never" else frozenset({(w.n + 1, base)})
            return Client(put=put, told=frozenset({(w.n + 1, (me, w.k))}))
        case "Applied":
            return Client(told=frozenset({(w.n, (me, w.k))}))
        case _:
            return Client()


def collector(c: Constants, me: int, g: Collector) -> Client:
    last = max(g.listed, default=0)
    others = g.listed - {last} if c.CHECKPOINTS != 0 and g.marked else frozenset[int]()
    return Client(ids=g.listed, boundaries=frozenset({g.b}) if g.pc == "Known" else frozenset(),
                  unpinned=frozenset() if g.checked else frozenset((last, i) for i in others),
                  free=others if g.checked else frozenset())


def reader(c: Constants, me: int, r: Reader) -> Client:
    return Client()


STEPS = {
    "Writer": {"ReadLatest": ("Read",), "ReadApplied": ("Read", "Acknowledge"), "CreateNext": ("Create", "Acknowledge"),
               "Accept": ("Check", "Acknowledge"), "Recognise": ("Check", "Acknowledge"), "SendCreate": ("Send",)},
    "Collector": {"ListPage": ("List",), "List": ("List",), "ReadCheckpoints": ("Read",), "CheckpointsAccept": ("Check",),
                  "ReadBoundary": ("Check",), "Advance": ("Advance",), "Delete": ("Delete",), "SendAdvance": ("Send",),
                  "SendDelete": ("Send",)},
    "Reader": {},
    "": {"ApplyPending": ("Apply", "Drop")},
}


def refinement(c: Constants) -> Refinement:
    onto = abstract.model(abstract.Constants(c.WRITERS + c.COLLECTORS + c.READERS, PINS=c.CHECKPOINTS != 0))
    return Refinement(onto, shared, {"Writer": writer, "Collector": collector, "Reader": reader}, STEPS, abstract.forgets,
                      abstract.GIVEN)
