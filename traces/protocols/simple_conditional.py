"""Safety: every request of the trace is an action of model/protocols/simple_conditional.py, and each response to a caller
agrees with the model's history.

The content is a log of updates; the one named "w.k" is the k-th update of the model's writer w. A PUT without an answer, or
with an indefinite error (5xx), is in the model's pool from then on, whether or not it will ever be applied: its writer cannot
know. If an update is reported as in doubt, its writer forgets what it knew, as after a crash.
"""

from functools import lru_cache

from highwater.impl.codecs.json.manifest import UPDATES, InvalidManifest
from highwater.model.protocols.simple_conditional import Constants, Shared, Update, Writer, model
from highwater.traces import trace
from highwater.traces.event import Event
from highwater.traces.form import Keys
from highwater.traces.protocols.simple_conditional_calls import CALLS
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import refiner_without_witnesses, update_of

KEY = "db/all"
LIMIT = 100_000  # contents whose updates are kept for the process
KEYS = Keys(KEY, single=(KEY,))
Log = tuple[Update, ...]


def constants(writers: int, readers: int, resolve: str, digest: bool) -> Constants:
    """Return the constants of a model without bounds, for so many clients. `digest`: the store's versions are digests."""
    return Constants(WRITERS=writers, UPDATES=None, READERS=readers, MAX_PENDING=None, MAX_LOST=None, MAX_CRASHES=None,
                     VERSION="digest" if digest else "unique", RESOLVE=resolve)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


@lru_cache(LIMIT)
def updates_in(body: bytes) -> tuple[str, ...]:
    """Return the names of the updates in a body. Raises InvalidManifest."""
    return UPDATES.decode(body).updates


def log_of(body: bytes) -> Log:
    """Return the updates in a body. Raises InvalidManifest, ValueError."""
    return tuple(map(update_of, updates_in(body)))


def puts(w: Writer, client: str, log: Log) -> bool:
    """Return whether this is the content that the writer puts: its update after what it knows."""
    me = int(client.partition("#")[2])
    return log == (*w.base, (me, w.k))


def under_way(s: Shared) -> list[Log]:
    return [log for _, log, _, _ in s.pool]


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    alien = (*trace.UNCHECKED, InvalidManifest)
    calls = CALLS
    keyed = ("committed", "read")

    def _updates(self, e: Event) -> tuple[str, ...]:
        return updates_in(e.body)

    def _unanswered(self, e: Event) -> Match:
        if e.kind == "refused" and (e.op == "get" or e.status < 500):  # a definite error: nothing has happened
            return Match(e.client, (STUTTER,), op=e.op)
        if e.op == "get":
            return Match(e.client, ("LoseReply", STUTTER), (), lambda a, s, l, s2, l2: a is STUTTER or l.pc == "Ready")
        return Match(e.client, ("LoseReply", "SendPut", STUTTER), (),  # applied; or not yet; or a conflict
                     lambda a, s, l, s2, l2: a != "LoseReply" or l.pc == "Written")

    def _answered(self, e: Event) -> Match:
        client, role = e.client, e.client.partition("#")[0]
        if e.op == "get" and e.status == 200:
            log = log_of(e.body)
            return Match(client, ("Read", "StaleRead"), (), lambda a, s, l, s2, l2: (
                l2.got if role == "Reader" else l2.base) == log)
        if e.op == "head":
            return Match(client, ("Head",))
        if e.op == "update" and role == "Writer":
            log = log_of(e.body)
            if e.status == 200:
                return Match(client, ("PutOk",), (), lambda a, s, l, s2, l2: s2.content == log)
            if e.status == 412:
                return Match(client, ("PutConflict",), (), lambda a, s, l, s2, l2: puts(l, client, log))
        raise self._no_action(e, role=role, status=True)

    def _request(self, e: Event) -> Log:
        if e.op != "update":
            raise self._no_action(e, role="Writer")
        return log_of(e.body)

    def _sends(self, event: tuple) -> Match:
        *_, client, log = event
        return Match(client, ("SendPut",), None, lambda a, s, l, s2, l2: puts(l, client, log))

    def _arrives(self, event: tuple) -> Match:
        """Return the step that applies a request. Its content identifies it, because `latest` in it changes over time."""
        *_, log, status = event
        return Match("", ("ApplyPending",), None, lambda a, s, l, s2, l2: sorted([*under_way(s2), log]) == sorted(under_way(s))
                     and (s2.history != s.history) == (status == 200))

    def _told_of(self, e: Event) -> str:
        if e.op == "read":
            seen = tuple(map(update_of, e.body.decode().split()))
            last = self._last_of(e)
            if last is None or (last.kind, last.op) != ("applied", "get"):
                raise self._misled(e, "it has sent no request for it to the store")
            return self._says(e, lambda s, l: l.got == seen)
        writer, number = update = update_of(e.body.decode())
        if e.client != f"Writer#{writer}":
            raise self._misled(e, "the update is another writer's")
        if e.op == "committed":
            return self._tells(e, Match(e.client, ("Acknowledge", "Recognise"), (), lambda a, s, l, s2, l2: l.k == number))
        if e.op == "failed":
            return self._says(e, lambda s, l: is_nowhere(s, l, update))
        return self._tells(e, Match(e.client, ("Crash", STUTTER), (), lambda a, s, l, s2, l2: (
            l2.k == number + 1 and update not in s.acked if a or l.k > number else is_nowhere(s, l, update))))


def is_nowhere(s: Shared, w: Writer, update: Update) -> bool:
    """Return whether this is the writer's current update, and no put of it was or can be applied."""
    return w.k == update[1] and w.pc != "Written" and not w.doubt and update not in s.content and all(
        of != update for of, *_ in s.pool)
