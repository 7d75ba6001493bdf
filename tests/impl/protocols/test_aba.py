"""ABA: the claims of docs/operating/aba.md about keys with conditions to which equal bytes may return, case by case."""

import asyncio
import random
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from highwater.conformance.conform import model_of
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import STEMS
from highwater.dst.simulate import simulate
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import NotFound, OutcomeUnknown
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import InvalidBoundary, ObjectStoreBoundaryObject, ObjectVersionBehindBoundary
from highwater.impl.protocols.sequenced_storage import MetadataOnly, SequencedStorage
from highwater.impl.protocols.sequenced_write import LogReader, LogWriter
from highwater.impl.protocols.simple_conditional import SimpleConditional
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.system import system_world
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.sequenced_metadata_boundary import Constants as Boundary
from highwater.model.protocols.sequenced_metadata_boundary import model as boundary_model
from highwater.specs.runs import rows
from tests.support.stores.digest import DigestStore
from tests.support.stores.faulty import LATE, Faulty

pytest_plugins = ["tests.support.stores.fixtures"]
PAGE = Path(__file__).resolve().parents[3] / "docs/operating/aba.md"
ROWS = {row.id: row for row in rows()}
NAMESPACE = Namespace("db", "manifest")
run = asyncio.run


def test_the_page_names_rows_that_fail_as_it_says():
    told = dict(re.findall(r"^\| `(\w+)` \|.*\| (\w+) \|$", PAGE.read_text(), re.M))
    assert told == {name: ROWS[name].violates for name in told} and {
        "conditional_aba", "conditional_aba_late", "conditional_check_flag", "sequenced_log_alike", "store_digest_update",
        "store_digest_read", "boundary_moves_backward"} <= told.keys()
    for name in told:
        assert ROWS[name].expect == "FAILED"


# --- all of them: which keys have conditions, and whether bytes recur there

BOUNDARY = "db/gc/compactions.boundary"
CONDITIONS = {  # scenario -> keys that are asked for with the version of what was read
    "simple_conditional": {"db/all"}, "store_primitives": {"db/store/1", "db/store/2"}, "wal_fencing": {"db/wal.manifest"},
    **{stem: {NAMESPACE.boundary_key, BOUNDARY} for stem in (
        "sequenced_metadata_boundary", "known_latest", "manifest_compactions", "database_gc", "database_metadata")},
    "update_ids": {BOUNDARY},
    **{stem: {NAMESPACE.boundary_key} for stem in ("manifest_migration", "checkpoints", "db_reader", "destroy")},
    "log_gc": {"db/gc/log.boundary"}, "clones": {f"dbs/{number}/gc/manifest.boundary" for number in range(3)},
    "database_clones": {f"dbs/{number}/gc/{name}.boundary" for name, most in (("manifest", 3), ("compactions", 2))
                        for number in range(most)},
    "db": {NAMESPACE.boundary_key, BOUNDARY, "clone/gc/manifest.boundary", "clone/gc/compactions.boundary"},
}


@pytest.mark.parametrize("stem", STEMS)
def test_conditions_are_held_on_these_keys_and_no_bytes_come_back_there(stem):
    keys, recurring = set(), set()
    for seed in range(40):
        outcome = simulate(Run(seed, scenario=stem))
        assert not outcome.kind
        keys |= {e.key for e in outcome.events if e.op in ("update", "get_if_changed")}
        put = [(e.key, e.body) for e in outcome.events
               if e.kind == "applied" and e.status == 200 and e.op in ("create", "update", "put") and e.key in keys]
        recurring |= {key for key, body in put if put.count((key, body)) > 1}

    assert keys == CONDITIONS.get(stem, set())
    assert not recurring or stem == "store_primitives"  # that one is of the store alone: its bodies are few


# --- simple conditional: exposed, if its values may come again

class Flag(NamedTuple):
    """A value without ids: it comes again."""

    on: bool = False


class FlagCodec:
    def encode(self, flag: Flag) -> bytes:
        return b"%d" % flag.on

    def decode(self, body: bytes) -> Flag:
        return Flag(body == b"1")


def turned(flag: Flag) -> Flag:
    return Flag(not flag.on)


def flags(store) -> SimpleConditional:
    return SimpleConditional(system_world(store), "db/all", FlagCodec(), recurs=True)


def ids(store) -> SimpleConditional:
    return SimpleConditional(system_world(store), "db/all")


async def step(client: SimpleConditional, name: str) -> None:
    await client.update(name, turned if client.recurs else lambda value: value.with_update(name))


@pytest.fixture(params=["digest", "moto"])
def digests(request):
    """A store whose versions are digests."""
    return DigestStore() if request.param == "digest" else request.getfixturevalue("moto_stores").open()


@pytest.mark.parametrize("made, first, sees", [(flags, Flag(), False), (ids, Manifest(), True)], ids=["flag", "ids"])
def test_who_rested_while_others_wrote_twice_meets_a_conflict_only_where_no_bytes_come_back(digests, made, first, sees):
    async def case():
        store = Faulty(digests)
        one, other = made(store), made(store)
        await one.initialise(first)
        await step(one, "0.0")
        await step(other, "1.0")
        await step(other, "1.1")
        store.sent()
        await step(one, "0.1")
        assert store.sent() == ("update get update" if sees else "update")

    run(case())


@pytest.mark.parametrize("made, first, lands", [(flags, Flag(), True), (ids, Manifest(), False)], ids=["flag", "ids"])
def test_a_late_put_takes_effect_after_others_have_written_only_where_bytes_come_back(digests, made, first, lands):
    async def case():
        store = Faulty(digests)
        one, other = made(store), made(digests)
        await one.initialise(first)
        store.next("update", LATE)
        with pytest.raises(OutcomeUnknown):
            await step(one, "0.0")
        for name in ("1.0", "1.1"):
            await step(other, name)
        before = (await other.current()).value
        await store.arrive()
        assert ((await other.current()).value != before) == lands

    run(case())


@pytest.mark.parametrize("resolve", ["unknown", "check"])
def test_an_update_without_its_id_in_the_value_is_refused(resolve):
    async def case():
        client = SimpleConditional(system_world(MemoryStore()), "db/all", resolve=resolve)
        await client.initialise(Manifest())
        with pytest.raises(ValueError, match="its bytes could be there again"):
            await client.update("0.0", lambda value: value)

    run(case())


def test_ids_may_leave_the_value_and_its_bytes_do_not_come_back():
    """The last id is enough: none before had it."""
    async def case():
        store, seen = DigestStore(), set()
        client = ids(store)
        await client.initialise(Manifest())
        for k in range(20):
            await client.update(f"0.{k}", lambda value, k=k: Manifest((*value.updates[-(k % 3):], f"0.{k}")))
            seen.add((await store.get("db/all")).body)
        assert len(seen) == 20

    run(case())


def test_values_that_recur_cannot_be_asked_for_an_update():
    with pytest.raises(ValueError, match="recurs"):
        SimpleConditional(system_world(MemoryStore()), "k", resolve="check", recurs=True)


# --- the boundary: its number is all there is, and it only rises

async def played(store, seed: int, restores: bool) -> tuple[list, list]:
    """Run three clients, and an operator who may restore an old boundary. Return what the clients saw, and the bodies put."""
    draw, said, bodies = random.Random(seed), [], []
    clients = [ObjectStoreBoundaryObject(system_world(store), NAMESPACE) for _ in range(3)]
    for _ in range(12):
        client, what, n = draw.choice(clients), draw.choice(["read", "check", "advance", "operator"]), draw.randrange(1, 5)
        if what == "operator":
            if restores:
                await store.put(NAMESPACE.boundary_key, b"%d" % n)
            continue
        try:
            said.append(await getattr(client, what)(*[n] * (what != "read")))
        except (InvalidBoundary, ObjectVersionBehindBoundary) as error:
            said.append(type(error).__name__)
        try:
            bodies.append((await store.get(NAMESPACE.boundary_key)).body)
        except NotFound:
            bodies.append(b"0")
    return said, bodies


@pytest.mark.parametrize("restores", [False, True], ids=["", "restored"])
def test_of_the_boundary_a_digest_tells_as_much_as_a_unique_version(restores):
    """Also where an operator restores an older one: who has seen a later one finds out by its number, and nobody else can."""
    met = set()
    for seed in range(400):
        by_digest, unique = (run(played(store, seed, restores)) for store in (DigestStore(), MemoryStore()))
        assert by_digest == unique
        met |= {said for said in unique[0] if isinstance(said, str)}
        if not restores:
            numbers = list(map(int, unique[1]))
            assert numbers == sorted(numbers)
    assert ("InvalidBoundary" in met) == restores


def test_the_model_s_condition_is_a_digest_and_the_boundary_is_monotone():
    """It compares values, so every row that passes passes with digests."""
    of = boundary_model(Boundary())
    assert "BoundaryIsMonotone" in of.always
    assert explore(model_of(ROWS["two_collectors"])).violated is None
    assert explore(model_of(ROWS["boundary_moves_backward"])).violated == "BoundaryIsMonotone"


# --- sequences of files: no condition names a version; but bytes are compared

def test_of_sequenced_files_nobody_holds_a_version():
    store = MetadataOnly(MemoryStore())
    for method in (store.update, store.get_if_changed, store.put, store.head):
        with pytest.raises(AssertionError):
            method("k")


@pytest.mark.parametrize("bodies, told, there", [
    ((b"+1", b"+1"), (1, 1), [b"+1"]), ((b"a +1", b"b +1"), (2, 1), [b"b +1", b"a +1"])], ids=["alike", "own"])
def test_a_create_in_doubt_is_recognised_by_bytes_that_must_be_its_own(bodies, told, there):
    async def case():
        inner = MemoryStore()
        store = Faulty(inner)
        other = LogWriter(SequencedStorage(system_world(inner), NAMESPACE))
        others: list[int] = []

        async def overtaken(key: str, body: bytes) -> str:
            if others:
                return await inner.create(key, body)
            others.append(await other.append(bodies[1]))
            raise OutcomeUnknown("no reply")

        store.create = overtaken
        one = LogWriter(SequencedStorage(system_world(store), NAMESPACE), unknown="recognise")
        assert (await one.append(bodies[0]), *others) == told
        assert await LogReader(SequencedStorage(system_world(inner), NAMESPACE)).read() == there

    run(case())
