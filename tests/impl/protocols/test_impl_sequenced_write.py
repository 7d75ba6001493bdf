"""The sequenced write protocol in both its uses, on every store: the essay's sentences, and the limits of the model."""

import asyncio
from datetime import UTC, datetime
from io import BytesIO
from types import SimpleNamespace

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, NotFound, OutcomeUnknown, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists, SequencedStorage
from highwater.impl.protocols.sequenced_write import Committed, LogReader, LogWriter, NextFile, StateReader, StateWriter
from highwater.impl.stores import s3
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import Ulids, system_world
from tests.support.stores.faulty import LATE, LOST, NEVER, REFUSED, Faulty

encode = UPDATES.encode

pytest_plugins = ["tests.support.stores.fixtures"]
run = asyncio.run
UNKNOWN = pytest.mark.parametrize("unknown", ["report", "recognise"])
FATES = pytest.mark.parametrize("fate", [LOST, LATE, NEVER])


def storage(store) -> SequencedStorage:
    return SequencedStorage(system_world(store), Namespace("db", "manifest"))


def writer(store, **options: str) -> StateWriter:
    return StateWriter(storage(store), **options)


def log(store, unknown: str = "report") -> LogWriter:
    return LogWriter(SequencedStorage(system_world(store), Namespace("db", "wal")), unknown)


def log_reader(store) -> LogReader:
    return LogReader(SequencedStorage(system_world(store), Namespace("db", "wal")))


async def add(client: StateWriter, update: str, attempts: int | None = None) -> int:
    return (await client.update(lambda _, m: m.with_update(update), attempts)).id


async def updates(store) -> tuple[str, ...]:
    return (await StateReader(storage(store)).current()).value.updates


# --- the full state in each file


@UNKNOWN
@pytest.mark.parametrize("resolve", ["get", "list"])
def test_of_racing_updates_none_is_lost_and_each_is_where_its_id_says(stores, resolve, unknown):
    async def case():
        async def work(w: int) -> list[int]:
            client = writer(stores.open(), resolve=resolve, unknown=unknown)
            return [await add(client, f"{w}.{k}") for k in range(3)]

        ids = await asyncio.gather(*map(work, range(4)))
        assert sorted(i for of in ids for i in of) == list(range(1, 13))
        history = await updates(stores.open())
        assert all(history[i - 1] == f"{w}.{k}" for w, of in enumerate(ids) for k, i in enumerate(of))

    run(case())


def test_old_files_are_checkpoints(stores):
    """«cheap checkpoints of old versions of the data by simply leaving them around»"""

    async def case():
        reader = StateReader(storage(stores.open()))
        assert await reader.current() is None
        client = writer(stores.open())
        for k in range(3):
            await add(client, f"0.{k}")
        assert await reader.read(2) == Manifest(("0.0", "0.1"))
        assert await reader.current() == Committed(3, Manifest(("0.0", "0.1", "0.2")))
        with pytest.raises(NotFound):
            await reader.read(4)

    run(case())


def test_requests_of_a_writer_alone_and_of_a_conflict():
    async def case():
        store = Faulty(MemoryStore())
        one, other, third = writer(store), writer(store), writer(store, resolve="list")
        await add(one, "0.0")
        await add(one, "0.1")
        assert store.sent() == "list_page create create"
        await add(other, "1.0")
        assert store.sent() == "list_page get create"
        await add(one, "0.2")
        assert store.sent() == "create get create"
        await add(third, "2.0")
        await add(other, "1.1")
        assert store.sent() == "list_page get create create get create get create"  # «re-read», one id after the other
        await add(third, "2.1")
        assert store.sent() == "create list_page get create"
        await StateReader(storage(store)).current()
        assert store.sent() == "list_page get"

    run(case())


def test_it_gives_up_after_so_many_attempts_and_nothing_is_applied():
    async def case():
        store = MemoryStore()
        one, other = writer(store), writer(store)
        await add(one, "0.0")
        await add(other, "1.0")
        with pytest.raises(ObjectVersionExists) as given_up:
            await add(one, "0.1", attempts=1)
        assert isinstance(given_up.value, Definite) and await updates(store) == ("0.0", "1.0")
        assert await add(one, "0.2", attempts=1) == 3

    run(case())


@FATES
def test_report_the_caller_is_told_and_nothing_repeats_it(fate):
    async def case():
        store = Faulty(MemoryStore())
        client = writer(store)
        await add(client, "0.0")
        store.next("create", fate)
        with pytest.raises(OutcomeUnknown):
            await add(client, "0.1")
        assert store.sent() == "list_page create create"
        await store.arrive()
        assert await add(client, "0.2") == (2 if fate == NEVER else 3)
        assert store.sent() == "list_page get create"
        assert await updates(store) == (("0.0", "0.2") if fate == NEVER else ("0.0", "0.1", "0.2"))

    run(case())


@FATES
def test_recognise_the_same_put_again_and_what_it_meets_is_its_own(fate):
    async def case():
        store = Faulty(MemoryStore())
        client = writer(store, unknown="recognise")
        store.next("create", fate, fate)
        assert await add(client, "0.0") == 1
        assert store.sent() == "list_page create create create" + " get" * (fate == LOST)
        await store.arrive()
        assert await add(client, "0.1") == 2
        assert await updates(store) == ("0.0", "0.1")

    run(case())


def test_recognise_what_it_meets_is_another_s():
    async def case():
        store = Faulty(MemoryStore())
        one, other = writer(store, unknown="recognise"), writer(store)
        await add(other, "1.0")
        assert await add(one, "0.0") == 2
        await add(other, "1.1")
        store.sent()
        store.next("create", LOST)  # lost is the 412
        assert await add(one, "0.1") == 4
        assert store.sent() == "create create get create"  # no second GET: it has read what it builds on
        assert await updates(store) == ("1.0", "0.0", "1.1", "0.1")

    run(case())


def test_recognise_what_cannot_be_found_out_is_of_unknown_outcome():
    async def case():
        store = Faulty(MemoryStore())
        client = writer(store, unknown="recognise")
        store.next("create", LOST)
        store.next("get", REFUSED)
        with pytest.raises(OutcomeUnknown):
            await add(client, "0.0")
        assert await add(client, "0.1") == 2
        assert store.sent() == "list_page create create get list_page get create"
        store.next("create", *[NEVER] * 9, REFUSED)
        with pytest.raises(OutcomeUnknown):
            await add(client, "0.2")

    run(case())


ANSWERED = {"ResponseMetadata": {"HTTPStatusCode": 200}}


class OneWriteASecond:
    """A boto3 client of a store that takes one write a second to a key, else 429, and whose first answer is lost."""

    def __init__(self):
        self.meta = SimpleNamespace(config=SimpleNamespace(retries={"total_max_attempts": 1}), endpoint_url="x")
        self.now_s, self.body, self.throttled = 0.0, None, 0

    async def sleep(self, duration_s: float) -> None:
        self.now_s += duration_s

    def put_object(self, Body: bytes, **_: object) -> None:
        if self.body is None:
            self.body = Body
            raise ConnectionClosedError(endpoint_url="x")
        self.throttled += self.now_s < 1
        raise refusal(429 if self.now_s < 1 else 412)

    def head_object(self, **_: object) -> None:
        raise refusal(403)

    def list_objects_v2(self, **_: object) -> dict:
        return {**ANSWERED, "IsTruncated": False}

    def get_object(self, **_: object) -> dict:
        return {**ANSWERED, "Body": BytesIO(self.body), "ETag": "x", "LastModified": datetime.fromtimestamp(0, UTC)}


def refusal(status: int) -> ClientError:
    return ClientError({"Error": {"Code": str(status)}, "ResponseMetadata": {"HTTPStatusCode": status}}, "PutObject")


@pytest.mark.parametrize("pause_s, finds_out", [(s3.PAUSE_S, True), (0, False)])
def test_recognise_waits_below_the_seam_where_a_key_takes_one_write_a_second(pause_s, finds_out, monkeypatch):
    client = OneWriteASecond()
    monkeypatch.setattr(s3, "PAUSE_S", pause_s)
    monkeypatch.setattr(s3.asyncio, "sleep", client.sleep)
    of = log(s3.S3Store(client, "b", ids=Ulids()), "recognise")
    if finds_out:
        assert run(of.append(b"0.0")) == 1 and client.throttled
    else:
        with pytest.raises(OutcomeUnknown):
            run(of.append(b"0.0"))


def test_after_a_request_refused_without_effect_it_goes_on_from_where_it_was():
    async def case():
        store = Faulty(MemoryStore())
        client = writer(store)
        await add(writer(store.store), "1.0")
        for method, requests in (("list_page", "list_page"), ("get", "list_page get"), ("create", "get create")):
            store.next(method, REFUSED)
            with pytest.raises(Unavailable):
                await add(client, "0.0")
            assert store.sent() == requests
        assert await add(client, "0.0") == 2
        assert store.sent() == "create"

    run(case())


# --- a log


@UNKNOWN
def test_of_racing_appends_none_is_lost_and_all_read_one_order(stores, unknown):
    """«the state of the system is represented by reading all the files and resolving them in order»"""

    async def case():
        async def work(w: int) -> list[int]:
            client = log(stores.open(), unknown)
            return [await client.append(f"{w}.{k}".encode()) for k in range(4)]

        early, *ids = await asyncio.gather(log_reader(stores.open()).read(), *map(work, range(3)))
        entries = await log_reader(stores.open()).read()
        assert sorted(i for of in ids for i in of) == list(range(1, 13))
        assert all(entries[i - 1] == f"{w}.{k}".encode() for w, of in enumerate(ids) for k, i in enumerate(of))
        assert len(entries) == 12 and entries[:len(early)] == early

    run(case())


def test_a_conflict_of_a_log_costs_no_get_and_a_reader_no_list():
    """«reduces the cost of contention from three S3 round trips to two by avoiding the GET»"""

    async def case():
        store = Faulty(MemoryStore())
        one, other = log(store), log(store)
        assert [await one.append(b"a"), await other.append(b"b"), await one.append(b"c")] == [1, 2, 3]
        assert store.sent() == "list_page create list_page create create create"
        reader = log_reader(store)
        assert await reader.read() == [b"a", b"b", b"c"]
        assert store.sent() == "get get get get"
        assert await other.append(b"d") == 4
        assert await reader.read() == [b"a", b"b", b"c", b"d"]
        assert store.sent() == "create create get get"

    run(case())


@FATES
@UNKNOWN
def test_an_append_without_a_reply(fate, unknown):
    async def case():
        store = Faulty(MemoryStore())
        client = log(store, unknown)
        store.next("create", fate)
        if unknown == "report":
            with pytest.raises(OutcomeUnknown):
                await client.append(b"a")
        else:
            assert await client.append(b"a") == 1
        await store.arrive()
        stored = unknown == "recognise" or fate != NEVER
        assert await client.append(b"b") == 1 + stored
        assert await log_reader(store).read() == [b"a"] * stored + [b"b"]

    run(case())


def test_an_append_gives_up_after_so_many_attempts():
    async def case():
        store = MemoryStore()
        one, other = log(store), log(store)
        await one.append(b"a")
        await other.append(b"b")
        with pytest.raises(ObjectVersionExists):
            await one.append(b"c", attempts=1)
        assert await one.append(b"c", attempts=1) == 3

    run(case())


def test_a_reader_without_an_answer_goes_on_where_it_was():
    async def case():
        store = Faulty(MemoryStore())
        for body in (b"a", b"b"):
            await log(store).append(body)
        reader = log_reader(store)
        store.next("get", "", REFUSED)
        with pytest.raises(Unavailable):
            await reader.read()
        store.sent()
        assert await reader.read() == [b"a", b"b"] and store.sent() == "get get"

    run(case())


def test_what_it_is_made_of_is_checked():
    with pytest.raises(ValueError, match="reapply"):
        NextFile(storage(MemoryStore()), "reapply")
    with pytest.raises(ValueError, match="off"):
        writer(MemoryStore(), resolve="off")
    assert encode(Manifest(("0.0",))) != encode(Manifest(("1.0",)))  # a body is its update's own
