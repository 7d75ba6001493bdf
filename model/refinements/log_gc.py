"""Safety: what the clients of the collected log do to its entries, sequenced_files allows.

The abstract model has no snapshots. That one of them holds each deleted entry is a property of the concrete model alone.

An appender knows the last id that was used. Once its create is done it knows that its entry is there, and after its check of
the boundary that it is in the history. A collector that may delete an entry knows that a later id was used.
"""

from highwater.model.abstract import sequenced_files as abstract
from highwater.model.abstract.sequenced_files import Client, File
from highwater.model.protocols.log_gc import Appender, Collector, Constants, Entry, Reader, Shared
from highwater.model.refine import Refinement

ONTO = "sequenced_files"
INSTANCES = (
    {"READERS": 1},
    {"APPENDERS": 1, "MAX_PENDING": 1, "MAX_LOST": 1},
    {"APPENDERS": 1, "ENTRIES": 2, "END": "boundary", "MAX_CRASHES": 1},
    {"APPENDERS": 1, "ENTRIES": 2, "MAX_PENDING": 1},
)
OFF = (  # each safeguard switched off, on an instance that shows it
    {"GC": "min_age"},
    {"CHECK": "before"},
    {"CHECK": "off"},
    {"BOUNDARY_FIRST": False},
    {"CONDITIONAL_ADVANCE": False, "COLLECTORS": 2, "APPENDERS": 1, "ENTRIES": 3, "MAX_ID": 3},
    {"KEEP_LATEST": False},
)


def entry(one: Entry) -> File:
    return File(frozenset({one} if one else ()))


def shared(c: Constants, s: Shared) -> abstract.Shared:
    flying = frozenset((kind, i, entry(what[0])) if kind == "Create" else (kind, i, *what)
                       for kind, i, *what in s.pool if not kind.endswith("Snapshot"))
    return abstract.Shared(tuple(entry(one) if one else None for one in s.log), s.boundary, flying,
                           frozenset((w, k) for _, w, k in s.acked), frozenset())


def appender(c: Constants, me: int, a: Appender) -> Client:
    if a.pc == "Created":
        return Client(frozenset({a.n + 1}), told=frozenset({(a.n + 1, (me, a.k))}))
    return Client(frozenset({a.n} - {0}))


def collector(c: Constants, me: int, g: Collector) -> Client:
    ids = g.listed if g.pc == "Listed" else frozenset(i + 1 for i in g.listed)
    return Client(ids, boundaries=frozenset({g.b}) if g.pc == "Known" else frozenset())


def reader(c: Constants, me: int, r: Reader) -> Client:
    return Client()


STEPS = {
    "Appender": {"List": ("List",), "ReadBoundary": ("Check",), "CreateNext": ("Create", "Acknowledge"),
                 "CreateConflict": ("List",), "Accept": ("Check", "Acknowledge"), "SendCreate": ("Send",)},
    "Collector": {"List": ("List",), "ReadBoundary": ("Check",), "Advance": ("Advance",), "Delete": ("Delete",),
                  "SendAdvance": ("Send",), "SendDelete": ("Send",)},
    "": {"ApplyPending": ("Apply", "Drop")},
}


def refinement(c: Constants) -> Refinement:
    onto = abstract.model(abstract.Constants(c.APPENDERS + c.COLLECTORS + c.READERS, FIRST=None, CHAINED=False, PINS=False))
    return Refinement(onto, shared, {"Appender": appender, "Collector": collector, "Reader": reader}, STEPS, abstract.forgets,
                      abstract.GIVEN)
