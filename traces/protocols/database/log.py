"""Safety: writers and the WAL are a behaviour of model/protocols/wal_fencing.py. An acknowledged record is served by every
later writer, and nothing is acknowledged once a later writer has opened.

The model's manifest is one object. Here it is the latest file of the history, of which the model sees the writer's fields. Its
versions are the claims and flushes. Requests on the WAL are the model's own, but a collector's listings are left out.

A writer that claims an epoch reads, in the model, when its file joins the history. A writer that reads the manifest again, or a
collector, reads at its listing. If nothing follows the file that it knows, the listing decides. Otherwise both cases are
followed, that it has read the latest file of the history and that it has not. It has read that file if it gets the latest file
listed, and finds it ahead of a boundary read after that, before it goes on.

In the model a listing has one page. A listing of several pages is taken at its last page, which says what is latest. This
module adds an action for the one exception. Between two pages a later writer may flush the objects of the first page, and a
collector delete them. Then the overtaken writer puts its fence into a slot behind replay_after, where it is in nobody's way.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator
from typing import Any

from highwater.model.explore.tabulated import BITS, FIELD
from highwater.model.protocols.wal_fencing import Constants, Shared, Writer, latest
from highwater.traces.event import Event
from highwater.traces.protocols import wal_fencing as wal
from highwater.traces.protocols.database.contents import CLAIM, FLUSH, Change, observed
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import copied

NEW = tuple.__new__
AWAITS = "Validating", "Created", "Reread"  # a writer that is about to read the manifest
FLUSHES = "Open", "Replaying"  # a writer that may put it


class Log(wal.Trace):
    """The WAL, and the writer's fields of the history of manifests, against the model."""

    def __init__(self, refiner: Refiner):
        super().__init__(refiner)
        self.there: list[int] = []  # ids of the WAL objects that exist
        self.listing: dict[str, tuple[str, str]] = {}  # client -> the keys after which its listing and its next page begin
        self.unsure: dict[str, set[int]] = {}  # client -> its local parts before a read that is not confirmed yet

    def __copy__(self) -> "Log":
        return copied(self)

    def observe(self, e: Event) -> None:
        observed(self, e)

    def concerns(self, change: Change) -> bool:
        return change.kind in (CLAIM, FLUSH)

    # --- requests on the WAL

    def request(self, e: Event) -> None:
        """Take a request on the WAL, or the end of waiting for it."""
        if e.kind == "applied" and e.op in ("create", "delete"):
            self._note(e)
        if e.op == "list" and e.awaited and e.kind == "applied":
            if e.client.startswith("Writer"):
                self._listed(e)
        elif e.op == "list" and e.kind != "applied":
            self._unlisted(e)
        else:
            self.observe(e)

    def _listed(self, e: Event) -> None:
        """Take a page of a writer's listing. Of a listing of several pages only the last counts: it says what is latest."""
        start, after = self.listing.get(e.client, ("", ""))
        start = start if after and e.condition == after else e.condition
        self.listing[e.client] = start, e.keys[-1] if e.truncated and e.keys else ""
        if not e.truncated and start != e.condition:
            top = wal.WAL.file_id(e.keys[-1] if e.keys else e.condition) or 0
            if top > max(self.there, default=0):
                self.refiner.event(e.client, (0, 0, e.client, "pages", top), pages)
                return
            after_id = wal.WAL.file_id(start) or 0
            keys = tuple(map(wal.WAL.key, self.there[bisect_right(self.there, after_id):]))
            e = NEW(Event, (*e[:6], start, *e[7:10], keys, *e[11:]))
        if not e.truncated:
            self.observe(e)

    def _unlisted(self, e: Event) -> None:
        """Take the end of a client's waiting for a listing."""
        asked = next(self._same(e), None)
        if asked is not None:
            e = NEW(Event, (*e[:6], asked.condition, *e[7:]))
        elif not e.awaited:  # it had the response, which was not the last page
            return
        self.observe(e)

    def _note(self, e: Event) -> None:
        i = wal.WAL.file_id(e.key) or 0
        if e.op == "delete" and e.status < 300 and i in self.there:
            self.there.remove(i)
        elif e.op == "create" and e.status == 200 and i not in self.there:
            insort(self.there, i)

    # --- the manifest

    def put(self, client: str, change: Change, form: bytes) -> None:
        """Put a manifest that joins the history. Both cases are followed, that its writer learns this and that it does not."""
        self._prepare(client, change)
        self.refiner.event(client, Event(0, 0, client, "applied", "update", wal.MANIFEST, "v", 200, "v", form), self._match)

    def send(self, client: str, change: Change, form: bytes) -> None:
        """Put a manifest into the pool: it joins the history if it arrives in time."""
        self._prepare(client, change)
        self.refiner.event(client, (0, 0, client, ("Manifest", wal.manifest_of(form))), self._sends)

    def _prepare(self, client: str, change: Change) -> None:
        """Let a writer that claims read the manifest."""
        if change.kind == CLAIM:
            form = self._form()
            self.refiner.event(client, (0, 0, client, "claim", form), claims)

    def _form(self) -> Any:
        return self.refiner.shared().manifest

    def arrive(self, form: bytes) -> None:
        self.refiner.event("", (0, 0, ("Manifest", wal.manifest_of(form)), 200), self._arrives)

    def decide(self, client: str, accepted: bool, form: bytes) -> None:
        """Keep the states in which the writer has learned whether its manifest stands."""
        put = wal.manifest_of(form)
        self._keep(client, lambda l: (l.base == put) == accepted)

    def _keep(self, client: str, holds: Any) -> None:
        locals_ = self.refiner.locals(client)
        kept = [state for state, l in zip(self.refiner.states, locals_) if holds(l)]
        self.refiner.states = tuple(kept) or self.refiner.states

    # --- reads of the manifest

    def reads(self, e: Event, changed: bool, form: bytes) -> None:
        """Take a listing of manifests. `changed`: it shows files after the one that the client knows, or all. `form`: the
        content of the latest file of the history."""
        self.resolve(e.client, False)
        collects = e.client.startswith("Collector")
        if not collects and not self._is_about_to_read(e.client):
            return
        before = self._parts(e.client)
        if changed:
            op, condition, status = ("get", "", 200) if collects else ("get_if_changed", "v", 200)
            self.unsure[e.client] = before
        else:
            op, condition, status, form = "get_if_changed", "v", 304, b""
        self.observe(Event(e.t_ms, e.request, e.client, "applied", op, wal.MANIFEST, condition, status, "w", form))

    def _is_about_to_read(self, client: str) -> bool:
        """Return whether a writer reads the manifest again. One whose flush did not join the history has met a conflict, if
        the manifest has changed."""
        for l in self.refiner.locals(client):
            if l.pc in AWAITS:
                return True
            if l.pc in FLUSHES and l.base != self._form():
                self.refiner.event(client, (0, 0, client, "conflict"), conflicts)
                return True
        return False

    def lost(self, e: Event) -> None:
        """Take the end of a client's waiting for a request on the manifest."""
        asked = next(self._same(e), None)
        if e.kind == "crash":
            if e.client.startswith("Writer"):
                self.refiner.event(e.client, (0, 0, e.client, "crash"), crashes)
        elif asked is not None and asked.kind == "applied":
            self.unsure.pop(e.client, None)
            self.observe(NEW(Event, (*e[:4], *asked[4:7], *e[7:9], b"", *e[10:])))

    def resolve(self, client: str, confirmed: bool) -> None:
        """Decide whether the last read that was followed in both cases is one."""
        before = self.unsure.pop(client, None)
        if before is None:
            return
        part = self.refiner.index[client] + 1
        kept = [state for state in self.refiner.states if (state >> BITS * part & FIELD in before) != confirmed]
        self.refiner.states = tuple(kept) or self.refiner.states

    def _parts(self, client: str) -> set[int]:
        part = self.refiner.index[client] + 1
        return {state >> BITS * part & FIELD for state in self.refiner.states}


# --- what the model lacks

def list_pages(c: Constants, me: int, s: Shared, w: Writer) -> Iterator:
    """List in pages, while a later writer has flushed what the first ones show, and a collector has deleted it."""
    if w.pc == "Claimed" and w.epoch < s.manifest.writer_epoch:
        for n in range(latest(s) + 1, s.manifest.replay_after + 1):
            yield (n,), s, w._replace(pc="Listed", n=max(n, w.base.replay_after))


def with_pages(of: Refiner) -> Refiner:
    """Return a refiner of the model with that action of a writer."""
    processes = tuple(process._replace(actions={**process.actions, "ListPages": list_pages}) if process.role == "Writer" else
                      process for process in of.model.processes)
    return Refiner(of.model._replace(processes=processes))


# --- steps, each a function of the pseudo-event that names it

def pages(event: tuple) -> Match:
    *_, client, _, top = event
    return Match(client, ("ListPages",), (top,), unheard=True)



def claims(event: tuple) -> Match:
    *_, client, _, manifest = event
    return Match(client, ("ReadManifest",), (), lambda a, s, l, s2, l2: s.manifest == manifest)


def conflicts(event: tuple) -> Match:
    return Match(event[2], ("FlushConflict", STUTTER), ())


def crashes(event: tuple) -> Match:
    return Match(event[2], ("Crash", STUTTER), ())
