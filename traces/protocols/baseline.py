"""Safety: every request of the trace is an action of model/protocols/baseline.py, and each response to a caller agrees with the
model's history.

A write named "w.k" is the k-th update of the model's writer w. When a writer without a reply stops waiting, nothing shows yet
whether it will send the same write again. Both cases are followed until its next request, or the response to its caller,
decides.

A client may also be a store of keys and values (`KvTrace`). Its objects have other names, and the value in an object is "w.k".
"""

from highwater.model.protocols.baseline import Constants, Shared, Update, Writer, model
from highwater.traces import trace
from highwater.traces.event import Event
from highwater.traces.form import Keys
from highwater.traces.protocols.baseline_calls import CALLS, JUDGES
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import AGAIN, COLLECTS, refiner_without_witnesses, sent, update_of

PREFIX = "db/baseline/"
INSTANCES = "db/baseline-instances/"  # of stores of keys and values
KEYS = Keys(PREFIX, listed=(PREFIX, INSTANCES))


def constants(writers: int, readers: int) -> Constants:
    """Return the constants of a model without bounds, for traces of so many clients."""
    return Constants(WRITERS=writers, UPDATES=None, READERS=readers, MAX_PENDING=None, MAX_LOST=None, MAX_CRASHES=None)


def refiner(c: Constants) -> Refiner:
    return refiner_without_witnesses(model(c))


def named(key: str) -> Update:
    return update_of(key.removeprefix(PREFIX))


def put_of(e: Event) -> Update:
    """Return the update that a PUT stores. Raises ValueError if its content is another's."""
    update = named(e.key)
    if update_of(e.body.decode()) != update:
        raise ValueError(f"{e.key} is put with the content {e.body!r}")
    return update


class Trace(trace.Trace):
    """Refines one trace of this protocol."""

    calls, claims = CALLS, JUDGES

    def _updates(self, e: Event) -> list[str]:
        return [e.body.decode()]

    def _answered(self, e: Event) -> Match:
        if e.op == "put":
            writer, number = put_of(e)
            return Match(e.client, ("Put",), (), lambda a, s, l, s2, l2: l.k == number and e.client == f"Writer#{writer}")
        if e.op == "list" and not (e.truncated or e.condition):
            keys = frozenset(map(named, e.keys))
            return Match(e.client, ("List",), (), lambda a, s, l, s2, l2: frozenset(key for key, _ in s.objects) == keys)
        if e.op == "get" and e.status == 200 and e.client.startswith("Reader"):
            key, content = named(e.key), update_of(e.body.decode())
            return Match(e.client, ("Get",), (key,), lambda a, s, l, s2, l2: (key, content) in s.objects)
        raise self._no_action(e, status=True)

    def _request(self, e: Event) -> Update:
        if e.op != "put":
            raise self._no_action(e)
        return put_of(e)

    def _sends(self, event: tuple) -> Match:
        *_, client, request = event
        return Match(client, ("SendPut",), None, lambda a, s, l, s2, l2: l.k == request[1])

    def _arrives(self, event: tuple) -> Match:
        *_, request, _ = event
        return Match("", ("ApplyPending",), (request,))

    def _told_of(self, e: Event) -> str:
        if e.op == "read":
            last = self._last_of(e)
            if last is None or last.kind != "applied":
                raise self._misled(e, "it has sent no request for it to the store")
            seen = sorted(map(update_of, e.body.decode().split()))
            return self._says(e, lambda s, l: l.pc == "Done" and sorted(l.got) == seen)
        writer, number = update_of(e.body.decode())
        if e.client != f"Writer#{writer}":
            raise self._misled(e, "the write is another writer's")
        if e.op == "committed":
            return self._tells(e, Match(e.client, ("Acknowledge",), (), lambda a, s, l, s2, l2: l.k == number))
        return self._says(e, lambda s, l: ENDED[e.op](s, l, (writer, number)))


KEY_SIZE_BYTES = 4  # before the key of a record


def value_of(body: bytes) -> Update:
    """Return the update in a record of a key and a value. Raises ValueError."""
    return update_of(body[KEY_SIZE_BYTES + int.from_bytes(body[:KEY_SIZE_BYTES]):].decode())


class KvTrace(Trace):
    """The trace of stores of keys and values. A store also reads, which changes nothing in the model. A value that `get`
    returns is the last that it has read; whether it is the latest is judged by the callers' history. Names of instances are
    nothing in the model, either."""

    aside = (INSTANCES,)

    def _match(self, e: Event) -> Match | None:
        if e.key.startswith(INSTANCES):
            self._well_formed(e)
            if e.op not in ("list", "put") or e.body:
                raise self._no_action(e)
            return None
        return super()._match(e)

    def _sent(self, e: Event) -> None:
        if e.key.startswith(INSTANCES):
            self.pending[e.client, e.request] = COLLECTS, sent(e)
        else:
            super()._sent(e)

    def _updates(self, e: Event) -> list[str]:
        return [] if e.key.startswith(INSTANCES) else ["{}.{}".format(*value_of(e.body))]

    def _answered(self, e: Event) -> Match:
        reads = e.client.startswith("Reader")
        if e.op == "put":
            writer, number = value_of(e.body)
            return Match(e.client, ("Put",), (), lambda a, s, l, s2, l2: l.k == number and e.client == f"Writer#{writer}")
        if e.op == "list":
            return Match(e.client, ("List" if reads else STUTTER,), (), lambda a, s, l, s2, l2: len(s.objects) == len(e.keys))
        if e.op == "get" and e.status == 200:
            update = value_of(e.body)
            return Match(e.client, ("Get", STUTTER) if reads else (STUTTER,), (update,) if reads else (),
                         lambda a, s, l, s2, l2: (update, update) in s.objects and (a is not STUTTER or l.pc != "Listed"))
        if e.op == "get" and not reads:  # a write of unknown outcome, which is not there
            return Match(e.client, (STUTTER,), op=e.op)
        raise self._no_action(e, status=True)

    def _request(self, e: Event) -> Update:
        if e.op != "put":
            raise self._no_action(e)
        return value_of(e.body)

    def _told_of(self, e: Event) -> str:
        if e.op != "got":
            return super()._told_of(e)
        last = self._last_of(e)
        if e.body and (last is None or (last.kind, last.op, last.status) != ("applied", "get", 200)
                       or value_of(last.body) != update_of(e.body.decode())):
            raise self._misled(e, "it has not read that value last")
        if e.keys and bool(e.body) != (e.keys[1] == "bytes"):
            raise self._misled(e, f"the call has returned {e.keys[1]}")
        return AGAIN


def is_nowhere(s: Shared, w: Writer, update: Update) -> bool:
    return w.pc == "Idle" and w.k == update[1] and update not in s.pool and update not in {of for _, of in s.objects}


def is_in_doubt(s: Shared, w: Writer, update: Update) -> bool:
    return (w.pc == "Idle" and w.k == update[1] + 1 and update not in s.acked) or is_nowhere(s, w, update)


ENDED = {"failed": is_nowhere, "unknown": is_in_doubt}  # response -> the condition under which it is true
