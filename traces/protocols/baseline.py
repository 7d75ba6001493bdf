"""Safety: every request of the trace is an action of model/protocols/baseline.py, and each response to a caller agrees with the
model's history.

A write named "w.k" is the k-th update of the model's writer w. When a writer without a reply stops waiting, nothing shows yet
whether it will send the same write again. Both cases are followed until its next request, or the response to its caller,
decides.

A client may also be a store of keys and values (`KvTrace`). Its objects have other names, and the value in an object is "w.k".
"""

from typing import Any

from highwater.impl.protocols.baseline import record
from highwater.model.protocols.baseline import Constants, Shared, Update, Writer, model
from highwater.traces import trace
from highwater.traces.calls import RETURNED
from highwater.traces.event import Event
from highwater.traces.form import READS, Keys
from highwater.traces.protocols.baseline_calls import CALLS, JUDGES
from highwater.traces.refine import STUTTER, Match, Refiner
from highwater.traces.trace import AGAIN, COLLECTS, refiner_without_witnesses, sent, update_of

PREFIX = "db/baseline/"
INSTANCES = "db/baseline-instances/"  # of stores of keys and values
FAILED = ("",)  # due to a client whose read has failed: its call fails, too
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

    alien = trace.UNCHECKED
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
    returns is the last that it has read, and no older than what it knows of the key. Names of instances are nothing in the
    model, either."""

    aside, keyed = (INSTANCES,), ("got",)

    def __init__(self, refiner: Refiner, namespace: Any, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.instances: dict[str, str] = {}  # name -> the client that has announced it
        self.found: dict[str, int] = {}  # client -> the largest number of an instance that it was listed since it opened
        self.due: dict[str, tuple[str, ...]] = {}  # client -> what it has still to list or get while it recovers
        self.asked: dict[str, str] = {}  # client -> the object that it has got last in this call, not to recover
        self.latest: dict[str, dict[str, str]] = {}  # client -> key -> the greatest name that it has recovered or put

    def _take(self, e: Event) -> None:
        super()._take(e)
        if e.kind == "told":
            self.asked.pop(e.client, None)
            if self.due.pop(e.client, ()) and (e.keys[2] == RETURNED if e.keys else e.op != "not read"):
                raise self._refused("Get", f"{e.client} has not got all that it was listed")
        elif e.kind == "crash":
            self.due.pop(e.client, None)
            self.latest.pop(e.client, None)
        elif e.kind != "applied":
            self.due.update({e.client: FAILED} if e.op in READS else {})
        elif e.op == "put":
            self._puts(e)
        elif e.awaited:
            self._reads(e)

    def _puts(self, e: Event) -> None:
        """Check the name of an instance: it is its client's own, and greater than all that it has found."""
        if e.key.startswith(INSTANCES):
            name, number = e.key.removeprefix(INSTANCES), 1 + self.found.get(e.client, 0)
            if e.awaited and int(name.partition(".")[0]) != number:
                raise self._refused("Put", f"{e.client} announces {name}, and the next number after those it found is {number}")
            self.instances.setdefault(name, e.client)
        else:
            name = e.key.removeprefix(PREFIX)
            if e.awaited:
                self.latest[e.client] = {**self.latest.get(e.client, {}), record(name, e.body)[0]: name}
            name = name.rpartition(".")[0]
        if self.instances.get(name) != e.client:
            raise self._refused("Put", f"{e.client} has not announced the instance {name}")

    def _reads(self, e: Event) -> None:
        """Check that a client that recovers lists instances, then puts, and gets each of these in order."""
        due, known = self.due.get(e.client, ()), self.latest.get(e.client, {})
        due = () if due == FAILED and e.op == "list" else due
        if due and due[0] != e.key:
            raise self._refused("Get", f"{e.client} asks for {e.key}, and something else is next in its recovery")
        if e.op == "list":
            numbers = [int(key.removeprefix(e.key).partition(".")[0]) for key in e.keys]
            self.found[e.client] = max([*numbers, 0 if e.key == INSTANCES else self.found.get(e.client, 0)], default=0)
            self.due[e.client] = (PREFIX,) if e.key == INSTANCES else e.keys
            self.latest[e.client] = {}
        elif due:
            name = e.key.removeprefix(PREFIX)
            key = record(name, e.body)[0]
            self.due[e.client], self.latest[e.client] = due[1:], {**known, key: max(name, known.get(key, ""))}
        else:
            self.asked[e.client] = e.key

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
        last, known = self._last_of(e), self.latest.get(e.client, {}).get(e.key, "")
        if e.body and not (last and (last.kind, last.op, last.status, last.key) == ("applied", "get", 200, self.asked.get(
                e.client)) and record(last.key, last.body) == (e.key, e.body) and last.key >= PREFIX + known):
            raise self._misled(e, f"it has not read that value last, from {known} or a later put")
        if known and not e.body:
            raise self._misled(e, f"it knows of {known}")
        if e.keys and bool(e.body) != (e.keys[1] == "bytes"):
            raise self._misled(e, f"the call has returned {e.keys[1]}")
        return AGAIN


def is_nowhere(s: Shared, w: Writer, update: Update) -> bool:
    return w.pc == "Idle" and w.k == update[1] and update not in s.pool and update not in {of for _, of in s.objects}


def is_in_doubt(s: Shared, w: Writer, update: Update) -> bool:
    return (w.pc == "Idle" and w.k == update[1] + 1 and update not in s.acked) or is_nowhere(s, w, update)


ENDED = {"failed": is_nowhere, "unknown": is_in_doubt}  # response -> the condition under which it is true
