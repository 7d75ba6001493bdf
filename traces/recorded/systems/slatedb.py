"""Safety: in a log of other programs, each change of a database's metadata is an action that an abstract model allows, and
breaks none of its properties.

Requests to SlateDB's layout are mapped to actions, here and in the files beside this one. The mapping has no guards of its own:

    PUT manifest/N, compactions/N      sequenced_files    Create, after an Acknowledge of what the client has put before
    GET gc/NAME.boundary after it      sequenced_files    Check, and then Acknowledge
    PUT gc/NAME.boundary               sequenced_files    Advance
    DELETE manifest/N ..               sequenced_files    Delete
    PUT wal/N                          write_ahead_log    Append and Accept; Fence, if it is empty
    DELETE wal/N                       write_ahead_log    Delete

A model's client is given only the facts on which the action depends. Where the log cannot show a fact, it is taken for granted,
and counted: what lies before the beginning of the log, or is not in it. A client knows what any client has seen of the latest
id, of the boundary, and of how far the WAL is flushed. Outputs of compactions and other data are not checked.
"""

from highwater.traces.recorded.machine import Machine
from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3store import ABSENT, Change, Key
from highwater.traces.recorded.systems import slatedb_sequences as sequences
from highwater.traces.recorded.systems import slatedb_wal as wal
from highwater.traces.recorded.systems.slatedb_facts import Facts, Knobs
from highwater.traces.recorded.systems.slatedb_layout import SEQUENCED, done, place_of

MODELS = {"sequenced_files": "manifest/, compactions/ and gc/", "write_ahead_log": "wal/"}


def is_metadata(key: Key) -> bool:
    """Return whether the key is one of a metadata file. Data files and listings are compared with the store only."""
    return place_of(key) is not None


class Slatedb:
    """The machine of a search: the store, and the facts that clients know beside it."""

    def __init__(self, knobs: Knobs | None = None, **safeguards: bool):
        of = Machine(self.judged)
        self.take, self.mark, self.undo, self.digest = of.take, of.mark, of.undo, of.digest
        self.store, self.actions, self.granted = of.store, of.actions, of.granted
        self.facts = Facts(knobs or Knobs(), of, safeguards)

    def judged(self, change: Change) -> Refusal | None:
        """Return why the models do not allow a request that the store could answer so."""
        request, key, op, _ = change
        place, facts = place_of(key), self.facts
        if place is None or (op == "delete" and not done(request)):
            return None
        if op == "put" and place.folder != "gc" and not done(request):
            return facts.count("CreateConflict")
        if place.folder in SEQUENCED:
            if op == "put":
                return sequences.creates(facts, request, key, place)
            if op == "delete":
                return sequences.deletes(facts, request, key, place)
            return sequences.reads(facts, request, key, place) if op == "get" else None
        if place.folder == "gc" and place.name:
            if op == "get":
                return sequences.checks(facts, request, place)
            if op == "delete" and self.store.version(key) != ABSENT:
                return sequences.advance(facts, request, place, 0)
            return sequences.advances(facts, request, place) if op == "put" and done(request) else None
        if place.folder == "wal":
            if op == "put":
                return wal.appends(facts, request, place)
            return wal.deletes(facts, request, key, place) if op == "delete" else None
        return None
