"""Safety: what the clients of manifest and compactions do, two of sequenced_files allow, one for each sequence.

In the manifest a flush is an update of its writer, a compaction may be anybody's change, and the epoch is the compactors'. Of
the compactions only the sequence is mapped: claims come and go, and their epochs are those of the manifest. What the two have
to do with each other are properties of the concrete model. A pin is not seen: what it keeps is a property, too. A collector
that drops one is not mapped, because here it changes the manifest without reading it.
"""

from typing import Any, NamedTuple

from highwater.model.abstract import sequenced_files as abstract
from highwater.model.abstract.sequenced_files import Client, File
from highwater.model.beside import beside, forgets, given
from highwater.model.protocols.manifest_compactions import (
    Collector,
    Compactor,
    Constants,
    Manifest,
    Shared,
    Writer,
    is_manifest,
)
from highwater.model.refine import Refinement

ONTO = "sequenced_files"
COVERS = {"MANIFEST_FIRST": (True,)}  # otherwise the epochs are those of the compactions
INSTANCES = (
    {},
    {"COMPACTORS": 1, "MAX_PENDING": 1, "MAX_LOST": 1, "MAX_CRASHES": 1},
    {"COMPACTORS": 1, "COLLECTORS": 1, "MAX_LOST": 1},
    {"COMPACTORS": 1, "PINS": True, "MAX_PENDING": 1, "MAX_LOST": 1},
)
OFF = (  # each safeguard switched off, on an instance that shows it
    {"CHECK": "compactions"},
    {"EPOCH_CHECK": False},
)


class Both(NamedTuple):
    """Something of each sequence."""

    manifest: Any
    compactions: Any


WRITER = 0  # the place of the writer among the clients
NOTHING = File()  # what is mapped of a file of the compactions
Known = frozenset[tuple[int, File]]


def flush(k: int) -> abstract.Update:
    return WRITER, ("flush", k)


def manifest(m: Manifest) -> File:
    compacted = {(None, ("compacted", k, n)) for k in m.compacted for n in range(m.compacted.count(k))}
    return File(frozenset(map(flush, m.l0 | set(m.compacted))) | compacted, epochs=(m.epoch,))


def shared(c: Constants, s: Shared) -> Both:
    manifests = tuple(one and manifest(one) for one in s.manifests)
    compactions = tuple(one and NOTHING for one in s.compactions)
    flying = frozenset(("Create", i, manifest(file)) for _, i, file in s.pool if isinstance(file, Manifest))
    claims = frozenset(("Create", i, NOTHING) for _, i, file in s.pool if not isinstance(file, Manifest))
    return Both(abstract.Shared(manifests, s.manifest_boundary, flying, frozenset(map(flush, s.acked)), frozenset()),
                abstract.Shared(compactions, s.compactions_boundary, claims, frozenset(), frozenset()))


def writer(c: Constants, me: int, w: Writer) -> Both:
    read: Known = frozenset({(w.n, manifest(w.base))}) if w.pc == "Ready" else frozenset()
    told = frozenset({(w.n + 1, flush(w.k))}) if w.pc == "Created" else frozenset()
    return Both(Client(read=read, told=told), Client())


def compactor(c: Constants, me: int, o: Compactor) -> Both:
    epochs = frozenset({o.epoch}) if o.task != "OpenManifest" else frozenset()
    if o.pc == "Ready" and not is_manifest(o):
        return Both(Client(epochs=epochs), Client(read=frozenset({(o.n, NOTHING)})))
    read: Known = frozenset({(o.n, manifest(o.base))}) if o.pc == "Ready" else frozenset()
    put: Known = frozenset({(o.n + 1, manifest(o.base))}) if o.pc == "Created" and is_manifest(o) else frozenset()
    return Both(Client(read=read, put=put, epochs=epochs), Client())


def collector(c: Constants, me: int, g: Collector) -> Both:
    return Both(Client(), Client())


STEPS = {
    "Writer": {"Read": ("manifest.Read",), "ReadLanded": ("manifest.Read", "manifest.Check", "manifest.Acknowledge"),
               "CreateNext": ("manifest.Create",), "Accept": ("manifest.Check", "manifest.Acknowledge"),
               "SendCreate": ("manifest.Send",)},
    "Compactor": {"Read": ("manifest.Read", "compactions.Read"), "CreateNext": ("manifest.Create", "compactions.Create"),
                  "Accept": ("manifest.Check",), "SendCreate": ("manifest.Send", "compactions.Send")},
    "Collector": {"AdvanceManifest": ("manifest.List", "manifest.Check", "manifest.Advance"),
                  "DeleteManifest": ("manifest.List", "manifest.Check", "manifest.Delete"),
                  "AdvanceCompactions": ("compactions.List", "compactions.Check", "compactions.Advance"),
                  "DeleteCompactions": ("compactions.List", "compactions.Check", "compactions.Delete")},
    "": {"ApplyPending": ("manifest.Apply", "manifest.Drop", "compactions.Apply", "compactions.Drop")},
}


def refinement(c: Constants) -> Refinement:
    number = c.WRITERS + c.COMPACTORS + c.COLLECTORS
    roles = tuple(0 if c.WRITERS <= place < c.WRITERS + c.COMPACTORS else None for place in range(number))
    first = abstract.Constants(number, FIRST=File(epochs=(0,)), ROLES=roles, PINS=False)
    onto = beside(Both, abstract.model(first), abstract.model(abstract.Constants(number, FIRST=NOTHING, PINS=False)))
    return Refinement(onto, shared, {"Writer": writer, "Compactor": compactor, "Collector": collector}, STEPS,
                      forgets(abstract.forgets), given(Both, abstract.GIVEN))
