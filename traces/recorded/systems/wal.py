"""Map requests for objects of a write-ahead log to actions of write_ahead_log.

No log shows where a writer is. It is taken to be as far as it can be, but not behind what is flushed. A record is acknowledged
once it is put: fences take the place of the check of the manifest's epoch. Where fences are collected, or deleted because the
database is destroyed, no log shows whether it is acknowledged.
"""

from highwater.model.abstract import write_ahead_log as log
from highwater.traces.recorded.access_log import UNSAID
from highwater.traces.recorded.judge import ME, send, take
from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3log import Request
from highwater.traces.recorded.s3store import ABSENT, Key
from highwater.traces.recorded.systems import clones
from highwater.traces.recorded.systems.facts import Facts, Place, heard


def appends(facts: Facts, request: Request, key: Key, place: Place) -> Refusal | None:
    """Append and Accept for a record; Fence for an empty object. Nothing, if the WAL is copied into a clone, where nobody else
    has put an object."""
    manifest, fence = facts.system.flushed(facts, place), facts.system.is_fence(request.sent_body)
    conditional = bool(request.conditions.keys() & {"if-none-match", UNSAID})
    if not conditional and manifest is not None and not manifest.initialized and (
            not facts.store.version(key) or key in facts.copied):
        facts.store.put(facts.copied, key, True)
        return facts.count("Copy, of the WAL")
    flushed = manifest.replay_after_wal_id if manifest is not None and heard(request) else 0
    epoch = facts.system.writer_epoch(facts, request.client, place)
    if epoch is None:
        facts.grant("a client that puts into the WAL has an epoch: the log does not show its claim")
    mine, record = frozenset({epoch or 0}), (ME, place.id)
    known = flushed if fence else max(flushed, facts.system.known_log(facts, place))
    at = frozenset({(epoch or 0, known, frozenset[log.Record]())})
    w = log.Client(ids=frozenset({place.id - 1}), epochs=mine, log=at) if fence else \
        log.Client(open=mine, log=at, told=frozenset({(place.id, record)}))
    refusal = send(log, facts.log, w, lambda: (
        f"{request.client} puts {'its fence' if fence else 'records'} into WAL {place.id}, and the manifest is to be "
        f"replayed after {flushed}"), "Create" if conditional else "Put", place.id, () if fence else record)
    if refusal:
        return refusal
    if fence and epoch is not None:
        facts.store.put(facts.fences, (place.where, place.id), epoch)
        return facts.count("CreateFence")
    kept = facts.knobs.FENCES and not clones.is_sealed(facts, place.where.bucket, place.where.root)  # fences, by collectors
    refusal = accepts(facts, request, place, w, epoch) if epoch is not None and kept else None
    return refusal or facts.count("CreateNext, of the WAL")


def accepts(facts: Facts, request: Request, place: Place, w: log.Client, epoch: int) -> Refusal | None:
    """A record at or behind the fence of a later writer is acknowledged after that one has opened."""
    top = max((other for (of, fenced), other in facts.fences.items() if of == place.where and fenced <= place.id), default=0)
    s = log.Shared(log.Manifest(top), (), frozenset(), frozenset(), top, False)
    return take(log, facts.log, "Accept", s, w, lambda: (
        f"{request.client} has epoch {epoch}, and puts WAL {place.id} at or behind the fence of epoch {top}"),
        shows="OneWriterAcks")


def deletes(facts: Facts, request: Request, key: Key, place: Place) -> Refusal | None:
    manifest = facts.system.flushed(facts, place)
    if manifest is not None and facts.store.version(key) != ABSENT:
        after = manifest.replay_after_wal_id
        refusal = send(log, facts.log, log.Client(replayed=frozenset({after})), lambda: (
            f"{request.client} deletes WAL {place.id}, and the manifest is to be replayed after {after}"),
            "Delete", place.id)
        if refusal:
            return refusal
    return facts.count("Delete, of the WAL")
