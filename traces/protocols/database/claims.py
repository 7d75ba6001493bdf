"""Safety: what compactors do is a behaviour of model/protocols/manifest_compactions.py. Each claimed compaction is applied
exactly once, and no SST is lost.

The model sees the histories of both sequences, from which nothing is collected. Its manifests are those of the history that
concern it: a compactor's epoch, flushes and compactions. The SST "0.j" is the j-th in the history, whoever has flushed it: the
model's only writer flushes at the moment at which a flush joins the history. Each request of a compactor is a request in the
model, with the ids of the history. But a file that it has put or read behind a boundary is none there. What is left out then is
as if it had not asked; a file of the history that its own read of the boundary refuses is one whose response is lost.
"""

from highwater.impl.codecs.json import compactions as compactions_json
from highwater.impl.codecs.json.compactions import Compactions
from highwater.impl.codecs.json.manifest import COMPACTED
from highwater.impl.codecs.manifest import Manifest
from highwater.traces.event import Event
from highwater.traces.protocols import manifest_compactions as compaction
from highwater.traces.protocols.database.contents import (
    BUMP,
    COMPACTION,
    FLUSH,
    Change,
    compactions_of,
    names_of,
    observed,
)
from highwater.traces.refine import Match, Refiner
from highwater.traces.trace import copied

FLUSHER = "Writer#0"  # the model's only writer
NEW = tuple.__new__


class Claims(compaction.Trace):
    """The histories of manifest and compactions against the model of compactions."""

    def __init__(self, refiner: Refiner):
        super().__init__(refiner)
        self.manifests = 1  # in the model
        self.names: dict[str, str] = {}  # SST -> its name in the model
        self.holder: dict[str, str] = {}  # record "w.k" -> the model's name of its SST
        self.numbers: list[int] = [1]  # by place in the history of the manifest: the model's id of the latest one up to there
        self.bodies: list[bytes] = [COMPACTED.encode(Manifest())]  # by the model's id, less 1

    def __copy__(self) -> "Claims":
        return copied(self)

    def observe(self, e: Event) -> None:
        observed(self, e)

    # --- the history of the manifest

    def concerns(self, change: Change) -> bool:
        return change.kind in (BUMP, COMPACTION) or (change.kind == FLUSH and bool(change.ssts))

    def manifest(self, m: Manifest) -> bytes:
        """Return a manifest in the model's form. Raises LookupError for an SST that nobody has flushed."""
        return COMPACTED.encode(Manifest(compactor_epoch=m.compactor_epoch, l0=tuple(self.names[sst] for sst in m.l0),
                                         compacted=tuple(self.names[sst] for sst in m.compacted)))

    def compactions(self, body: bytes) -> bytes:
        c = compactions_of(body)
        return compactions_json.encode(c._replace(jobs=tuple(tuple(self.names[sst] for sst in job) for job in c.jobs)))

    def join(self, change: Change | None, m: Manifest) -> None:
        """Note a manifest that joins the history."""
        if change is not None and self.concerns(change):
            for sst in change.ssts if change.kind == FLUSH else ():
                self.names[sst] = f"0.{len(self.names)}"
                self.holder.update(dict.fromkeys(names_of(sst), self.names[sst]))
            self.manifests += 1
            self.bodies.append(self.manifest(m))
        self.numbers.append(self.manifests)

    def flush(self) -> None:
        """Take the flush that has joined the history: the model's writer does it at once."""
        file = compaction.decoded(True, self.bodies[-1])
        self.refiner.event(FLUSHER, (0, 0, FLUSHER, "read"), reads)
        self.refiner.event(FLUSHER, (0, 0, FLUSHER, "put", self.manifests, file), puts)
        self.refiner.event(FLUSHER, (0, 0, FLUSHER, "accept"), accepts)

    # --- requests of compactors

    def listed(self, e: Event, manifest: bool, number: int) -> None:
        """Take a listing, which shows a history of this many files."""
        of = compaction.MANIFEST if manifest else compaction.COMPACTIONS
        keys = tuple(of.key(i) for i in range(1, number + 1))
        self.observe(NEW(Event, (*e[:5], of.prefix, "", *e[7:10], keys, False, *e[12:])))

    def file(self, e: Event, manifest: bool, i: int, body: bytes) -> None:
        """Take a request for a file, which has this id and content in the model."""
        of = compaction.MANIFEST if manifest else compaction.COMPACTIONS
        version = "v" if e.version else ""
        self.observe(NEW(Event, (*e[:5], of.key(i), *e[6:8], version, body, *e[10:])))

    def checked(self, e: Event, manifest: bool, is_ahead: bool) -> None:
        """Take a read of the boundary. If the client has learned that its file is behind it, it has lost the response."""
        key = compaction.BOUNDARIES[0 if manifest else 1]
        created = any(l.pc == "Created" for l in self.refiner.locals(e.client))
        if is_ahead:
            self.observe(Event(e.t_ms, e.request, e.client, "applied", "get", key, "", 404, "", b""))
        elif created:
            self.observe(Event(e.t_ms, e.request, e.client, "timeout", "get", key, "", 0, "", b""))

    def lost(self, e: Event) -> None:
        """Take the end of a client's waiting for a request, or a crash. If the model has not seen the request, the client has
        lost nothing but its read of the boundary."""
        asked = next(self._same(e), None)
        if asked is None and e.key.endswith(".boundary"):
            key = compaction.BOUNDARIES[0 if compaction.of_manifest(e.key) else 1]
            asked = NEW(Event, (*e[:4], "get", key, "", *e[7:9], b"", *e[10:]))
        elif e.kind == "crash":
            asked = asked or NEW(Event, (*e[:4], "list", compaction.MANIFEST.prefix, "", *e[7:9], b"", *e[10:]))
        if asked is not None and (asked.kind == "applied" or asked.t_ms == e.t_ms or e.kind == "crash"):
            self.observe(NEW(Event, (*e[:4], *asked[4:7], *e[7:9], asked.body if asked.op == "create" else b"", *e[10:])))

    def conflict(self, e: Event, manifest: bool, number: int) -> None:
        """Take a create that was refused, if the model's client has read less than this history of so many files. One that has
        got a file which is none of the history has read nothing in the model."""
        n = max([l.n for l in self.refiner.locals(e.client) if l.pc == "Ready"], default=number)
        if n < number and self.reads.of(e.client).base:
            body = self.bodies[0] if manifest else compactions_json.encode(Compactions())
            self.file(e, manifest, n + 1, body)

    def arrive(self, e: Event) -> None:
        """Take a create that nobody waits for, and that joins the history."""
        asked = next(self._same(e))
        self.observe(NEW(Event, (*e[:5], asked.key, *e[6:8], "v", asked.body, *e[10:])))

    def told(self, e: Event) -> None:
        """Take a response to a compactor's caller. It names records; the model names SSTs."""
        body = e.body
        if e.op == "compacted":
            records = e.body.decode().split()
            held = sorted({self.holder[record] for record in records})
            if len(records) != sum(name in held for name in self.holder.values()):
                raise self._misled(e, "these are not the records of whole SSTs")
            body = " ".join(held).encode()
        self.observe(NEW(Event, (*e[:9], body, (), *e[11:])))


# --- steps of the model's writer

def reads(event: tuple) -> Match:
    return Match(event[2], ("Read",), ())


def puts(event: tuple) -> Match:
    *_, client, _, number, file = event
    return Match(client, ("CreateNext",), (), lambda a, s, l, s2, l2: (
        len(s2.manifests) == number and s2.manifests[-1] == file))


def accepts(event: tuple) -> Match:
    return Match(event[2], ("Accept",), ())
