"""Safety: what the clients of the sequenced write protocol do, sequenced_files allows, without a boundary and without epochs.

A writer of the full state knows the file that its next one is based on. A writer of a log knows that the last id exists.
"""

from highwater.model.abstract import sequenced_files as abstract
from highwater.model.abstract.sequenced_files import Client
from highwater.model.abstract.sequenced_files import File as AbstractFile
from highwater.model.protocols.sequenced_write import Constants, File, Reader, Shared, Writer
from highwater.model.refine import Refinement

ONTO = "sequenced_files"
COVERS = {"ENDLESS": (0,)}  # endless updates have no content
FAULTS = {"MAX_PENDING": 1, "MAX_LOST": 1, "MAX_CRASHES": 1}
INSTANCES = (
    {"READERS": 1, "COMMITS": 1, **FAULTS},
    {"USE": "log", "READERS": 1, "COMMITS": 1, **FAULTS},
    {"UNKNOWN": "recognise", "COMMITS": 1, **FAULTS},
    {"RESOLVE": "list"},
)
OFF = (  # each safeguard switched off, on an instance that shows it
    {"CREATE_IF_ABSENT": False},
    {"RESOLVE": "off"},
    {"GAPS": True},
    {"USE": "log", "GAPS": True},
    {"UNKNOWN": "alike", "MAX_LOST": 1},
)


def file(one: File) -> AbstractFile | None:
    return AbstractFile(frozenset(one)) if one else None


def shared(c: Constants, s: Shared) -> abstract.Shared:
    flying = frozenset((kind, i, file(content)) for kind, i, content in s.pool)
    return abstract.Shared(tuple(map(file, s.files)), 0, flying, frozenset((w, k) for _, w, k in s.acked), frozenset())


def writer(c: Constants, me: int, w: Writer) -> Client:
    ids = frozenset({w.n} - {0}) if c.USE == "log" else frozenset()
    base = file(w.base) if c.USE == "state" and w.pc in ("Ready", "Doubt", "Refused") else None
    return Client(ids, read=frozenset({(w.n, base)}) if base else frozenset())


def reader(c: Constants, me: int, r: Reader) -> Client:
    return Client()


STEPS = {
    "Writer": {"List": ("List",), "ReadLatest": ("Read",), "CreateNext": ("Create", "Acknowledge"), "CreateConflict": ("List",),
               "ReadOwn": ("Read", "Acknowledge"), "ReadOther": ("List", "Read"), "SendCreate": ("Send",),
               "LoseReply": ("Create",)},
    "Reader": {},
    "": {"ApplyPending": ("Apply", "Drop")},
}


def refinement(c: Constants) -> Refinement:
    onto = abstract.model(abstract.Constants(c.WRITERS + c.READERS, FIRST=None, CHAINED=c.USE == "state", BOUNDARY=False))
    return Refinement(onto, shared, {"Writer": writer, "Reader": reader}, STEPS, abstract.forgets, abstract.GIVEN)
