"""Simulate one run. Safety: it passes only if its trace refines the model, responses to callers are true, and all clients
finish.

A run has three phases: chaos, quiet (no faults, and requests in flight arrive), and perhaps an audit.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from highwater import messages, project
from highwater.dst import script
from highwater.dst.actors import Actors
from highwater.dst.run_spec import Run, among
from highwater.dst.scenario import BaseShape, Build, Scenario, judge_of, profile_in, shape_of
from highwater.dst.scenarios import DEFAULT, named
from highwater.dst.sim.choose import Choice, Choose, Chooser, Decide, Strict, TapeMismatch, drawing, drawing_of
from highwater.dst.sim.kernel import Event as Waiting
from highwater.dst.sim.kernel import Kernel
from highwater.dst.sim.strategies import PORTFOLIO, STRATEGIES, Strategy
from highwater.dst.world import tampering
from highwater.dst.world.faults import NONE, drawn, fates, swarm
from highwater.dst.world.machines import Chances, Machines
from highwater.dst.world.network import Network
from highwater.dst.world.node_faults import AnyWeights, NodeWeights
from highwater.dst.world.store import SimulatedStore
from highwater.dst.zoo import build_of
from highwater.interrupt import is_by_signal
from highwater.model.uncollected import uncollected
from highwater.traces.calls import judge_answers
from highwater.traces.event import Event, digest
from highwater.traces.refine import Failure
from highwater.traces.store import Believed

Watch = Callable[[int, str, str, int], None]  # (ms, what, client, request number)
MOST_STEPS = 20_000  # of the kernel in each phase: many times a usual run
SELF_CHECKED = 16  # in one seed of so many the simulated store's own replies are judged, too. No client can change them.
BELIEVED = Believed()
MOST_TIMES = 1000  # scenario units of virtual time in each phase
MOST_WAITS = 30  # or so many of the longest waiting time: a client may wait for a lease in each of its rounds


class Outcome(NamedTuple):
    """The result of one simulated run, with its verdict."""

    seed: int
    kind: str  # "" if the run succeeded; refinement, safety (also an exception of the implementation), liveness, harness, ...
    signature: str  # short and stable: the kind of failure, and its place
    message: str
    digest: str  # of the trace: 128 bits in hex
    shape: BaseShape
    strategy: str
    requests: int  # to the store; of a scenario of nodes: operations of disks, and messages
    virtual_ms: int
    events: list[Event]
    tape: list[Choice]
    failure: BaseException | None  # None: all is well
    scenario: str = DEFAULT
    weights: AnyWeights = NONE  # of the faults
    steps: int = 0  # events of the kernel
    by_model: bool = True  # False: judged by the callers' history alone


def simulate(run: Run, build: Build | None = None, tape: list[Choice] | None = None, by_model: bool = True,
             chooser: Chooser | None = None, watch: Watch | None = None,
             trace_of: Callable[[BaseShape], Any] | None = None, delay_ms: Callable[[str], int] | None = None) -> Outcome:
    """Simulate one seed of a scenario, with the clients of its mutant or of production. Parameters that are not given are
    drawn.

    `build` makes other clients. `tape` is replayed strictly. `chooser` replaces seed and tape, and gets the events so far in
    its `events`; dst/sim/choose.py has a lenient one. Without `by_model`, the argument's or the run's, only the callers'
    history is judged, that is, harm and not refinement. `watch(ms, what, client, request number)` receives what a trace does
    not show. `trace_of` replaces the judge. `delay_ms(op)` gives the duration of requests with the strategy "times"."""
    of, seed, by_model = named(run.scenario), run.seed, by_model and run.by_model
    chooser = chooser or (Chooser(seed) if tape is None else Strict(seed, tape))
    workload, fault, decide = chooser.stream("workload"), chooser.stream("fault"), chooser.decider()
    shape = run.shape or shape_of(of, seed, among(workload), chooser.stream("rare"))
    weights = run.weights if run.weights is not None else drawn_of(of, shape, fault)
    draw = drawing(seed, "strategy")
    name = PORTFOLIO[draw(len(PORTFOLIO))] if run.strategy == "portfolio" else run.strategy
    untimed = decide("untimed", 2, is_untimed, name)
    schedule = scheduled(STRATEGIES[name], draw, decide, of.length(shape)) if untimed else None
    trace = (trace_of or of.trace_of)(shape) if by_model else None
    if shape.broken:
        trace = None  # no model says what happens then
    events: list[Event] = trace.events if trace else []
    observe = trace.observe if trace else events.append
    chooser.events = events  # pyright: ignore[reportAttributeAccessIssue]  # for one that is steered by them

    kernel, store = Kernel(schedule), store_of(shape, chooser)
    actors = Actors(of, kernel, store, shape, workload, trace, observe,
                    build or build_of(run.mutant, run.scenario))
    if trace:
        trace.store = judge_of(store) if seed % SELF_CHECKED == 0 else BELIEVED
    network = Network(kernel, store, observe, chooser.stream("latency"), fault, decide, drawing_of(seed, "fate"),
                      fates(NONE if of.nodes else weights), stalls_ms(of, shape), shape.skew_ms, actors.start,
                      watch and noted(watch, kernel), delay_ms)
    if of.nodes:
        chances = Chances(chooser.stream("machines"), fault, decide, drawing_of(seed, "node fate"))
        actors.machines = Machines(kernel, observe, chances, weights,  # pyright: ignore[reportArgumentType]  # of.weights
                                   stalls_ms(of, shape), of.hardware(shape), actors.start, watch and noted(watch, kernel),
                                   of.shows_io)
    if shape.broken:
        tampering.begin(kernel, store, shape, of.breaks[shape.broken], fault)
    failure, kind, signature = None, "", ""
    try:
        run_phases(kernel, network, actors)
        actors.check_work()
        if wrong := script.failed(of.scripts):
            raise wrong
        if shape.broken in tampering.DAMAGE:
            judge_answers(events, of.trace_of(shape))
        else:
            of.final_check(actors, events)
            actors.check_words()
    except Failure as error:
        failure, kind, signature = error, error.kind, error.signature
    except TapeMismatch as error:
        failure, kind, signature = error, "nondeterminism", "nondeterminism:tape"
    except BaseException as error:
        failure, kind, signature = of_exception(error)
    try:
        kernel.close()
    except BaseException as error:
        if not failure:
            failure, kind, signature = of_exception(error)
    if kind != "nondeterminism":
        try:
            chooser.end()
        except TapeMismatch as error:
            failure, kind, signature = error, "nondeterminism", "nondeterminism:tape"
    if failure:
        failure.__traceback__ = None  # a traceback refers to this frame, which refers to the failure
    requests = network.requests + (actors.machines.operations if actors.machines else 0)
    message = "" if failure is None else project.message_of(failure)
    return Outcome(seed, kind, signature, message, digest(events), shape, name, requests, kernel.now_ms,
                   events, chooser.tape, failure, run.scenario, weights, kernel.steps, by_model)


def of_exception(error: BaseException) -> tuple[BaseException, str, str]:
    """Return failure, kind and signature of an exception that neither implementation nor scenario must raise: none that ends a
    program, either. Raises it if it is of the user, of the alarm, or of this process, whose memory is used up."""
    if isinstance(error, MemoryError) or is_by_signal(error):
        raise error
    if hint := project.hint(error):
        return project.MissingFile(f"{error}{hint} ({place_of(error)})"), "harness", f"harness:{type(error).__name__}"
    place = messages.place(error)
    judge = place is not None and place.part in messages.JUDGES and messages.part_of(type(error).__module__) != "impl"
    error.args = (f"{project.message_of(error)} ({place if judge else place_of(error)})",)
    kind, prefix = ("harness", "harness") if judge else ("safety", "exception")
    signature = f"{prefix}:{type(error).__name__}"
    if not isinstance(error, Exception) or project.message_of(error).startswith(project.NO_MESSAGE):
        error = Failure(kind, signature, *error.args)  # who catches or prints it meets none that ends the program
    return error, kind, signature


def drawn_of(of: Scenario, shape: BaseShape, fault: Choose) -> AnyWeights:
    """Draw the weights of a run's faults."""
    return swarm(fault, NodeWeights()) if of.nodes else drawn(fault, bool(shape.sdk))


def stalls_ms(scenario: Scenario, shape: BaseShape) -> tuple[int, ...]:
    """Return the times around which stalls are drawn."""
    return (shape.stall_ms,) if shape.stall_ms else scenario.waits_ms(shape)


def store_of(shape: BaseShape, chooser: Chooser) -> SimulatedStore:
    """Make the run's store. A store whose reads may lag makes its choices on the tape."""
    of = profile_in(shape)
    return SimulatedStore(shape.page_size, of, chooser.stream("store") if of.stale else None)


def is_untimed(strategy: str) -> int:
    return int(STRATEGIES[strategy] is not None)


def scheduled(of: type[Strategy] | None, draw: Callable[[int], int], decide: Decide,
              length: int) -> Callable[[list[Waiting]], int]:
    """Return the function that picks the kernel's next event. (A tape of untimed picks may be replayed under a seed that draws
    times.)"""
    strategy = (of or STRATEGIES["random"])()
    strategy.begin(draw, length)

    def schedule(events: list[Waiting]) -> int:
        place = decide("schedule", len(events), strategy.pick, events)
        strategy.ran(events[place], [*events[:place], *events[place + 1:]])
        return place

    return schedule


def noted(watch: Watch, kernel: Kernel) -> Callable[[str, str, int], None]:
    return lambda what, client, number: watch(kernel.now_ms, what, client, number)


def place_of(error: BaseException) -> str:
    """Return file name and line that raised an error, the same on every machine."""
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next:
        trace = trace.tb_next
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def run_phases(kernel: Kernel, network: Network, actors: Actors) -> None:
    shape, scenario = actors.shape, actors.scenario
    unit_ms = scenario.unit_ms(shape)
    for client in actors.clients:
        actors.start(client)
    kernel.run(shape.chaos * unit_ms, MOST_STEPS)
    network.fates, network.cut_off, actors.hurried = b"", {}, False
    kernel.in_time()
    if actors.machines:
        actors.machines.heal()
    for client in actors.who_retires():
        if actors.machines:
            actors.machines.stop(client)
            client.done = True
        else:
            network.retire(client)
    most_ms = max(MOST_TIMES * unit_ms, MOST_WAITS * max(scenario.waits_ms(shape)))
    run(kernel, most_ms)  # until all work is done, and all requests have arrived
    stuck = actors.unfinished()
    if stuck:
        raise Failure("liveness", f"liveness:{stuck[0].split('#')[0]}", f"{', '.join(stuck)} did not finish within "
                      f"{MOST_STEPS} steps and {most_ms:,} ms after the faults had stopped")
    for names in scenario.audit if shape.audit and not shape.broken else ():
        actors.work_once_more(names)
        run(kernel, most_ms)
        if actors.unfinished():
            raise Failure("liveness", "liveness:audit", f"{actors.unfinished()} did not finish although nothing was in the way")


def run(kernel: Kernel, most_ms: int) -> None:
    kernel.run(kernel.now_ms + most_ms, MOST_STEPS)


def many(runs: Iterable[Run], each: Callable[[Outcome], None], build: Build | None = None, **hooks: Any) -> None:
    """Simulate runs in this process, with the same `hooks` of `simulate` for all.

    The garbage collector is off meanwhile, because a run leaves no cycles."""
    with uncollected():
        for run in runs:
            each(simulate(run, build, **hooks))
