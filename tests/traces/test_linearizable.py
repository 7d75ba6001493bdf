"""The checker of histories gives the right verdict on small histories that are known to be good or bad.

It also checks histories of the store's model, with each safeguard on and off, and recorded ones of every store, with threads
that send requests at once."""

import asyncio
import itertools
import random
import threading
import time

import pytest

from highwater.impl.errors import AlreadyExists, NotFound, OutcomeUnknown, PreconditionFailed
from highwater.impl.stores.cached import CachingStore
from highwater.impl.world import list_all
from highwater.model.core import init, moves
from highwater.model.protocols.store_primitives import Client, Constants, model, version
from highwater.traces.histories.linearizable import (
    CONFLICT,
    CREATE,
    GET,
    GET_IF_CHANGED,
    LIST,
    MISSING,
    PUT,
    UNCHANGED,
    UPDATE,
    Operation,
    check,
)

pytest_plugins = ["tests.support.stores.fixtures"]


# --- known ones


def done(op: str, called: int, returned: int | None, result: object = None, body: bytes = b"", named: str = "",
         key: str = "k") -> Operation:
    return Operation(op, key, body, named, called, returned, result)


A, B = (b"a", "1"), (b"b", "2")
PUT_A, PUT_B = done(PUT, 1, 2, "1", b"a"), done(PUT, 3, 4, "2", b"b")

GOOD = {
    "nothing": [],
    "one after the other": [PUT_A, PUT_B, done(GET, 5, 6, B)],
    "a read meanwhile may show either": [PUT_A, done(PUT, 3, 6, "2", b"b"), done(GET, 4, 5, B), done(GET, 7, 8, B)],
    "or what was before": [PUT_A, done(PUT, 3, 6, "2", b"b"), done(GET, 4, 5, A), done(GET, 7, 8, B)],
    "of two creates one": [done(CREATE, 1, 4, "1", b"a"), done(CREATE, 2, 3, CONFLICT, b"b"), done(GET, 5, 6, A)],
    "of two updates one": [PUT_A, done(UPDATE, 3, 6, CONFLICT, b"c", "1"), done(UPDATE, 4, 5, "2", b"b", "1")],
    "nobody heard of it, and it is there": [done(PUT, 1, None, None, b"a"), done(GET, 2, 3, MISSING), done(GET, 4, 5, A),
                                            done(UPDATE, 6, 7, "2", b"b", "1")],
    "nobody heard of it, and it is not": [PUT_A, done(UPDATE, 3, None, None, b"x", "1"), done(GET, 4, 5, A)],
    "nobody heard of it, and it is in the way": [done(CREATE, 1, None, None, b"x"), done(CREATE, 2, 3, CONFLICT, b"a")],
    "unchanged": [PUT_A, done(GET_IF_CHANGED, 3, 4, UNCHANGED, named="1"), done(GET_IF_CHANGED, 5, 6, A, named="0")],
    "missing": [done(GET, 1, 2, MISSING), done(GET_IF_CHANGED, 3, 4, MISSING, named="1"),
                done(UPDATE, 5, 6, CONFLICT, b"a", "1")],
    "equal contents, equal versions": [PUT_A, PUT_B, done(PUT, 5, 6, "1", b"a"), done(UPDATE, 7, 8, "2", b"b", "1")],
    "a listing meanwhile": [done(PUT, 1, 4, "1", b"a"), done(LIST, 2, 3, (), key=""), done(LIST, 5, 6, ("k",), key="")],
    "a listing of others": [PUT_A, done(LIST, 3, 4, (), key="x")],
    "a get that nobody heard of": [PUT_A, done(GET, 3, None)],
}
BAD = {
    "a stale read": [PUT_A, PUT_B, done(GET, 5, 6, A)],
    "reads that go back": [PUT_A, done(PUT, 3, 10, "2", b"b"), done(GET, 4, 5, B), done(GET, 6, 7, A)],
    "a lost create": [done(CREATE, 1, 2, "1", b"a"), done(CREATE, 3, 4, "2", b"b"), done(GET, 5, 6, B)],
    "two creates won": [done(CREATE, 1, 4, "1", b"a"), done(CREATE, 2, 3, "2", b"b")],
    "a create that lost against nobody": [done(CREATE, 1, 2, CONFLICT, b"a")],
    "two updates of one version won": [PUT_A, done(UPDATE, 3, 6, "2", b"b", "1"), done(UPDATE, 4, 5, "3", b"c", "1")],
    "an update that lost against nobody": [PUT_A, done(UPDATE, 3, 4, CONFLICT, b"b", "1"), done(GET, 5, 6, A)],
    "an update of what is not there": [done(UPDATE, 1, 2, "2", b"b", "1")],
    "a write that vanished": [PUT_A, done(GET, 3, 4, MISSING)],
    "a read from nowhere": [PUT_A, done(GET, 3, 4, (b"x", "9"))],
    "half of each": [done(PUT, 1, 4, "1", b"aa"), done(PUT, 2, 5, "2", b"bb"), done(GET, 6, 7, (b"ab", "2"))],
    "unchanged, though it has changed": [PUT_A, PUT_B, done(GET_IF_CHANGED, 5, 6, UNCHANGED, named="1")],
    "a body that was not asked for": [PUT_A, done(GET_IF_CHANGED, 3, 4, A, named="1")],
    "nobody heard of it, and it came and went": [done(PUT, 1, None, None, b"a"), done(GET, 2, 3, A), done(GET, 4, 5, MISSING)],
    "a listing that misses a completed put": [PUT_A, done(LIST, 3, 4, (), key="")],
    "a listing of what nobody put": [PUT_A, done(LIST, 3, 4, ("k", "x"), key="")],
    "a listing that is no moment": [done(LIST, 1, 8, ("b",), key=""), done(PUT, 2, 3, "1", b"a", key="a"),
                                    done(PUT, 4, 5, "2", b"b", key="b")],
    "listings that disagree": [done(PUT, 1, 8, "1", b"a", key="a"), done(PUT, 2, 9, "2", b"b", key="b"),
                               done(LIST, 3, 6, ("a",), key=""), done(LIST, 4, 7, ("b",), key="")],
}


@pytest.mark.parametrize("name", GOOD)
def test_good_histories(name):
    assert check(GOOD[name]) == ""


@pytest.mark.parametrize("name", BAD)
def test_bad_histories(name):
    assert check(BAD[name])


def test_it_says_which_operation_has_no_place():
    assert check(BAD["a stale read"]) == (
        "k: 2 operations have an order, but none of these can be the next: get [5, 6] -> (b'a', '1')")


@pytest.mark.parametrize("wrong", [done("delete", 1, 2), done(GET, 2, 1, A)])
def test_what_is_no_history(wrong):
    with pytest.raises(ValueError, match="no operation"):
        check([wrong])
    with pytest.raises(ValueError, match="shares its body"):
        check([PUT_A, done(PUT, 3, None, None, b"a")])


# --- the model of the store: its histories are good, and with a safeguard off some are found to be bad

OPS = {"Put": PUT, "Create": CREATE, "Update": UPDATE, "Get": GET, "GetIfChanged": GET_IF_CHANGED, "List": LIST}
OUTCOMES = {"Conflict": CONFLICT, "Missing": MISSING, "NotModified": UNCHANGED}
BOUNDS = {"CLIENTS": 3, "KEYS": 2, "BODIES": 12, "WRITES": 4, "READS": 4, "LISTS": 2}


def named_version(c: Constants, o) -> str:
    return f"{version(c, o)}" if o.n else ""


def result_of(c: Constants, w: Client) -> object:
    if w.kind == "List":
        return tuple(f"k{key}" for key in sorted(w.listed))
    if w.outcome in OUTCOMES:
        return OUTCOMES[w.outcome]
    shown = named_version(c, w.got)
    return shown if w.kind in ("Put", "Create", "Update") else (b"%d %d" % (w.got.front, w.got.back), shown)


def walk(c: Constants, seed: int) -> list[Operation]:
    """The history of one random walk, each body put but once."""
    of, draw = model(c), random.Random(seed)
    state, names, put = init(of), [process.name for process in of.processes], 0
    history: list[Operation] = []
    open_: dict[str, Operation] = {}
    for now in itertools.count(1):
        steps = [step for step in moves(of, state) if step.label[1] not in ("SendPut", "SendCreate", "SendUpdate")
                 or step.label[2][1] == put + 1]
        if not steps:
            return history + [o._replace(returned=None) for o in open_.values()]
        step = draw.choice(steps)
        (client, action, _), before = step.label, state
        state = step.state
        if not client:
            continue
        w, after = (each.locals[names.index(client)] for each in (before, state))
        if action.startswith("Send"):
            put = max(put, after.body)
            body = b"%d %d" % (after.body, after.body) if after.body else b""
            known = after.known[after.key - 1] if after.key else None
            named = named_version(c, known) if known and after.kind in ("Update", "GetIfChanged") else ""
            key = f"k{after.key}" if after.key else "k"
            open_[client] = Operation(OPS[after.kind], key, body, named, now, None)
        elif action == "Reply":
            history.append(open_.pop(client)._replace(returned=now, result=result_of(c, w)))
        elif action in ("GiveUp", "LoseReply"):
            history.append(open_.pop(client))


def test_every_history_of_the_model_is_linearizable():
    lengths = []
    for seed in range(60):
        history = walk(Constants(**BOUNDS, MAX_PENDING=2, MAX_LOST=2), seed)
        assert check(history) == "", seed
        lengths.append(len(history))
    assert max(lengths) > 20


@pytest.mark.parametrize("off", [
    {"WRITES_ARE_ATOMIC": False}, {"CREATE_IS_CONDITIONAL": False}, {"UPDATE_IS_CONDITIONAL": False},
    {"CONFLICTS_ARE_TRUE": False}, {"READS_ARE": "session"}, {"READS_ARE": "stale"}, {"LIST_IS_CONSISTENT": False}],
    ids=str)
def test_with_a_safeguard_off_some_history_is_not(off):
    assert any(check(walk(Constants(**BOUNDS, **off), seed)) for seed in range(200))


# --- real stores

THREADS, OPERATIONS, KEYS = 6, 60, ("r/a", "r/b", "r/c")


class Recorder:
    """Operations of all threads, with ordinals of one counter: `next` of it is atomic."""

    def __init__(self):
        self.clock, self.history = itertools.count(1), []

    async def take(self, store, op: str, key: str, body: bytes = b"", named: str = "") -> object:
        """Ask, and write down what was asked and answered."""
        called = next(self.clock)
        time.sleep(1e-5)  # a thread's turn ends here, so that even requests to memory overlap
        try:
            result = await ask(store, op, key, body, named)
            time.sleep(1e-5)
            returned = next(self.clock)
        except OutcomeUnknown:
            result, returned = None, None
        self.history.append(Operation(op, key, body, named, called, returned, result))
        return result


SERVERS_OWN = ".sgwtmp."  # in the name of a file that versitygw lists, now and then, while a PUT is under way


async def ask(store, op: str, key: str, body: bytes, named: str) -> object:
    try:
        match op:
            case "put":
                return await store.put(key, body)
            case "create":
                return await store.create(key, body)
            case "update":
                return await store.update(key, body, named)
            case "get":
                return (await store.get(key))[:2]
            case "get_if_changed":
                found = await store.get_if_changed(key, named)
                return UNCHANGED if found is None else found[:2]
            case "list":
                return tuple(entry.key for entry in await list_all(store, key) if SERVERS_OWN not in entry.key)
    except (AlreadyExists, PreconditionFailed):
        return CONFLICT
    except NotFound:
        return MISSING
    raise ValueError(op)


async def client(number: int, stores, recorder: Recorder, keys: tuple[str, ...]) -> None:
    """Every request of the six, in a random order; conditions name what it saw last."""
    draw, store, known = random.Random(number), stores.open(), {}
    for step in range(OPERATIONS):
        key, op = draw.choice(keys), draw.choice(list(OPS.values()))
        if op in (UPDATE, GET_IF_CHANGED) and key not in known:
            op = GET
        body = b"%d.%d" % (number, step) if op in (PUT, CREATE, UPDATE) else b""
        named = known[key] if op in (UPDATE, GET_IF_CHANGED) else ""
        result = await recorder.take(store, op, "r/" if op == LIST else key, body, named)
        if op in (PUT, CREATE, UPDATE) and result not in (CONFLICT, None):
            known[key] = result
        elif isinstance(result, tuple) and op != LIST:
            known[key] = result[1]


def recorded(stores, keys: tuple[str, ...], clients: int = THREADS) -> list[Operation]:
    recorder, start = Recorder(), threading.Barrier(clients)
    failures = []

    def work(number: int) -> None:
        try:
            start.wait(30)
            asyncio.run(client(number, stores, recorder, keys))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures, failures
    return recorder.history


def overlapping(history: list[Operation]) -> int:
    ordered = sorted(history, key=lambda o: o.called)
    return sum(b.called < (a.returned or 0) for a, b in itertools.pairwise(ordered))


def test_every_store_is_linearizable(stores):
    history = recorded(stores, KEYS)
    assert len(history) == THREADS * OPERATIONS
    assert overlapping(history) > len(history) // 2
    assert check(history) == ""


def test_a_store_with_a_cache_of_its_own_for_each_client_is_not(memory_stores):
    class Cached:
        def open(self) -> CachingStore:
            return CachingStore(memory_stores.open())

    assert check(recorded(Cached(), KEYS))


def test_a_changed_reply_in_a_recorded_history_is_found(memory_stores):
    history = recorded(memory_stores, KEYS, clients=1)  # where every reply but one is impossible
    changes = {
        GET: lambda o: o._replace(result=MISSING) if o.result != MISSING else None,
        CREATE: lambda o: o._replace(result="no such version") if o.result == CONFLICT else None,
        UPDATE: lambda o: o._replace(result=CONFLICT) if o.result != CONFLICT else None,
        LIST: lambda o: o._replace(result=o.result[1:]) if o.result else None,
    }
    late = sorted(history, key=lambda o: o.called)[len(history) // 2:]
    for op, change in changes.items():
        old, new = next((o, changed) for o in late if o.op == op and (changed := change(o)))
        assert check([new if o is old else o for o in history]), op
