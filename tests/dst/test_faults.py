"""Each fault changes the outcome of runs: callers get a response that they do not get without it, or it kills a mutant.

docs/simulation/simulation.md has the catalogue of faults. test_profiles.py tests the differences between stores, and
test_sdk.py the requests that clients send again."""

from collections.abc import Iterator

import pytest

from highwater.cli.dst.explain import look, text_of
from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.run_spec import Run, drawn_shape
from highwater.dst.scenarios.sequenced_metadata_boundary import Shape, namespace, production
from highwater.dst.sim.kernel import Client, Kernel, Request
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.world.faults import FATES, NONE, Weights
from highwater.dst.world.network import OPS, READS, REFUSALS, Network
from highwater.dst.world.store import SimulatedStore
from highwater.impl.errors import Definite, Indefinite
from highwater.traces.histories.history import too_young

SHAPE = Shape(writers=2, commits=3, collectors=1, rounds=2, readers=1, reads=2, min_age_ms=60, think_ms=30)
SEEDS = range(40)


def runs(weights: Weights = NONE, build=production, **shape: object) -> Iterator[Outcome]:
    return (simulate(Run(seed, strategy="times", shape=SHAPE._replace(**shape), weights=weights), build) for seed in SEEDS)


def told(outcomes: Iterator[Outcome]) -> set[str]:
    """Collect the responses to callers of writers and readers; "nothing" if a caller got none to its update."""
    found = set()
    for outcome in outcomes:
        assert not outcome.kind, outcome.message
        answers = [e for e in outcome.events if e.kind == "told" and not e.client.startswith("Collector")]
        ended = sum(e.client.startswith("Writer") for e in answers)
        found |= {*(e.op for e in answers), *["nothing"] * (ended < SHAPE.writers * SHAPE.commits)}
    return found


FAULTS = {  # fault -> the response that it adds; a mutant that it kills; the client's SDK
    "stall": ("refused", "missing_is_asked_again", ""),
    "refused": ("failed", "refused_is_applied_again", ""),
    "conflict": ("failed", "Z10", "boto3_standard"),
    "request_lost": ("unknown", "Z8", ""),
    "reply_lost": ("unknown", "lost_reply_is_conflict", ""),
    "late": ("unknown", "timeout_is_nothing", ""),
    "crash": ("nothing", None, ""),  # no mutant of this protocol needs one: see docs/simulation/simulation.md
    "cut_off": ("unknown", "Z7", ""),
}


def test_without_faults_every_update_is_committed():
    assert told(runs()) == {"committed", "read"}


def test_the_table_is_of_all_faults():
    assert tuple(FAULTS) == Weights._fields


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_changes_what_callers_are_told(name):
    assert FAULTS[name][0] in told(runs(NONE._replace(**{name: 150})))


@pytest.mark.parametrize("name", [name for name in FAULTS if FAULTS[name][1]])
def test_a_mutant_dies_of_this_fault_alone(name):
    _, mutant, sdk = FAULTS[name]
    build = ZOO[mutant][1]
    assert not any(outcome.kind for outcome in runs(NONE, build, sdk=sdk))
    assert any(outcome.kind for outcome in runs(NONE._replace(**{name: 150}), build, sdk=sdk))


def test_a_late_blind_put_moves_the_boundary_back():
    """The unconditional put that arrives last wins, not the one that was sent last (F18)."""
    build = ZOO["boundary_moves_backward"][1]
    assert not any(outcome.kind for outcome in runs(NONE, build))
    assert any(outcome.signature == "refinement:.ApplyPending" for outcome in runs(NONE._replace(late=150), build))


def test_clocks_that_differ_make_files_old_too_soon():
    """A collector ahead of the store takes for old what is younger than min_age, by as much as its clock is ahead (F13)."""
    def young(skew_ms: int) -> list[str]:
        return [found for outcome in runs(skew_ms=skew_ms, min_age_ms=400, rounds=3, think_ms=300)
                if (found := too_young(outcome.events, namespace(SHAPE), 400))]

    assert young(300) and not young(0)


def test_a_collector_is_judged_by_its_own_clock():
    """One whose clock is behind deletes later. A mutant that takes files of its future for old ones deletes them too soon."""
    build = ZOO["future_is_old"][1]
    assert not any(outcome.kind for outcome in runs(skew_ms=2_000, rounds=3))
    assert not any(outcome.kind for outcome in runs(build=build, skew_ms=50, rounds=3))
    assert "history:too young" in {outcome.signature for outcome in runs(build=build, skew_ms=2_000, rounds=3)}


def test_a_listing_of_pages_shows_what_never_was_there_at_once():
    """Each page is of its moment: a file behind the cursor is collected before the next page shows one that is newer (F15)."""
    assert any(never_at_once(outcome) for outcome in runs(page_size=2, writers=3, commits=4))
    assert not any(never_at_once(outcome) for outcome in runs(writers=3, commits=4))


def never_at_once(outcome: Outcome) -> bool:
    where, there, states, pages = namespace(outcome.shape), set(), [], {}
    there.add(where.key(1))
    for e in outcome.events:
        if e.op == "create" and e.status == 200 and not e.key.endswith(".boundary"):
            there.add(e.key)
        elif e.op == "delete" and e.status == 204:
            there.discard(e.key)
        states.append(frozenset(there))
        if e.op == "list" and e.awaited and e.kind == "applied":
            pages[e.client] = (pages.get(e.client, frozenset()) if e.condition else frozenset()) | set(e.keys)
            if not e.truncated and pages[e.client] not in states:
                return True
    return False


def test_a_writer_of_an_older_version_is_found():
    """A rolling upgrade: writer 0 does not check the boundary yet (F22)."""
    assert any(outcome.signature == "told:committed" for outcome in runs(build=ZOO["one_old_writer"][1]))


# --- stores that do not keep what the protocol rests on

@pytest.mark.parametrize("name, signature", [
    ("eventual", "refinement:Writer.List|ListPage"),  # a listing shows every put that was answered before
    ("s3express", "refinement:Writer.List|ListPage"),  # pages go on by key order
    ("mountx-2026-08", "refinement:Writer.CreateNext"),  # create-if-absent is a condition, and no hint
])
def test_what_a_store_lacks_is_found(name, signature):
    found = [simulate(Run(seed, shape=drawn_shape(seed)._replace(store=name))) for seed in range(30)]
    assert signature in {outcome.signature for outcome in found}
    failing = next(outcome for outcome in found if outcome.kind)
    again = simulate(Run(failing.seed, shape=failing.shape), tape=failing.tape)
    assert (again.digest, again.signature) == (failing.digest, failing.signature)


@pytest.mark.parametrize("name", ["gcs", "azure", "r2", "minio-2025-08", "minio-2024-03", "ceph", "strict-rfc9110"])
def test_the_protocol_holds_on_stores_that_only_answer_otherwise(name):
    for seed in range(60):
        outcome = simulate(Run(seed, shape=drawn_shape(seed)._replace(store=name)))
        assert not outcome.kind, (seed, outcome.message)


@pytest.mark.parametrize("name", ["eventual", "s3express", "mountx-2026-08"])
def test_a_failure_of_any_store_is_explained(name):
    for seed in range(6):
        outcome = simulate(Run(seed, shape=drawn_shape(seed)._replace(store=name)))
        if outcome.kind:
            told = [line for line in text_of(look(outcome)).strip().split("\n") if line and not line.startswith("Callers:")]
            assert told[0] == outcome.signature and not [line for line in told if "stale" in line]


# fault -> whether the store applies the request, and whether the client of a failed mutation can tell
TELLS = {"refused": (False, Indefinite), "conflict": (False, Definite), "forbidden": (False, Definite),
         "request_lost": (False, Indefinite), "reply_lost": (True, Indefinite), "late": (True, Indefinite)}


def befallen(fate: str, op: str) -> tuple[int, Exception | None]:
    """Send a request with a fate; return the number of applied requests, and the client's error or None."""
    kernel, told, applied = Kernel(None), [], []
    network = Network(kernel, SimulatedStore(2), lambda e: applied.append(e) if e.kind == "applied" else None,
                      lambda site, n: 0, lambda site, n: 0, None, None, b"", (60,), 0, lambda client: None)
    kernel.resume = lambda client, incarnation, answer, error: told.append(error)
    client = Client("Writer#0")
    client.waiting = client.number = 1
    client.request = Request(op, "k", b"1", "bytes=0-9" if op == "get_range" else "")
    network._befall(fate, 1, client, client.incarnation, 1, client.request)
    kernel.run(10_000, 100)
    return len(applied), told[0]


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("fate", TELLS)
def test_what_a_client_can_tell_of_a_fault_is_what_its_words_say(fate, op):
    if fate == "conflict" and op in READS:
        pytest.skip("a read meets no conflict")
    applied, error = befallen(fate, op)
    assert applied == TELLS[fate][0]
    assert isinstance(error, Definite if op in READS else TELLS[fate][1])


def test_every_refusal_has_its_words():
    assert set(REFUSALS) <= set(TELLS) <= {*FATES, *REFUSALS}
