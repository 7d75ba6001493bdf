"""Safety: in a log of other programs, each change of a database's metadata is an action that an abstract model allows, and
breaks none of its properties.

Requests to SlateDB's layout are mapped to actions, here and in the files beside this one. The mapping has no guards of its own:

    PUT manifest/N, compactions/N      sequenced_files    Create, after an Acknowledge of what the client has put before
    GET gc/NAME.boundary after it      sequenced_files    Check, and then Acknowledge
    PUT gc/NAME.boundary               sequenced_files    Advance
    DELETE manifest/N ..               sequenced_files    Delete
    PUT wal/N                          write_ahead_log    Append and Accept; Fence, if it is empty
    DELETE wal/N                       write_ahead_log    Delete
    all that concerns clones           shared_files       clones.py, deletion.py

A model's client is given only the facts on which the action depends. Where the log cannot show a fact, it is taken for granted,
and counted: what lies before the beginning of the log, or is not in it. A client knows what any client has seen of the latest
id, of the boundary, and of how far the WAL is flushed. Outputs of compactions and other data are not checked.
"""

from highwater.impl.codecs.manifest import Manifest
from highwater.traces.recorded.machine import Machine
from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3log import Body, Request
from highwater.traces.recorded.s3store import ABSENT, Change, Key
from highwater.traces.recorded.systems import clones, deletion, sequences, wal
from highwater.traces.recorded.systems.facts import WRITER, Edit, Facts, Knobs, Namespaced, Place, done, heard
from highwater.traces.recorded.systems.slatedb_files import change_of
from highwater.traces.recorded.systems.slatedb_layout import MARK, SEQUENCED, boundary_of_ids, content_of, key_of, place_of

MODELS = {"sequenced_files": "manifest/, compactions/ and gc/", "write_ahead_log": "wal/",
          "shared_files": "clones and their parents, .deleting"}


def is_metadata(key: Key) -> bool:
    """Return whether the key is one of a metadata file. Data files and listings are compared with the store only."""
    return place_of(key) is not None


class Slatedb:
    """The machine of a search: the store, and the facts that clients know beside it. `searched`: see Machine."""

    def __init__(self, knobs: Knobs | None = None, searched: bool = True, **safeguards: bool):
        of = Machine(self.judged, searched)
        self.take, self.mark, self.undo, self.digest = of.take, of.mark, of.undo, of.digest
        self.store, self.actions, self.granted = of.store, of.actions, of.granted
        self.facts = Facts(self, knobs or Knobs(), of, safeguards)

    def judged(self, change: Change) -> Refusal | None:
        """Return why the models do not allow a request that the store could answer so."""
        request, key, op, _ = change
        place, facts = place_of(key), self.facts
        if place is None or (op == "delete" and not done(request)):
            return deletion.deletes_data(facts, request, key) if op == "delete" and done(request) else None
        if place.folder == MARK:
            if op == "put":
                return deletion.marks(facts, request, place) if done(request) else None
            return deletion.ends(facts, place) if op == "delete" and self.store.version(key) else None
        if op == "delete" and place.folder != "gc" and clones.is_emptied(facts, place.where.bucket, place.where.root):
            return deletion.deletes_database(facts, request, key, place.where.bucket, place.where.root)
        if op == "put" and place.folder != "gc" and not done(request):
            return facts.count("CreateConflict")
        if place.folder in SEQUENCED:
            if op == "put":
                behind = sequences.is_behind(facts, key, place)
                if behind and not heard(request):
                    return sequences.created(facts, request, key, place)
                of_clones = place.folder == "manifest" and not behind
                mark = deletion.puts(facts, request, place) if of_clones else None
                refusal = mark or sequences.creates(facts, request, key, place)
                return refusal or clones.puts(facts, request, place) if of_clones else refusal
            if op == "delete":
                return sequences.deletes(facts, request, key, place)
            return sequences.reads(facts, request, key, place) if op == "get" else None
        if place.folder == "gc" and place.name:
            if op == "get":
                return sequences.checks(facts, request, place)
            if op == "delete" and clones.is_being_deleted(facts, *place.where[:2]):
                return deletion.deletes_database(facts, request, key, *place.where[:2])
            if op == "delete" and self.store.version(key) != ABSENT:
                return sequences.advance(facts, request, place, 0)
            if op == "put" and done(request):
                puts = deletion.seals if deletion.is_seal(facts, request, place) else sequences.advances
                return puts(facts, request, place)
            return None
        if place.folder == "wal":
            if op == "put":
                return wal.appends(facts, request, key, place)
            return wal.deletes(facts, request, key, place) if op == "delete" else None
        return None

    def hears(self, request: Request) -> None:
        """Note that a client is told of its create only now, after it was taken as one without a reply."""
        place = place_of((request.bucket, request.key))
        if place is not None and place.folder in SEQUENCED:
            sequences.hears(self.facts, request, place)

    # --- what the keys and contents say

    def first(self, facts: Facts, place: Place) -> int:
        return 1

    def change(self, facts: Facts, place: Place, before: Body | None, after: Body) -> Edit | str:
        now = content_of(place.folder, after)
        old = content_of(place.folder, before) if before else None
        return now if isinstance(now, str) else change_of(place.folder, None if isinstance(old, str) else old, now)

    def boundary_key(self, where: Namespaced) -> Key:
        return boundary_of_ids(where)

    def pinned_by(self, facts: Facts, request: Request, place: Place) -> str:
        """Return the active checkpoint that refers to a manifest, "" if there is none."""
        manifest = self.flushed(facts, place) if place.folder == "manifest" and request.times_us[1] else None
        if manifest is None:
            return ""
        now_ms = request.times_us[1] // 1000 + facts.knobs.SKEW_MS
        return next((one.id for one in manifest.checkpoints if one.manifest_id == place.id and one.active(now_ms)), "")

    def flushed(self, facts: Facts, place: Place) -> Manifest | None:
        """Return the latest manifest, as far as the log shows its content."""
        where = place.where._replace(folder="manifest")
        latest = facts.latest.get(where)
        if latest is None:
            return None
        key = key_of(where, latest)
        found = content_of("manifest", facts.store.bodies.get((key, facts.store.version(key) or ""), Body(1, "", None)))
        return found if isinstance(found, Manifest) else None

    def known_log(self, facts: Facts, place: Place) -> int:
        return place.id - 1

    def is_fence(self, body: Body) -> bool:
        return body.size_bytes == 0

    def writer_epoch(self, facts: Facts, client: str, place: Place) -> int | None:
        return facts.epochs.get((client, place.where._replace(folder="manifest"), WRITER))
