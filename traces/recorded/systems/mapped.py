"""Safety: in a log of any program, each change of the keys that its user names is an action that an abstract model allows.

A `Map` says of which keys, by a template, and of which model. The mapping of requests to actions is the one for SlateDB, with
opaque contents. A regular expression may find the names of updates in them: then no update may be there twice.
"""

import re
from collections import Counter
from typing import NamedTuple

from highwater.traces.recorded.machine import Machine
from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3log import Body, Request
from highwater.traces.recorded.s3store import ABSENT, Change, Key
from highwater.traces.recorded.systems import objects, sequences, wal
from highwater.traces.recorded.systems.facts import NOBODY, WRITER, Edit, Facts, File, Knobs, Namespaced, Place, done
from highwater.traces.recorded.systems.template import Spot, Template, Unfit

SEQUENCE, OBJECT, LOG = "sequenced_files", "one_object", "write_ahead_log"
PROTOCOLS = (SEQUENCE, OBJECT, LOG)


class Map(NamedTuple):
    """Keys, and the abstract model of what they hold. `updates` and `fence` are regular expressions for contents.

    updates: its group, or all of a match, is the name of an update. An update is committed once.
    chained: each file of a sequence has all updates of the one before it, and a client has read that one.
    fence: an object of a log that matches is a fence; without it, an empty one is.
    """

    keys: str
    protocol: str
    updates: str = ""
    chained: bool = False
    fence: str = ""


def fit(one: Map) -> Map:
    """Return the map. Raises Unfit if it cannot be meant."""
    template = Template(one.keys)
    if one.protocol not in PROTOCOLS:
        raise Unfit(f"{one.protocol!r} is no protocol: write one of {', '.join(PROTOCOLS)}")
    if (one.protocol == OBJECT) == bool(template.form):
        raise Unfit(f"{one.keys!r}: {one.protocol} {'has no' if template.form else 'needs an'} {{id}}")
    if one.chained and one.protocol != SEQUENCE:
        raise Unfit(f"{one.keys!r}: only {SEQUENCE} is chained")
    if one.fence and one.protocol != LOG:
        raise Unfit(f"{one.keys!r}: only {LOG} has fences")
    for text in (one.updates, one.fence):
        try:
            if re.compile(text).groups > 1:
                raise Unfit(f"{one.keys!r}: {text!r} has more than one group")
        except re.error as error:
            raise Unfit(f"{one.keys!r}: {text!r} is no regular expression: {error}") from None
    return one


class Mapped:
    """The machine of a search. `fresh`: nothing was there before the log."""

    def __init__(self, maps: tuple[Map, ...], prefix: str = "", fresh: bool = False):
        of = Machine(self.judged)
        self.take, self.mark, self.undo, self.digest = of.take, of.mark, of.undo, of.digest
        self.actions, self.granted = of.actions, of.granted
        self.systems = [Files(fit(one), of, prefix, fresh) for one in maps]

    def is_metadata(self, key: Key) -> bool:
        return any(one.template.spot(key) for one in self.systems)

    def judged(self, change: Change) -> Refusal | None:
        """Return why the models do not allow a request that the store could answer so."""
        if change.op == "list":
            for listed in change.request.listed if change.request.status == 200 else ():
                for one in self.systems:
                    if spot := one.template.spot((change.request.bucket, listed.key)):
                        sequences.exists(one.facts, spot)
            return None
        for one in self.systems:
            if spot := one.template.spot(change.key):
                return one.judged(change, spot)
        return None


class Files:
    """The keys and contents of a map."""

    def __init__(self, of: Map, machine: Machine, prefix: str, fresh: bool):
        self.of, self.fresh, self.template = of, fresh, Template(of.keys, prefix)
        self.facts = Facts(self, Knobs(BOUNDARY=False), machine, {"CHAINED": of.chained, "BOUNDARY": False})
        self.named: dict[tuple[Namespaced, str], Key] = machine.store.table()  # (where, update) -> the first key that has it

    def judged(self, change: Change, spot: Spot) -> Refusal | None:
        request, key, op, _ = change
        if op == "get" and self.of.protocol == OBJECT:
            return objects.reads(self.facts, request, key)
        if op == "get":
            return sequences.reads(self.facts, request, key, spot)
        if op == "head":
            return None
        if not done(request) or (op == "delete" and self.facts.store.version(key) == ABSENT):
            return self.facts.count("CreateConflict" if op == "put" else "DeleteAbsent")
        refusal = self.deletes(request, key, spot) if op == "delete" else self.puts(request, key, spot)
        if not refusal and op == "put":
            for name in self.names(request.sent_body):
                if (spot.where, name) not in self.named:
                    self.facts.store.put(self.named, (spot.where, name), key)
        return refusal

    def puts(self, request: Request, key: Key, spot: Spot) -> Refusal | None:
        if self.of.protocol == OBJECT:
            before = self.facts.store.bodies.get((key, self.facts.store.version(key) or ""))
            return objects.puts(self.facts, request, key, self.fresh, ", ".join(sorted(self.again(before, request.sent_body))))
        if self.of.protocol == SEQUENCE:
            return sequences.creates(self.facts, request, key, spot)
        if self.is_fence(request.sent_body):
            epochs = [epoch for (where, _), epoch in self.facts.fences.items() if where == spot.where]
            self.facts.store.put(self.facts.epochs, (request.client, spot.where, WRITER), 1 + max(epochs, default=0))
        refusal = wal.appends(self.facts, request, key, spot)
        if not refusal:
            sequences.begins(self.facts, spot)
            sequences.exists(self.facts, spot)
        return refusal

    def deletes(self, request: Request, key: Key, spot: Spot) -> Refusal | None:
        if self.of.protocol == OBJECT:
            return objects.puts(self.facts, request, key, self.fresh)
        return (sequences if self.of.protocol == SEQUENCE else wal).deletes(self.facts, request, key, spot)

    # --- what the contents say

    def names(self, body: Body | None) -> list[str]:
        text = (body.data or b"").decode("utf-8", "surrogateescape") if body and self.of.updates else ""
        return [name for name in re.findall(self.of.updates, text) if name]

    def again(self, before: Body | None, after: Body) -> set[str]:
        """Return the updates that a content has more than once, unless the one before it has."""
        now, old = (Counter(self.names(body)) for body in (after, before))
        return {name for name, times in now.items() if times > 1 and old[name] < 2}

    def change(self, facts: Facts, place: Place, before: Body | None, after: Body) -> Edit | str:
        """Map what is lost, and what is there twice: in one file; in a log of entries in two."""
        again, now = self.again(before, after), {*self.names(after)}
        if not self.of.chained:
            key = place.key(place.id)
            again |= {name for name in now if self.named.get((place.where, name), key) != key}
        lost = {*self.names(before)} - now if self.of.chained and after.data is not None else ()
        return Edit(File(frozenset([(None, name) for name in lost])),
                    File(frozenset([(NOBODY, f"{name}, again") for name in again])))

    def first(self, facts: Facts, place: Place) -> int:
        """The first file that is put, if nothing was there before; else that of id 0 or 1, if it is in the log."""
        if place.where in facts.first:
            return facts.first[place.where]
        return place.id if place.where not in facts.latest and (self.fresh or place.id <= 1) else 0

    def known_log(self, facts: Facts, place: Place) -> int:
        """Up to the object before; not beyond one that never was, because a replay ends there."""
        latest = facts.latest.get(place.where, -1)
        return place.id - 1 if place.where not in facts.first else min(place.id - 1, latest)

    def boundary_key(self, where: Namespaced) -> Key:
        return where.bucket, ""

    def pinned_by(self, facts: Facts, request: Request, place: Place) -> str:
        return ""

    def flushed(self, facts: Facts, place: Place) -> None:
        return None

    def is_fence(self, body: Body) -> bool:
        if self.of.fence:
            return bool(re.search(self.of.fence, (body.data or b"").decode("utf-8", "surrogateescape")))
        return body.size_bytes == 0

    def writer_epoch(self, facts: Facts, client: str, place: Place) -> int | None:
        return facts.epochs.get((client, place.where, WRITER), 0)

