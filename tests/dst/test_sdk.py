"""SDKs that retry: every attempt is an action of the model, and no writer mistakes its own create for another's.

In reading order: the retry policies; reading back, case by case on the memory store; the model with retries, explored; the
scenarios that reach each ambiguity, and the mutants that it kills; requests that arrive late.
"""

import asyncio
from collections import Counter
from functools import cache

import pytest

from highwater.dst.mutants.sequenced_metadata_boundary_ambiguity import BUILDS, PRESETS
from highwater.dst.run_spec import Run
from highwater.dst.scenarios.sequenced_metadata_boundary import SDKS, Shape, draw_shape, namespace, production, trace_of
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.world.faults import Weights
from highwater.dst.world.sdk import ANY, IN_SIMULATION, POLICIES, SdkStore, repeats
from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.errors import AlreadyExists, NotFound, OutcomeUnknown, PreconditionFailed, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.stores.memory import MemoryStore
from highwater.impl.stores.verified import VerifiedStore, ahead_of_boundary
from highwater.impl.world import World
from highwater.model.core import Bounds
from highwater.model.explore.tabulated import explore
from highwater.model.protocols.sequenced_metadata_boundary import WRITER, Constants, model
from highwater.traces.event import Event
from highwater.traces.explain.explain import explain
from highwater.traces.histories.ambiguity import SOMETIMES, creates
from highwater.traces.protocols.sequenced_metadata_boundary import Trace
from highwater.traces.protocols.sequenced_metadata_boundary_retries import GIVES_UP, RetryingTrace, retrying
from highwater.traces.refine import Failure

# --- what SDKs do ---------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self):
        self.ms, self.slept = 0, []

    def now_ms(self) -> int:
        return self.ms

    async def sleep_ms(self, duration_ms: int) -> None:
        self.slept.append(duration_ms)
        self.ms += duration_ms


class Scripted(MemoryStore):
    """Each request takes the next of the script: "" ok; a status: refused so; "lost": applied, no answer; "never": neither.
    `before(n)` is called before the n-th."""

    def __init__(self, *script: object, before=lambda n: None):
        super().__init__(now_ms=lambda: 0)
        self.script, self.asked, self.before = list(script), [], before

    async def _next(self, op: str, call):
        self.asked.append(op)
        self.before(len(self.asked))
        fate = self.script.pop(0) if self.script else ""
        mutation = op in ("create", "update", "put", "delete")
        if isinstance(fate, int):
            call.close()
            error = (OutcomeUnknown if mutation and fate >= 500 else Unavailable)(f"{fate}")
            error.status = fate
            raise error
        answer = None if fate == "never" else await call
        if fate == "never":
            call.close()
        if fate:
            raise (OutcomeUnknown if mutation else Unavailable)("no answer")
        return answer

    async def create(self, key, body):
        return await self._next("create", super().create(key, body))

    async def update(self, key, body, version):
        return await self._next("update", super().update(key, body, version))

    async def put(self, key, body):
        return await self._next("put", super().put(key, body))

    async def get(self, key):
        return await self._next("get", super().get(key))

    async def delete(self, key):
        return await self._next("delete", super().delete(key))


def sdk(name: str, store: MemoryStore, clock: Clock | None = None, choice: float = 1) -> SdkStore:
    return SdkStore(store, clock or Clock(), POLICIES[name], lambda site, bound: round(choice * (bound - 1)), "Writer#0")


def error_of(work) -> Exception | None:
    try:
        asyncio.run(work)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize(("name", "attempts"), [("boto3_legacy", 5), ("boto3_standard", 3), ("boto3_adaptive", 3),
                                                ("object_store", 11), ("once", 1)])
def test_an_sdk_gives_up_after_so_many_attempts(name, attempts):
    store = Scripted(*[503] * 20)
    error = error_of(sdk(name, store).create("a", b"1"))
    assert isinstance(error, OutcomeUnknown) and store.asked == ["create"] * attempts
    assert getattr(error, "attempts", None) == (attempts if POLICIES[name].tells else None)


@pytest.mark.parametrize("name", POLICIES)
def test_what_is_sent_again_after_a_time_out(name):
    timed_out = Unavailable("no answer")
    again = {op for op in ANY if repeats(POLICIES[name], op, timed_out)}
    safe = {"get", "get_range", "get_if_changed", "head", "list", "put"}
    assert again == {"object_store": safe, "once": set()}.get(name, set(ANY))


def test_an_error_after_one_attempt_says_so():
    """S3Store says so too. So a put in doubt is read back, and a conflict is one without doubt."""
    assert error_of(sdk("once", Scripted("lost")).create("a", b"1")).attempts == 1
    assert verified(Scripted(), "once").in_doubt(error_of(sdk("once", Scripted(409)).create("a", b"1"))) is False


@pytest.mark.parametrize(("name", "op", "status", "again"), [
    ("boto3_legacy", "create", 409, False), ("boto3_standard", "update", 409, False), ("boto3_standard", "create", 503, True),
    ("object_store", "create", 503, True), ("object_store", "create", 429, True), ("object_store", "create", 408, True),
    ("object_store", "update", 409, True), ("object_store", "create", 409, False), ("boto3_standard", "create", 403, False)])
def test_what_is_sent_again_after_a_status(name, op, status, again):
    error = Unavailable("")
    error.status = status
    assert repeats(POLICIES[name], op, error) is again


def test_answers_are_not_sent_again():
    assert not any(repeats(policy, "create", error) for policy in POLICIES.values()
                   for error in (AlreadyExists("a"), PreconditionFailed("a"), NotFound("a")))


@pytest.mark.parametrize(("name", "shortest", "longest"), [
    ("boto3_legacy", [0] * 4, [1000, 2000, 4000, 8000]), ("boto3_standard", [0] * 2, [1000, 2000]),
    ("object_store", [100] * 10, [200, 400, 800, 1600, 3200, 6400, 12800, 15000, 15000, 15000])])
def test_pauses(name, shortest, longest):
    for choice, slept in ((0, shortest), (1, longest)):
        clock = Clock()
        error_of(sdk(name, Scripted(*[503] * 20), clock, choice).create("a", b"1"))
        assert clock.slept == slept


def test_object_store_begins_no_attempt_after_three_minutes():
    clock = Clock()
    store = Scripted(*[503] * 20, before=lambda n: setattr(clock, "ms", clock.ms + 50_000))
    error_of(sdk("object_store", store, clock, 0).create("a", b"1"))
    assert len(store.asked) == 4


def test_adaptive_slows_down_when_it_is_throttled():
    clock = Clock()
    store = sdk("boto3_adaptive", Scripted(503, 503), clock, 0)
    asyncio.run(store.create("a", b"1"))
    asyncio.run(store.create("b", b"1"))
    assert clock.slept == [0, 500, 0, 1000, 800]  # pause, gap; pause, gap; the next request's gap


def test_object_store_says_of_409_that_there_is_such_an_object():
    assert isinstance(error_of(sdk("object_store", Scripted(409)).create("a", b"1")), AlreadyExists)
    assert isinstance(error_of(sdk("boto3_standard", Scripted(409)).create("a", b"1")), Unavailable)


def test_in_simulation_times_are_a_tenth():
    assert IN_SIMULATION["object_store"][:6] == ("object_store", 11, 20, 1500, 18_000, 10)


# --- reading back ---------------------------------------------------------------------------------------------------------

WHERE = Namespace("db", "manifest")
KEY = WHERE.key(3)


def verified(store: MemoryStore, policy: str = "boto3_standard", clock: Clock | None = None) -> VerifiedStore:
    under = sdk(policy, store, clock)
    kept = ahead_of_boundary(World(store, None, None, None), WHERE)
    return VerifiedStore(under, clock or Clock(), kept=kept, silent=not POLICIES[policy].tells)


def put(store: MemoryStore, key: str, body: bytes | None) -> None:
    """Past the script; None: delete."""
    store._objects.pop(key, None)
    store._keys[:] = [k for k in store._keys if k != key]
    if body is not None:
        store._write(key, body)


def test_a_create_that_met_its_own_success_has_succeeded():
    store = Scripted("lost")
    version = asyncio.run(verified(store).create(KEY, b"mine"))
    assert store.asked == ["create", "create", "get"] and version == store._objects[KEY].version
    naive = error_of(sdk("boto3_standard", Scripted("lost")).create(KEY, b"mine"))
    assert isinstance(naive, AlreadyExists)  # what it is without


def test_where_time_outs_are_not_sent_again_they_are_read_back():
    store = Scripted("lost")
    asyncio.run(verified(store, "object_store").create(KEY, b"mine"))
    assert store.asked == ["create", "get"]


@pytest.mark.parametrize("policy", ["boto3_standard", "object_store"])
def test_collected_before_it_is_read_back_is_the_third_outcome(policy):
    store = Scripted("lost")
    last = 3 if policy == "boto3_standard" else 2
    store.before = lambda n: put(store, KEY, None) if n == last else None
    assert isinstance(error_of(verified(store, policy).create(KEY, b"mine")), OutcomeUnknown)


def test_anothers_is_a_conflict_only_ahead_of_the_boundary():
    for boundary, outcome in ((None, AlreadyExists), (b"2", AlreadyExists), (b"3", OutcomeUnknown), (b"x", OutcomeUnknown)):
        store = Scripted("never")
        put(store, KEY, b"another's")
        if boundary:
            put(store, WHERE.boundary_key, boundary)
        assert type(error_of(verified(store).create(KEY, b"mine"))) is outcome
    store = Scripted("never")
    put(store, "elsewhere", b"another's")
    assert isinstance(error_of(verified(store).create("elsewhere", b"mine")), OutcomeUnknown)
    store = Scripted("never")
    put(store, WHERE.boundary_key, b"1")
    assert isinstance(error_of(verified(store).create(WHERE.boundary_key, b"2")), AlreadyExists)


def test_a_conflict_without_doubt_costs_nothing():
    store = Scripted()
    put(store, KEY, b"another's")
    assert isinstance(error_of(verified(store).create(KEY, b"mine")), AlreadyExists) and store.asked == ["create"]


def test_409_is_sent_again_and_is_never_already_exists():
    store, clock = Scripted(409, 409), Clock()
    asyncio.run(verified(store, clock=clock).create(KEY, b"mine"))
    assert store.asked == ["create"] * 3 and clock.slept == [100, 200]
    store = Scripted(*[409] * 9)
    error = error_of(verified(store).create(KEY, b"mine"))
    assert isinstance(error, Unavailable) and store.asked == ["create"] * 4
    store = Scripted(409)  # whose SDK says AlreadyExists, and nothing is there
    assert isinstance(error_of(verified(store, "object_store").create(KEY, b"mine")), OutcomeUnknown)


def test_409_after_an_attempt_in_doubt_is_no_failure():
    store = Scripted("lost", 409)
    asyncio.run(verified(store).create(KEY, b"mine"))
    assert store.asked == ["create", "create", "get"]
    assert isinstance(error_of(verified(Scripted("never", 409)).create(KEY, b"mine")), OutcomeUnknown)


def test_reading_back_without_an_answer():
    store = Scripted("never", "never", "never", *[503] * 9)
    assert isinstance(error_of(verified(store).create(KEY, b"mine")), OutcomeUnknown)


def test_an_update_is_verified_too():
    store = Scripted("lost")
    put(store, KEY, b"old")
    version = store._objects[KEY].version
    assert asyncio.run(verified(store).update(KEY, b"mine", version)) == store._objects[KEY].version != version
    assert store.asked == ["update", "update", "get"]
    store = Scripted("lost", before=lambda n: put(store, KEY, b"another's") if n == 2 else None)
    put(store, KEY, b"old")
    assert isinstance(error_of(verified(store).update(KEY, b"mine", store._objects[KEY].version)), OutcomeUnknown)
    store = Scripted()
    put(store, KEY, b"another's")
    assert isinstance(error_of(verified(store).update(KEY, b"mine", "?")), PreconditionFailed)


def test_a_put_id_may_be_a_part_of_the_body():
    store = Scripted("lost", before=lambda n: put(store, KEY, b"id, and more") if n == 2 else None)
    part = VerifiedStore(sdk("boto3_standard", store), Clock(), put_id=lambda body: body[:2])
    asyncio.run(part.create(KEY, b"id"))


# --- the model with retries -----------------------------------------------------------------------------------------------

SMALL = Constants(WRITERS=2, COMMITS=1, COLLECTORS=1, MAX_ID=3, MAX_PENDING=1, MAX_LOST=1)


@pytest.mark.parametrize("changes", [{}, {"COMMITS": 2, "MAX_PENDING": 0}, {"READERS": 1, "MAX_PENDING": 0}], ids=str)
def test_every_property_holds_with_retries(changes):
    found = explore(retrying(model(SMALL._replace(**changes))), bounds=Bounds(states=1_500_000))
    assert found.complete and {"FindOwn", "SendCreateUnheard" if SMALL._replace(**changes).MAX_PENDING else "FindOwn",
                               "CreateNextUnheard"} <= {action for _, action in found.fired}


def test_a_safeguard_that_is_off_fails_with_retries_too():
    found = explore(retrying(model(SMALL._replace(CHECK="off"))), bounds=Bounds(states=1_500_000))
    assert found.violated in ("CommitIsUnique", "AckedIsKept", "AckIsChecked")


def test_to_take_what_may_be_in_the_history_for_nothing_breaks_a_property():
    """Z7, Z9, «a time-out means nothing»: the same update is tried again although a copy of its create may be applied."""
    careless = retrying(model(SMALL))
    writers = [p._replace(actions={**p.actions, **{name: WRITER[name] for name in GIVES_UP}}) if p.role == "Writer" else p
               for p in careless.processes]
    assert explore(careless._replace(processes=tuple(writers)), bounds=Bounds(states=1_500_000)).violated == "CommitIsUnique"


# --- traces ---------------------------------------------------------------------------------------------------------------

HEAVY = Weights(stall=100, refused=40, conflict=40, request_lost=60, reply_lost=80, late=60, crash=10, cut_off=3)


@pytest.mark.parametrize("name", SDKS)
def test_production_refines_with_retries(name):
    for seed in range(40):
        shape = Shape(writers=3, commits=3, collectors=2, rounds=3, readers=1, reads=2, min_age_ms=60, sdk=name,
                      manifest=bool(seed % 2), page_size=2 if seed % 3 else 1000)
        outcome = simulate(Run(seed, shape=shape, weights=HEAVY))
        assert not outcome.kind, f"seed {seed}\n" + explain(outcome.events, outcome.failure, trace_of(shape))


def test_without_retries_the_verdict_is_the_same():
    """A trace of single attempts is judged alike by both."""
    for seed in range(60):
        outcome = simulate(Run(seed))
        if not outcome.shape.sdk:
            again = trace_of(outcome.shape._replace(sdk="boto3_standard"))
            assert isinstance(again, RetryingTrace)
            for event in outcome.events:
                again.observe(event)


def test_a_trace_with_retries_needs_the_model_with_retries():
    outcome = next(o for o in runs("self_412") if SOMETIMES["self_412"](o.events))
    plain = trace_of(outcome.shape._replace(sdk=""))
    assert type(plain) is Trace
    with pytest.raises(Failure):
        for event in outcome.events:
            plain.observe(event)


def test_a_second_success_is_not_taken_for_granted():
    """A create is answered 200 though the same client's first attempt is there: the store has lied."""
    outcome, lie = next((o, after[1]) for o in runs("self_412") for _, e, after in creates(o.events) if e.status == 200
                        and [a.kind for a in after[:2]] == ["timeout", "applied"] and after[1].status == 412)
    trace = trace_of(outcome.shape)
    with pytest.raises(Failure, match="create of .* was answered with 200 .* but there is version"):
        for event in outcome.events:
            trace.observe(event._replace(status=200, version="another") if event is lie else event)


def test_a_shape_without_an_sdk_is_the_usual_one():
    drawn = Counter(simulate(Run(seed)).shape.sdk for seed in range(200))
    assert drawn[""] > 110 and set(drawn) == {"", *SDKS} and Shape().sdk == ""
    assert draw_shape(lambda field, *values: values[0]).sdk == ""


def test_pauses_are_on_the_tape():
    outcome = next(o for o in runs("self_412") if any(site.endswith(".backoff") for site, _, _ in o.tape))
    again = simulate(Run(outcome.seed, shape=PRESETS["self_412"].shape, weights=PRESETS["self_412"].weights), tape=outcome.tape)
    assert (again.digest, again.kind) == (outcome.digest, "")


# --- scenarios that reach it, and mutants that die of it ------------------------------------------------------------------


@cache
def runs(preset: str, number: int = 120) -> list[Outcome]:
    shape, weights = PRESETS[preset]
    found = [simulate(Run(seed, shape=shape, weights=weights)) for seed in range(number)]
    assert not [outcome.signature for outcome in found if outcome.kind]
    return found


REACHED = {"self_412": ("self_412", 20), "409_as_exists": ("409_as_exists", 8),
           "collected_before_read_back": ("collected_before_read_back", 1), "late_after_timeout": ("late", 5),
           "late_after_crash": ("late", 5)}


@pytest.mark.parametrize("what", REACHED)
def test_scenario_reaches_it(what):
    preset, times = REACHED[what]
    reached = sum(1 for outcome in runs(preset) if SOMETIMES[what](outcome.events))
    print(f"{what}: in {reached} of {len(runs(preset))} runs")
    assert reached >= times


PRESET_OF = {"Z7": "self_412", "Z8": "late", "Z9": "self_412", "Z9_fenced": "self_412", "Z10": "409_as_exists",
             "gone_is_not_mine": "collected_before_read_back", "anothers_is_not_mine": "collected_before_read_back",
             "sent_once_is_nothing": "once", "timeout_is_nothing": "late"}
BUDGET = 150


def first_failure(name: str, by_model: bool) -> Outcome | None:
    shape, weights = PRESETS[PRESET_OF[name]]
    outcomes = (simulate(Run(seed, shape=shape, weights=weights), BUILDS[name][1], by_model=by_model) for seed in range(BUDGET))
    return next((outcome for outcome in outcomes if outcome.kind), None)


def test_every_mutant_has_its_preset():
    assert set(PRESET_OF) == set(BUILDS)


@pytest.mark.parametrize("name", BUILDS)
def test_mutant_dies(name):
    outcome = first_failure(name, by_model=True)
    assert outcome, "it survived"
    signature = {"Z8": "refinement:Writer.Delete", "Z9_fenced": "told:failed",
                 "sent_once_is_nothing": "refinement:Writer.CreateNext", "timeout_is_nothing": "told:failed"}
    assert outcome.signature == signature.get(name, "refinement:Writer.List|ListPage")


@pytest.mark.parametrize("name", [name for name in BUILDS if name != "anothers_is_not_mine"])
def test_mutant_harms_its_callers(name):
    outcome = first_failure(name, by_model=False)
    assert outcome and outcome.kind == "safety" and outcome.signature.startswith("history:")


# --- requests that land after their client has timed out, or died ---------------------------------------------------------


@pytest.mark.parametrize("kind", ["timeout", "crash"])
def test_a_create_that_lands_late_is_in_the_history_and_nobody_was_told_otherwise(kind):
    """The update is in the final history exactly once, or its file was stale. A caller that is alive got an indeterminate
    outcome. In the model the create left the pool at that moment."""
    seen = 0
    for outcome in runs("late"):
        given_up = {e.request: place for place, e in enumerate(outcome.events) if e.kind == kind and e.pending}
        for place, e, _ in creates(outcome.events):
            if e.awaited or e.status != 200 or e.request not in given_up:
                continue
            seen += 1
            update = UPDATES.decode(e.body).updates[-1].encode()
            told = [t.op for t in outcome.events[given_up[e.request]:] if t.kind == "told" and t.body == update]
            assert told == (["unknown"] if kind == "timeout" else [])
            before, after = states_around(outcome, place)
            request = next(r for r in before.pool if r[0] == "Create" and r[1] == namespace(outcome.shape).file_id(e.key))
            assert before.pool.count(request) == after.pool.count(request) + 1
            assert before.files != after.files and len(after.files) >= request[1]
    assert seen >= 5


def states_around(outcome: Outcome, place: int) -> tuple:
    trace = trace_of(outcome.shape)
    for event in outcome.events[:place]:
        trace.observe(event)
    before = trace.refiner.shared()
    trace.observe(outcome.events[place])
    return before, trace.refiner.shared()


def test_production_is_what_the_presets_run():
    outcome = simulate(Run(3, shape=PRESETS["late"].shape, weights=PRESETS["late"].weights), production)
    assert outcome.digest == runs("late")[3].digest and isinstance(outcome.events[0], Event)


@pytest.mark.parametrize("store", ["azure", "gcs", "minio-2025-08"])
def test_production_refines_on_stores_that_answer_otherwise(store):
    for seed in range(30):
        shape = Shape(writers=3, commits=3, rounds=2, min_age_ms=60, think_ms=1, sdk="boto3_standard", store=store)
        outcome = simulate(Run(seed, shape=shape, weights=HEAVY))
        assert not outcome.kind, f"seed {seed}\n" + explain(outcome.events, outcome.failure, trace_of(shape))
