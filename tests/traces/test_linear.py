"""Callers see one list: each rule has a history that breaks it alone, and runs without faults send the expected requests.

In reading order: the list; traces that leave an outcome open; runs; requests.
"""

import pytest

from highwater.dst.mutants.sequenced_metadata_boundary import build
from highwater.dst.run_spec import Run
from highwater.dst.scenarios.sequenced_metadata_boundary import Shape, namespace, production
from highwater.dst.simulate import simulate
from highwater.dst.world.faults import NONE
from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_metadata_boundary import BoundedSequencedStorage
from highwater.impl.protocols.sequenced_storage import Listed
from highwater.traces.event import EMPTY, Event
from highwater.traces.histories.bounds import READ, UPDATE, faultless, operations, too_many
from highwater.traces.histories.history import damage
from highwater.traces.histories.linear import anomalies

encode = UPDATES.encode

WHERE = Namespace("db", "manifest")


def begins(client: str, op: str = "list", **fields: object) -> Event:
    """A request, applied."""
    return EMPTY._replace(**{"client": client, "kind": "applied", "op": op, "status": 200, "key": WHERE.prefix, **fields})


def told(client: str, op: str, what: str = "", file_id: int = 0) -> Event:
    """`what`: the update; of a read the list, with spaces between."""
    body = encode(Manifest(tuple(what.split()))) if op == "read" else what.encode()
    return EMPTY._replace(client=client, kind="told", op=op, key=WHERE.key(file_id) if file_id else "", body=body)


def broken(final: str, *events: Event, final_id: int = 0) -> set[str]:
    """The rules that a history breaks, of those with the model left out."""
    body = encode(Manifest(tuple(final.split())))
    found = damage(events, WHERE, body) + anomalies(events, WHERE, final_id or 1 + len(final.split()), body)
    return {text.partition(":")[0] for text in found}


A, B, R, Q = "Writer#0", "Writer#1", "Reader#0", "Reader#1"


# --- the list


def test_a_good_history() -> None:
    assert broken("a b c", begins(A), begins(B), told(A, "committed", "a", 2), begins(R), told(B, "unknown", "b"), begins(A),
                  told(R, "read", "a b", 3), begins(Q), told(Q, "read", "a b", 3), told(A, "committed", "c", 4)) == set()


def test_the_list_may_begin_with_ids_that_brought_nothing() -> None:
    history = begins(A), told(A, "committed", "a", 5), begins(R), told(R, "read", "a", 5), begins(R), told(R, "read", "a b", 6)
    assert broken("a b", *history, final_id=6) == set()
    assert broken("a b", *history, final_id=7) == {"out of order", "no prefix"}


RULES = {
    "duplicate commit": ("a", begins(A), begins(B), told(A, "committed", "a", 2), told(B, "committed", "b", 2)),
    "lost update": ("", begins(A), told(A, "committed", "a", 2)),
    "applied twice": ("a a", begins(A), told(A, "unknown", "a")),
    "out of order": ("a b", begins(A), begins(B), told(B, "committed", "b", 2), told(A, "committed", "a", 3)),
    "commit went back": ("b a", begins(A), told(A, "committed", "a", 3), begins(B), told(B, "committed", "b", 2)),
    "no prefix": ("a b", begins(A), begins(B), begins(R), told(R, "read", "b", 2)),
    "stale read": ("a", begins(A), told(A, "committed", "a", 2), begins(R), told(R, "read", "", 1)),
    "reads went back": ("a", begins(A), begins(R), told(R, "read", "a", 2), begins(Q), told(Q, "read", "", 1)),
    "failed yet there": ("a", begins(A), told(A, "failed", "a")),
}
ALSO = {"duplicate commit": {"lost update"}}  # one of two updates at one id is in no list


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_has_a_history_that_breaks_it_alone(rule: str) -> None:
    assert broken(*RULES[rule]) - ALSO.get(rule, set()) == {rule}


@pytest.mark.parametrize(("rule", "history"), [  # as in RULES, but concurrent, so that either may have been first
    ("commit went back", ("b a", begins(A), begins(B), told(A, "committed", "a", 3), told(B, "committed", "b", 2))),
    ("stale read", ("a", begins(A), begins(R), told(A, "committed", "a", 2), told(R, "read", "", 1))),
    ("reads went back", ("a", begins(A), begins(R), begins(Q), told(R, "read", "a", 2), told(Q, "read", "", 1))),
    ("failed yet there", ("a", begins(A), told(A, "failed", "a"), begins(A), told(A, "committed", "a", 2))),
])
def test_at_the_same_time_it_may_be(rule: str, history: tuple) -> None:
    assert broken(*history) == set() and rule in RULES


def test_a_read_that_shows_what_was_never_in_the_list() -> None:
    assert broken("a", begins(R), told(R, "read", "b", 2)) == {"read off history", "no prefix"}


def test_one_that_no_longer_shows_what_it_did() -> None:
    assert broken("a", begins(R), told(R, "read", "a", 2), begins(R), told(R, "read", "", 1)) == {
        "read went back", "reads went back"}


# --- indeterminate outcomes


def test_what_failed_may_be_read_only_while_it_is_tried_again() -> None:
    failed = begins(A), told(A, "failed", "a")
    read = begins(R), told(R, "read", "a", 2)
    assert broken("a", *failed, *read, begins(A), told(A, "unknown", "a")) == {"failed yet there"}
    assert broken("a", *failed, begins(A), *read, told(A, "unknown", "a")) == set()


def test_another_update_is_not_that_one_tried_again() -> None:
    assert broken("a b", begins(A), told(A, "failed", "a"), begins(A), told(A, "committed", "b", 3)) == {"failed yet there"}


def test_after_a_crash_nobody_knows_what_was_tried_last() -> None:
    crash = EMPTY._replace(client=A, kind="crash", op="create", pending=True)
    assert broken("a b", begins(A), told(A, "failed", "a"), begins(A), crash, begins(A), told(A, "committed", "b", 3)) == set()


def test_a_request_that_nobody_waits_for_begins_nothing() -> None:
    late = begins(A, "create", awaited=False)
    assert broken("a", begins(A), told(A, "failed", "a"), late) == {"failed yet there"}
    history = begins(B), told(B, "committed", "b", 2), begins(R), told(R, "read", "", 1)
    assert broken("b", begins(R, awaited=False), *history) == {"stale read"}


# --- runs


class FailedThoughDone(BoundedSequencedStorage):
    """Each client's first create is reported as a failure after it was done, and is tried again."""

    failed = False

    async def create(self, file_id: int, body: bytes) -> None:
        await super().create(file_id, body)
        if not self.failed:
            self.failed = True
            raise Unavailable("so it says")


def test_an_update_that_failed_and_is_there_is_found_in_a_run() -> None:
    run = Run(1, shape=Shape(), weights=NONE)
    outcome = simulate(run, lambda w, n, spare, i: build(w, n, spare, bounded=FailedThoughDone), by_model=False)
    assert outcome.signature == "history:applied twice"


def test_production_keeps_one_list() -> None:
    for seed in range(150):
        assert simulate(Run(seed), by_model=False).kind == ""


# --- requests

ALONE = Shape(writers=1, commits=4, collectors=1, rounds=0, readers=1, reads=3)


@pytest.mark.parametrize("shape", [ALONE, ALONE._replace(manifest=True), ALONE._replace(page_size=2),
                                   ALONE._replace(sdk="boto3_standard")], ids=["plain", "manifest", "pages", "sdk"])
def test_an_update_and_a_read_take_a_fixed_number_of_requests(shape: Shape) -> None:
    runs = (Run(seed, shape=shape, weights=NONE) for seed in range(8))
    outcomes = [outcome for run in runs if faultless((outcome := simulate(run)).events)]
    assert len(outcomes) >= 4  # in the others somebody retires
    for outcome in outcomes:
        taken = list(operations(outcome.events, namespace(shape)))
        assert outcome.kind == "" and len(taken) >= 7
        assert {(one.op, one.requests) for one in taken} == {("committed", UPDATE), ("read", READ)}
    assert (UPDATE, READ) == (4, 3)  # as docs/simulation/oracles.md says


def test_under_contention_they_take_what_conflicts_account_for() -> None:
    shape, conflicts = Shape(writers=3, commits=4, collectors=2, rounds=3, think_ms=1, min_age_ms=60), 0
    for seed in range(40):
        outcome = simulate(Run(seed, shape=shape, weights=NONE), production)
        assert outcome.kind == "" and too_many(outcome.events, namespace(shape)) == ""
        conflicts += sum(one.requests > UPDATE for one in operations(outcome.events, namespace(shape)))
    assert conflicts > 20


class ListsTwice(BoundedSequencedStorage):
    async def list(self) -> list[Listed]:
        await super().list()
        return await super().list()


class AsksTheBoundaryTwice(BoundedSequencedStorage):
    async def current(self) -> tuple[int, bytes]:
        await self.boundary.read()
        return await super().current()


@pytest.mark.parametrize(("mutant", "says"), [(ListsTwice, "took 5 requests for 0.0 (committed), and may take 4"),
                                              (AsksTheBoundaryTwice, "took 4 requests for a read (read), and may take 3")])
def test_one_that_polls_fails(mutant: type, says: str) -> None:
    shape = ALONE._replace(readers=0) if mutant is ListsTwice else ALONE
    run = Run(1, shape=shape, weights=NONE)
    outcome = simulate(run, lambda w, n, spare, i: build(w, n, spare, bounded=mutant), by_model=False)
    assert outcome.kind == ""  # nobody came to harm
    assert says in too_many(outcome.events, namespace(shape))


def test_where_a_request_was_lost_requests_are_not_counted() -> None:
    many = [begins(A)] * 9
    assert too_many([*many, told(A, "committed", "a", 2)], WHERE)
    for fault in (begins(B, kind="timeout"), begins(B, kind="refused"), begins(B, kind="crash"), begins(B, awaited=False)):
        assert too_many([*many, fault, told(A, "committed", "a", 2)], WHERE) == ""


@pytest.mark.parametrize(("meanwhile", "more"), [
    ({"op": "create", "key": WHERE.key(2)}, 3), ({"op": "delete", "key": WHERE.key(1), "status": 204}, 2),
    ({"op": "create", "key": WHERE.key(2), "status": 412}, 0), ({"op": "update", "key": WHERE.boundary_key}, 0),
    ({"op": "get", "key": WHERE.key(1)}, 0)])
def test_what_others_do_meanwhile_accounts_for_requests(meanwhile: dict, more: int) -> None:
    end = told(A, "committed", "a", 3)
    event = begins(B, **meanwhile)
    assert too_many([begins(A), event, *[begins(A)] * (UPDATE - 1 + more), end], WHERE) == ""
    assert too_many([begins(A), event, *[begins(A)] * (UPDATE + more), end], WHERE)
    assert too_many([event, *[begins(A)] * (UPDATE + 1), end], WHERE)  # before it began


def test_its_own_create_accounts_for_nothing() -> None:
    own = begins(A, "create", key=WHERE.key(2))
    assert too_many([begins(A), begins(A), own, begins(A), told(A, "committed", "a", 2)], WHERE) == ""
    assert too_many([begins(A), begins(A), own, begins(A), begins(A), told(A, "committed", "a", 2)], WHERE)


def test_a_client_whose_sdk_sends_again_may_read_back() -> None:
    history = [begins(A), begins(B, "create", key=WHERE.key(2)), *[begins(A)] * 8, told(A, "committed", "a", 3)]
    assert too_many(history, WHERE) and too_many(history, WHERE, reads_back=True) == ""
