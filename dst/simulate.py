"""Safety: a run passes only if its trace refines the model, its callers were told the truth, and everyone got on in the end.

One run of a scenario: chaos, then quiet (faults off, whatever is under way arrives), then an audit.
"""

import gc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from highwater.dst.actors import Actors
from highwater.dst.run_spec import Run, among
from highwater.dst.scenario import Build, Scenario, Shape
from highwater.dst.scenarios import DEFAULT, named
from highwater.dst.sim.choose import Choice, Chooser, Decide, Strict, TapeMismatch, drawing, drawing_of
from highwater.dst.sim.kernel import Event as Waiting
from highwater.dst.sim.kernel import Kernel
from highwater.dst.sim.strategies import PORTFOLIO, STRATEGIES, Strategy
from highwater.dst.world.faults import NONE, Weights, drawn, fates
from highwater.dst.world.network import Network
from highwater.dst.world.store import SimulatedStore, profile_of
from highwater.dst.zoo import build_of
from highwater.traces.event import Event, digest
from highwater.traces.refine import Failure

MOST_STEPS = 20_000  # of the kernel, for each phase: many times what any run needs
MOST_TIMES = 1000  # of the scenario's unit, for each phase, in virtual time


class Outcome(NamedTuple):
    """What one simulated run did, and the verdict on it."""

    seed: int
    kind: str  # "" if all is well; refinement, safety, liveness, nondeterminism; an exception is "safety"
    signature: str  # short and stable: what kind of failure, of what
    message: str
    digest: str  # of the trace, 128 bits in hex
    shape: Shape
    strategy: str
    requests: int
    virtual_ms: int
    events: list[Event]
    tape: list[Choice]
    failure: Any  # an exception; None: all is well
    scenario: str = DEFAULT
    weights: Weights = NONE  # of faults
    steps: int = 0  # of the kernel


def simulate(run: Run, build: Build | None = None, tape: list[Choice] | None = None, by_model: bool = True,
             chooser: Chooser | None = None, watch: Callable[..., None] | None = None,
             trace_of: Callable[[Shape], Any] | None = None, delay_ms: Callable[[str], int] | None = None) -> Outcome:
    """Run one seed of a scenario, with the clients of its mutant, or of production. What is not given is drawn.

    A `build` makes other clients. With a tape, its choices are replayed strictly. A `chooser` stands in for seed and tape, and
    finds the events so far in its `events`: dst/sim/choose.py has a lenient one. Without `by_model` only the callers' history
    is judged: whether anyone came to harm, not whether anyone did what the model does not. `watch(ms, what, client, request
    number)` is told what no trace shows. `trace_of` stands in for what judges, and `delay_ms(op)` for how long requests take
    where the strategy is "times"."""
    of, seed = named(run.scenario), run.seed
    chooser = chooser or (Chooser(seed) if tape is None else Strict(seed, tape))
    workload, fault, decide = chooser.stream("workload"), chooser.stream("fault"), chooser.decider()
    shape = run.shape or of.draw_shape(among(workload))
    weights = drawn(fault, bool(shape.sdk)) if run.weights is None else run.weights
    draw = drawing(seed, "strategy")
    name = PORTFOLIO[draw(len(PORTFOLIO))] if run.strategy == "portfolio" else run.strategy
    untimed = decide("untimed", 2, is_untimed, name)
    schedule = scheduled(STRATEGIES[name], draw, decide, of.length(shape)) if untimed else None
    trace = (trace_of or of.trace_of)(shape) if by_model else None
    events: list[Event] = trace.events if trace else []
    observe = trace.observe if trace else events.append
    chooser.events = events  # pyright: ignore[reportAttributeAccessIssue]  # for one that is steered by them

    kernel, store = Kernel(schedule), store_of(shape, chooser)
    actors = Actors(of, kernel, store, shape, workload, trace, observe,
                    build or build_of(run.mutant, run.scenario))
    network = Network(kernel, store, observe, chooser.stream("latency"), fault, decide, drawing_of(seed, "fate"),
                      fates(weights), stalls_ms(of, shape), shape.skew_ms, actors.start, watch and noted(watch, kernel),
                      delay_ms)
    failure, kind, signature = None, "", ""
    try:
        run_phases(kernel, network, actors)
        of.final_check(actors, events)
    except Failure as error:
        failure, kind, signature = error, error.kind, error.signature
    except TapeMismatch as error:
        failure, kind, signature = error, "nondeterminism", "nondeterminism:tape"
    except MemoryError:
        raise  # of this process, not of the implementation
    except Exception as error:  # the implementation let out what it never should
        failure, kind, signature = error, "safety", f"exception:{type(error).__name__}"
        error.args = (f"{error} ({place_of(error)})",)
    kernel.close()
    if kind != "nondeterminism":
        try:
            chooser.end()
        except TapeMismatch as error:
            failure, kind, signature = error, "nondeterminism", "nondeterminism:tape"
    if failure:
        failure.__traceback__ = None  # it leads to this frame, which leads to it
    return Outcome(seed, kind, signature, str(failure or ""), digest(events), shape, name, network.requests, kernel.now_ms,
                   events, chooser.tape, failure, run.scenario, weights, kernel.steps)


def stalls_ms(scenario: Scenario, shape: Shape) -> tuple[int, ...]:
    """What stalls are drawn around."""
    return (shape.stall_ms,) if shape.stall_ms else scenario.waits_ms(shape)


def store_of(shape: Shape, chooser: Chooser) -> SimulatedStore:
    """A store that is free to lag behind chooses on the tape. Pages that are empty though more follow are below the seam: who
    talks to such a store follows its token (impl/stores/s3.py)."""
    of = profile_of(shape.store)
    return SimulatedStore(shape.page_size, of._replace(empty_pages=False), chooser.stream("store") if of.stale else None)


def is_untimed(strategy: str) -> int:
    return int(STRATEGIES[strategy] is not None)


def scheduled(of: type[Strategy] | None, draw: Callable[[int], int], decide: Decide, length: int) -> Callable:
    """What the kernel asks for the next event. (A tape of untimed picks may be replayed under a seed that draws times.)"""
    strategy = (of or STRATEGIES["random"])()
    strategy.begin(draw, length)

    def schedule(events: list[Waiting]) -> int:
        place = decide("schedule", len(events), strategy.pick, events)
        strategy.ran(events[place], [*events[:place], *events[place + 1:]])
        return place

    return schedule


def noted(watch: Callable[[int, str, str, int], None], kernel: Kernel) -> Callable[[str, str, int], None]:
    return lambda what, client, number: watch(kernel.now_ms, what, client, number)


def place_of(error: Any) -> str:
    """File and line that raised it, the same on every machine."""
    trace = error.__traceback__
    while trace.tb_next:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def run_phases(kernel: Kernel, network: Network, actors: Actors) -> None:
    shape, scenario = actors.shape, actors.scenario
    unit_ms = scenario.unit_ms(shape)
    for client in actors.clients:
        actors.start(client)
    kernel.run(shape.chaos * unit_ms, MOST_STEPS)
    network.fates, network.cut_off = b"", {}
    kernel.in_time()
    for client in actors.who_retires():
        network.retire(client)
    run(kernel, unit_ms)  # until there is nothing left to do, and nothing left to arrive
    stuck = actors.unfinished()
    if stuck:
        raise Failure("liveness", f"liveness:{stuck[0].split('#')[0]}", f"{', '.join(stuck)} did not finish within "
                      f"{MOST_STEPS} steps and {MOST_TIMES * unit_ms:,} ms after the faults had stopped")
    for names in scenario.audit if shape.audit else ():
        actors.work_once_more(names)
        run(kernel, unit_ms)
        if actors.unfinished():
            raise Failure("liveness", "liveness:audit", f"{actors.unfinished()} did not finish although nothing was in the way")


def run(kernel: Kernel, unit_ms: int) -> None:
    kernel.run(kernel.now_ms + MOST_TIMES * unit_ms, MOST_STEPS)


def many(runs: Iterable[Run], each: Callable[[Outcome], None], build: Build | None = None,
         chooser_of: Callable[[Run], Chooser | None] = lambda run: None, **hooks: Any) -> None:
    """Simulate run after run in this process; `hooks` are those of `simulate`, the same for all. A run leaves no cycles, so the
    garbage collector rests meanwhile."""
    gc.disable()
    try:
        for run in runs:
            each(simulate(run, build, chooser=chooser_of(run), **hooks))
    finally:
        gc.enable()
