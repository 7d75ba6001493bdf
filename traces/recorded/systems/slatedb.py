"""Safety: in a log of other programs, each change of a database's metadata is a step that the protocols' models allow, and
breaks none of their properties.

Requests to SlateDB's layout are mapped to the models' actions, with the actions' names and guards:

    PUT manifest/N, compactions/N      CreateNext, CreateConflict     sequenced_metadata_boundary, manifest_epochs
    GET gc/NAME.boundary after it      Accept, Reject                 sequenced_metadata_boundary
    PUT gc/NAME.boundary               Advance                        sequenced_metadata_boundary
    DELETE manifest/N ..               Delete                         sequenced_metadata_boundary
    PUT wal/N                          CreateNext, CreateFence        wal_fencing; Copy, into a clone that is being made
    DELETE wal/N                       Delete                         wal_fencing

The models' clients do one thing at a time. Real clients do many at once, and read at any time. So reads are not compared with a
program counter; they define what a client knows. A client that creates N+1 must have read or written N (ReadLatest). A client
that continues from its own file must have asked for the boundary after creating that file (AckIsChecked), and the boundary must
be less than N (Reject).

No log shows the responses to callers. A create counts as acknowledged once its boundary check has passed; without boundary
files, once its reply has reached the client. Outputs of compactions and other data are not checked.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from highwater.impl.codecs.slatedb.manifest import Manifest, active
from highwater.traces.recorded.access_log import UNSAID
from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3log import Body, Request
from highwater.traces.recorded.s3store import ABSENT, Change, Key, Store
from highwater.traces.recorded.systems.slatedb_layout import (
    SEQUENCED,
    Namespaced,
    Place,
    boundary_of,
    boundary_of_ids,
    content_of,
    done,
    heard,
    key_of,
    place_of,
)

EPOCHS = {"manifest": ("writer_epoch", "compactor_epoch"), "compactions": ("compactor_epoch",)}


class Knobs(NamedTuple):
    """The safeguards of the recorded programs, named as in the models."""

    BOUNDARY: bool = True  # False: there are no boundary files; a create is acknowledged when it is done
    SKEW_MS: int = 1_000  # the largest difference between the clocks of clients that take and collect checkpoints


class File(NamedTuple):
    """A file of a sequence: its version, the client that put it, and the number of that request."""

    version: str
    client: str
    number: int


class Created(NamedTuple):
    """A create whose client has not asked for the boundary since. `looked`: the client has read the file, though."""

    id: int
    version: str
    number: int  # the number of the request
    answered: int
    looked: bool = False


class Slatedb:
    """The machine of a search: the store, and the facts that the models remember beside it."""

    def __init__(self, knobs: Knobs | None = None):
        self.knobs, self.store = knobs or Knobs(), Store()
        self.mark, self.undo = self.store.mark, self.store.undo
        table = self.store.table
        self.seen: dict[tuple[str, Key], str] = table()  # (client, key) -> the version that it read or put last
        self.unchecked: dict[tuple[str, Namespaced], tuple[Created, ...]] = table()  # (client, where) -> its creates
        self.refused: dict[tuple[str, Key], int] = table()  # (client, key) -> the boundary that refused its create
        self.committed: dict[Key, File] = table()
        self.latest: dict[Namespaced, int] = table()  # the highest id that is known to exist
        self.boundary: dict[Namespaced, int] = table()
        self.whole: dict[Namespaced, bool] = table()  # the sequences that the log has from their first file on
        self.epochs: dict[tuple[str, Namespaced, str], int] = table()  # (client, where, role) -> the epoch that it has claimed
        self.fences: dict[tuple[Namespaced, int], int] = table()  # (wal, id) -> the epoch of the fence there
        self.actions: dict[str, int] = {}  # the number of steps of each action

    def digest(self) -> int:
        return self.store.sum

    def take(self, step: Any) -> Refusal | None:
        change: Change = step.what
        mark = self.mark()
        refusal = self.store.answers(change) or self.judged(change)
        if refusal:
            self.undo(mark)
            return refusal
        if step.changes:
            self.store.apply(change)
        return None

    # --- from requests to actions

    def judged(self, change: Change) -> Refusal | None:
        """Return why the models do not allow a request that the store could answer so."""
        request, key, op, _ = change
        place = place_of(key)
        if place is None or (op == "delete" and not done(request)):
            return None
        if place.folder in SEQUENCED:
            if op == "put":
                return self.creates(request, key, place) if done(request) else self.count("CreateConflict")
            if op == "delete":
                return self.deletes(request, key, place)
            return self.reads(request, key, place) if op == "get" else None
        if place.folder == "gc" and place.name:
            if op == "get":
                return self.checks(request, key, place)
            if op == "delete" and self.store.version(key) != ABSENT:
                return Refusal("BoundaryIsMonotone", f"{request.client} deletes the boundary of {place.name}", True)
            return self.advances(request, key, place) if op == "put" and done(request) else None
        if place.folder == "wal":
            if op == "put":
                return self.appends(request, key, place) if done(request) else self.count("CreateConflict")
            return self.deletes_wal(request, key, place) if op == "delete" else None
        return None

    def count(self, action: str) -> None:
        self.store.put(self.actions, action, self.actions.get(action, 0) + 1)

    def reads(self, request: Request, key: Key, place: Place) -> None:
        """ReadLatest: from now on the client knows this file in this version."""
        if request.status == 200:
            self.store.put(self.seen, (request.client, key), request.version)
            if place.id > self.latest.get(place.where, 0):
                self.store.put(self.latest, place.where, place.id)
            mine = self.unchecked.get((request.client, place.where), ())
            if any(one.id == place.id for one in mine):
                self.store.put(self.unchecked, (request.client, place.where),
                               tuple(one._replace(looked=True) if one.id == place.id else one for one in mine))

    # --- SequencedMetadataBoundary

    def creates(self, request: Request, key: Key, place: Place) -> Refusal | None:
        """CreateNext."""
        client, before = request.client, place.key(place.id - 1)
        if not request.conditions.keys() & {"if-none-match", UNSAID}:
            return Refusal("CREATE_IF_ABSENT", f"{client} puts id {place.id} of {place.folder} whatever is there",
                           bool(self.store.version(key)))
        known = self.seen.get((client, before))
        if place.id > 1 and self.store.version(before) is None and place.where in self.whole:
            return Refusal("ReadLatest", f"{client} creates id {place.id}, and there has never been an id {place.id - 1}", True)
        if place.id > 1 and known is None and self.store.version(before) is not None and self.has_read(client, place):
            return Refusal("ReadLatest", f"{client} creates id {place.id}, and has never read id {place.id - 1}")
        if (client, before) in self.refused:
            return Refusal("Reject", f"{client} goes on from id {place.id - 1}, its own, which the boundary "
                           f"{self.refused[client, before]} has refused", True)
        mine = self.unchecked.get((client, place.where), ())
        unasked = [one for one in mine if one.id < place.id - one.looked]  # another task of this client may have just read it
        if self.knobs.BOUNDARY and unasked:
            return Refusal("AckIsChecked", f"{client} creates id {place.id}, and has not asked for the boundary since request "
                           f"{unasked[0].number} put id {unasked[0].id} there, its own", True)
        refusal = self.follows(request, key, place, known)
        if refusal:
            return refusal
        file = File(request.version, client, request.number)
        if not self.knobs.BOUNDARY and heard(request) and (refusal := self.commits(key, place.id, place.where, file)):
            return refusal
        self.store.put(self.seen, (client, key), request.version)
        if heard(request) and self.knobs.BOUNDARY:
            self.store.put(self.unchecked, (client, place.where),
                           (*mine, Created(place.id, request.version, request.number, request.answered)))
        if place.id == 1 and place.where not in self.latest:
            self.store.put(self.whole, place.where, True)
        if place.id > self.latest.get(place.where, 0):
            self.store.put(self.latest, place.where, place.id)
        return self.count("CreateNext")

    def has_read(self, client: str, place: Place) -> bool:
        """Return whether the log shows that the client read or put a file there. Otherwise it may have begun before the log."""
        return any((client, place.key(i)) in self.seen for i in range(max(1, place.id - 8), place.id + 8))

    def checks(self, request: Request, key: Key, place: Place) -> Refusal | None:
        """Accept or Reject the creates that this client made before it asked, and that are not checked yet.

        If the request for the boundary failed, the client cannot know, and may say so to its caller.
        """
        client, mine = request.client, self.unchecked.get((request.client, place.where), ())
        asked = [one for one in mine if one.answered < request.sent]
        if asked:
            self.store.put(self.unchecked, (client, place.where), tuple(one for one in mine if one not in asked))
        boundary = {200: boundary_of(request.got_body), 404: 0, 304: self.boundary.get(place.where)}.get(request.status)
        if boundary is None:
            return None
        self.store.put(self.boundary, place.where, boundary)
        for one in asked:
            key = place.key(one.id)
            if one.id <= boundary:
                self.store.put(self.refused, (client, key), boundary)
                self.count("Reject")
            elif refusal := self.commits(key, one.id, place.where, File(one.version, client, one.number)):
                return refusal
            else:
                self.count("Accept")
        return None

    def commits(self, key: Key, file_id: int, where: Namespaced, file: File) -> Refusal | None:
        """CommitIsUnique."""
        before = self.committed.get(key)
        if before and before != file:
            return Refusal("CommitIsUnique", f"{file.client} has id {file_id} of {where.folder} acknowledged (request "
                           f"{file.number}), and it was acknowledged to {before.client} (request {before.number}): the history "
                           "is forked", True)
        self.store.put(self.committed, key, file)
        return None

    def advances(self, request: Request, key: Key, place: Place) -> Refusal | None:
        """Advance."""
        boundary, before = boundary_of(request.sent_body), self.boundary.get(place.where, 0)
        if request.sent_body.data is None:
            return self.count("Advance")
        if boundary is None:
            return Refusal("Advance", f"{request.client} puts a boundary that is no number: {request.sent_body.data!r}", True)
        if not request.conditions.keys() & {"if-match", "if-none-match", UNSAID}:
            return Refusal("CONDITIONAL_ADVANCE", f"{request.client} puts the boundary without a condition")
        if boundary < before:
            return Refusal("BoundaryIsMonotone", f"{request.client} puts boundary {boundary}, and it was {before}", True)
        latest = self.latest.get(place.where)
        if latest is not None and boundary >= latest:
            return Refusal("BoundaryIsBelowLatest", f"{request.client} puts boundary {boundary}, and the latest id is {latest}",
                           True)
        self.store.put(self.boundary, place.where, boundary)
        return self.count("Advance")

    def deletes(self, request: Request, key: Key, place: Place) -> Refusal | None:
        """Delete."""
        if self.store.version(key) == ABSENT:
            return None
        boundary = self.boundary.get(place.where)
        if boundary is None and (place.where in self.whole or self.store.version(boundary_of_ids(place.where)) == ABSENT):
            boundary = 0
        if self.knobs.BOUNDARY and boundary is not None and place.id > boundary and UNSAID not in request.conditions:
            return Refusal("DeletedIsBehindBoundary", f"{request.client} deletes id {place.id}, and the boundary is {boundary}",
                           True)
        latest = self.latest.get(place.where)
        if latest is not None and place.id >= latest:
            return Refusal("LatestIsKept", f"{request.client} deletes id {place.id}, the latest", True)
        manifest = self.manifest(place)
        if place.folder == "manifest" and manifest:
            now_ms = request.times_us[1] // 1000 + self.knobs.SKEW_MS
            holds = [one.id for one in manifest.checkpoints if one.manifest_id == place.id and active(one, now_ms)]
            if holds and request.times_us[1]:
                return Refusal("CheckpointedIsKept", f"{request.client} deletes id {place.id}, which checkpoint {holds[0]} "
                               "refers to", True)
        return self.count("Delete")

    # --- ManifestEpochs

    def follows(self, request: Request, key: Key, place: Place, known: str | None) -> Refusal | None:
        """Return why a new file may not change the one before it so. An id behind the latest changes nothing: it will be
        refused."""
        after = content_of(place.folder, request.sent_body)
        if isinstance(after, str):
            return Refusal("Form", f"{request.client} puts id {place.id} of {place.folder}: {after}", True)
        if after is None or known is None:
            return None
        before = content_of(place.folder, self.store.bodies.get((place.key(place.id - 1), known), Body(1, "", None)))
        if before is None or isinstance(before, str):
            return None
        claimed = []
        for role in EPOCHS[place.folder]:
            old, new = getattr(before, role), getattr(after, role)
            if new < old:
                return Refusal("EpochsAreMonotone", f"{request.client} puts {role} {new} into id {place.id}, and it was {old}",
                               True)
            if new > old:
                claimed.append((role, new))
        if len(claimed) > 1:
            return Refusal("OnlyOwnEpochIsBumped", f"{request.client} claims {' and '.join(role for role, _ in claimed)} in id "
                           f"{place.id}", True)
        if claimed:
            (role, epoch), = claimed
            self.store.put(self.epochs, (request.client, place.where, role), epoch)
            return self.count("CreateNext, with an epoch")
        if place.folder == "manifest":
            return self.changes(request, place, before, after)
        return None

    def changes(self, request: Request, place: Place, before: Manifest, after: Manifest) -> Refusal | None:
        """OthersChangesAreKept, AtMostOneActiveWriterCommits."""
        for name in ("replay_after_wal_id", "wal_id_last_seen", "last_l0_seq"):
            if getattr(after, name) < getattr(before, name):
                return Refusal("OthersChangesAreKept", f"{request.client} takes {name} back from {getattr(before, name)} to "
                               f"{getattr(after, name)} in id {place.id}", True)
        twice = repeated(one.id for one in after.checkpoints)
        if twice and twice != repeated(one.id for one in before.checkpoints):
            return Refusal("AppliedOnce", f"{request.client} puts checkpoint {min(twice)} into id {place.id}, which is in it "
                           "already: an update that was refused, and built upon, is applied again", True)
        lost = {view.id for view in before.l0} - {view.id for view in after.l0}
        if lost and (after.compacted, after.segments) == (before.compacted, before.segments):
            return Refusal("OthersChangesAreKept", f"{request.client} takes {min(lost)} from L0 in id {place.id}, and nothing "
                           "is compacted", True)
        added = {view.id for view in after.l0} - {view.id for view in before.l0}
        own = self.epochs.get((request.client, place.where, "writer_epoch"))
        if added and own is not None and own < after.writer_epoch:
            return Refusal("AtMostOneActiveWriterCommits", f"{request.client} has epoch {own}, and flushes into id {place.id} "
                           f"although the epoch is {after.writer_epoch}", True)
        return None

    # --- WalFencing

    def manifest(self, place: Place) -> Manifest | None:
        """Return the latest manifest, as far as the log shows its content."""
        where = place.where._replace(folder="manifest")
        latest = self.latest.get(where)
        if latest is None:
            return None
        key = key_of(where, latest)
        found = content_of("manifest", self.store.bodies.get((key, self.store.version(key) or ""), Body(1, "", None)))
        return found if isinstance(found, Manifest) else None

    def appends(self, request: Request, key: Key, place: Place) -> Refusal | None:
        """CreateNext for a record; CreateFence for an empty object."""
        manifest, fence = self.manifest(place), request.sent_body.size_bytes == 0
        behind = manifest is not None and place.id <= manifest.replay_after_wal_id
        if not request.conditions.keys() & {"if-none-match", UNSAID}:
            if manifest is not None and not manifest.initialized:
                return self.count("Copy, of the WAL")
            return Refusal("CREATE_IF_ABSENT", f"{request.client} puts WAL {place.id} whatever is there")
        if manifest is not None and behind and heard(request):
            where = f"WAL {place.id}, and the manifest is to be replayed after {manifest.replay_after_wal_id}"
            if fence:
                return Refusal("FENCE_AHEAD", f"{request.client} puts its fence into {where}: nobody is fenced by it", True)
            return Refusal("AckedIsDurable", f"{request.client} puts records into {where}: nobody will read them", True)
        where = place.where._replace(folder="manifest")
        epoch = self.epochs.get((request.client, where, "writer_epoch"))
        if fence and epoch is not None:
            self.store.put(self.fences, (place.where, place.id), epoch)
            return self.count("CreateFence")
        if epoch is not None:
            for (of, fenced), other in self.fences.items():
                if of == place.where and other > epoch and fenced <= place.id:
                    return Refusal("OneWriterAcks", f"{request.client} has epoch {epoch}, and puts WAL {place.id} at or behind "
                                   f"the fence {fenced} of epoch {other}", True)
        return self.count("CreateNext, of the WAL")

    def deletes_wal(self, request: Request, key: Key, place: Place) -> Refusal | None:
        manifest = self.manifest(place)
        if manifest is not None and self.store.version(key) != ABSENT and place.id > manifest.replay_after_wal_id:
            return Refusal("GC_BEHIND", f"{request.client} deletes WAL {place.id}, and the manifest is to be replayed after "
                           f"{manifest.replay_after_wal_id}", True)
        return self.count("Delete, of the WAL")


def repeated(ids: Iterable[str]) -> set[str]:
    return {one for one, many in Counter(ids).items() if many > 1}
