"""Shrink a failing run. Safety: the result fails with the same kind and signature, is no larger, and replays strictly.

A run is split into a Plan: the size of the workload, the choices by site, and the order of the trace's events. A candidate is a
plan with something left out or made milder. A lenient chooser runs it and picks the waiting event that comes first in the
order. Events left out of the order happen after the rest, so usually after the failure. If the candidate fails in the same way
and is smaller, its own tape and trace become the next plan.

Smaller means fewer requests, then fewer choices that are not the mildest, then a smaller sum of choices.
"""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple

from highwater.dst.limit import limited
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import named
from highwater.dst.sim.alarm import MOST_HUNG, Hung
from highwater.dst.sim.choose import Choice, Lenient
from highwater.dst.sim.kernel import Event as Waiting
from highwater.dst.sim.strategies import request_of
from highwater.dst.simulate import BaseShape, Build, Outcome, simulate
from highwater.dst.world.faults import FATES
from highwater.dst.world.folder import OPS as DISK_OPS
from highwater.dst.world.network import OPS
from highwater.dst.world.node_faults import DISK_FATES, MESSAGE_FATES, AnyWeights
from highwater.traces.event import Event

BUDGET = 2_000  # runs
ACTIONS = {"applied": ("apply",), "timeout": ("time_out",), "crash": ("crash",), "refused": ("refuse", "apply")}  # of kinds
OF_NODES = {DISK_FATES: (*DISK_OPS,), MESSAGE_FATES: ("send",)}  # the fates, and the sites at which they befall

Step = tuple[str, str, bool]  # of a trace's event: client, kind, awaited
Measure = tuple[int, int, int]


class Plan(NamedTuple):
    shape: BaseShape
    tape: tuple[Choice, ...]  # without the shape's choices, and with an order without the schedule's
    order: tuple[Step, ...] | None  # None: as on the tape


class Shrunk(NamedTuple):
    """The result of shrinking. Simulating `shape`, `weights` and `outcome.strategy` with the outcome's tape repeats
    `outcome`."""

    outcome: Outcome
    shape: BaseShape | None  # as given for the run
    weights: AnyWeights | None
    before: Outcome
    runs: int
    hung: int = 0  # runs that did not end within the limit


class Steered(Lenient):
    """Plays a plan leniently, and picks waiting events in the plan's order."""

    def __init__(self, seed: int, plan: Plan):
        super().__init__(seed, plan.tape)
        self.order = None if plan.order is None else list(plan.order)
        self.events: list[Event] = []
        self.seen = 0
        self.when: list[int] = []  # for each choice on the tape: number of events before it

    def _next(self, site: str, bound: int, how: Callable[[Any], int], argument: Any) -> int:
        if bound == 1:
            return 0
        self.when.append(len(self.events))
        if site != "schedule" or self.order is None:
            return super()._next(site, bound, how, argument)
        choice = self._pick(argument)
        self.tape.append((site, choice, bound))
        return choice

    def _pick(self, waiting: list[Waiting]) -> int:
        order = self.order or []
        for event in self.events[self.seen:]:
            if event.kind != "told" and step_of(event) in order:
                order.remove(step_of(event))
        self.seen = len(self.events)
        for step in order:
            for place, event in enumerate(waiting):
                if leads_to(event, step):
                    return place
        return 0


def step_of(event: Event) -> Step:
    return event.client, event.kind, event.awaited


def leads_to(waiting: Waiting, step: Step) -> bool:
    """Tell whether the waiting event is that step, or wakes its client and so brings the step closer."""
    client, kind, awaited = step
    if waiting.action.__name__ in ("deliver", "end"):
        return leads_node(waiting, client, kind)
    if waiting.action.__name__ == "cancel":
        return kind == "timeout" and waiting.args[0].name == client
    if request_of(waiting) is None:
        return waiting.owner == client and awaited
    of, _, number, *_ = waiting.args
    return of.name == client and waiting.action.__name__ in ACTIONS[kind] and (
        kind != "applied" or (of.waiting == number) == awaited)


def leads_node(waiting: Waiting, client: str, kind: str) -> bool:
    """Tell the same of a message under way, or an operation of a disk: a node's step follows from either."""
    if waiting.action.__name__ == "deliver":
        return kind in ("received", "step", "sent") and waiting.args[0].to == client
    return waiting.owner == client if kind == "disk" else waiting.owner.partition("/")[0] == client


def measure(outcome: Outcome) -> Measure:
    """Return the size of a run. Choice 0 is the mildest: no fault, shortest latency or pause, earliest event."""
    chosen = [choice for _, choice, _ in outcome.tape if choice]
    return outcome.requests, len(chosen), sum(chosen)


def faults(outcome: Outcome) -> int:
    """Return the number of requests that a fault affected."""
    return sum(1 for site, choice, bound in outcome.tape if choice and befalls(site, bound))


def befalls(site: str, bound: int) -> bool:
    """Tell whether the choice is the fate of a request, a message or a disk's operation."""
    of = site.rpartition(".")[2]
    return (bound == len(FATES) and of in OPS) or any(bound == len(fates) and of in sites for fates, sites in OF_NODES.items())


def shrink(outcome: Outcome, build: Build | None, shape: BaseShape | None = None, weights: AnyWeights | None = None,
           budget: int = BUDGET, limit_s: float = 0) -> Shrunk:
    """Shrink a failed run in at most `budget` runs, deterministically. `shape` and `weights`: those it was run with. The
    smaller runs are judged as this one was. With `limit_s` a run that takes longer is given up, and after a few of them no
    further run is tried. That needs a main thread.

    Raises ValueError if the run did not fail, or failed by nondeterminism."""
    if not outcome.kind or outcome.kind == "nondeterminism":
        raise ValueError("there is nothing to shrink: the run has not failed")
    search = Search(outcome, build, weights, budget, limit_s)
    search.start()
    before = None
    while before != (search.plan, search.size) and search.may_try():
        before = search.plan, search.size
        for improve in (search.fewer_clients, search.fewer_steps, search.fewer_operations, search.other_orders,
                        search.less_work, search.milder_shape, search.fewer_choices, search.smaller_choices):
            improve()
    if measure(search.best) < measure(outcome):
        return Shrunk(search.best, search.plan.shape, search.none, outcome, search.runs, search.hung)
    return Shrunk(outcome, shape, weights, outcome, search.runs, search.hung)


class Search:
    def __init__(self, outcome: Outcome, build: Build | None, weights: AnyWeights | None, budget: int,
                 limit_s: float = 0):
        self.scenario = named(outcome.scenario)
        self.none = self.scenario.no_faults
        self.build, self.budget, self.runs, self.limit_s, self.hung = build, budget, 0, limit_s, 0
        self.seed, self.strategy, self.wanted = outcome.seed, outcome.strategy, (outcome.kind, outcome.signature)
        self.best, self.size = outcome, measure(outcome)
        self.plan = plan_of(outcome, outcome.shape, ordered=False)
        self.when: list[int] = []  # for each choice of the plan's tape: number of events before it
        self.seen: set[Plan] = set()

    def start(self) -> None:
        """Replace times, or a tape of picks, by an order of events.

        Without stalls, the collectors' pauses must be long enough for files to grow old."""
        plan = plan_of(self.best, self.best.shape._replace(chaos=1000), ordered=True)
        kept = plan_of(self.best, self.best.shape, ordered=False)
        for candidate in (plan, patient(plan), kept):
            for audit in dict.fromkeys((False, candidate.shape.audit)):
                if self.attempt(candidate._replace(shape=candidate.shape._replace(audit=audit)), whatever=True):
                    return

    def may_try(self) -> bool:
        return self.runs < self.budget and self.hung < MOST_HUNG

    def attempt(self, plan: Plan, equal: bool = False, whatever: bool = False) -> bool:
        """Run a plan, and continue from it if it is better; with `equal`, also if it is no worse; with `whatever`, at any
        size."""
        if not self.may_try() or plan in self.seen:
            return False
        self.seen.add(plan)
        self.runs += 1
        chooser = Steered(self.seed, plan)
        strategy = self.strategy if plan.order is None else "random"
        run = Run(self.seed, self.best.scenario, None, strategy, plan.shape, self.none, self.best.by_model)
        try:
            with limited(self.limit_s) if self.limit_s else nullcontext():
                outcome = simulate(run, self.build, chooser=chooser)
        except Hung:
            self.hung += 1
            return False
        if (outcome.kind, outcome.signature) != self.wanted:
            return False
        size = measure(outcome)
        if not whatever and (size > self.size or (size == self.size and not equal)):
            return False
        self.best, self.size = outcome, size
        ordered = plan.order is not None
        self.plan = plan_of(outcome, plan.shape, ordered)
        self.when = [when for choice, when in zip(outcome.tape, chooser.when) if planned(choice, ordered)]
        return True

    def attempt_less(self, plan: Plan) -> bool:
        """Attempt a plan with less work. A collector may then need longer pauses, so a patient plan is tried too."""
        return self.attempt(plan) or self.attempt(patient(plan))

    # --- less to do

    def fewer_clients(self) -> None:
        """Leave out one client after another; the next of its role takes its name."""
        for role, (number, _) in self.scenario.roles.items():
            client = getattr(self.plan.shape, number)
            while client > 0:
                client -= 1
                of = self.plan.shape
                if getattr(of, number) > (role not in self.scenario.optional):
                    self.attempt(without(self.plan, role, client)._replace(
                        shape=of._replace(**{number: getattr(of, number) - 1})), equal=True)

    def less_work(self) -> None:
        for _, amount in self.scenario.roles.values():
            while (n := getattr(self.plan.shape, amount)) > 0 and self.attempt(self.plan._replace(
                    shape=self.plan.shape._replace(**{amount: n - 1})), equal=True):
                pass

    def milder_shape(self) -> None:
        sizes = ("chaos", *[field for fields in self.scenario.roles.values() for field in fields])
        for field, mildest in self.scenario.mildest._asdict().items():
            if field not in sizes and getattr(self.plan.shape, field) != mildest:
                self.attempt(self.plan._replace(shape=self.plan.shape._replace(**{field: mildest})), equal=True)

    # --- fewer events before the failure

    def fewer_steps(self) -> None:
        """Move a client's later steps, then some steps in a row, then any single step, to the end."""
        if self.plan.order is None:
            return
        for client in sorted({step[0] for step in self.plan.order}):
            at = 0
            while at < len(places := [i for i, step in enumerate(self.plan.order) if step[0] == client]):
                if not self.attempt_less(dropped(self.plan, set(places[at:]))):
                    at += 1
        chunk = len(self.plan.order) // 2
        while chunk:
            end = len(self.plan.order)
            while end > 0:
                self.attempt(dropped(self.plan, set(range(end - chunk, end))))
                end = min(end, len(self.plan.order) + chunk) - chunk
            chunk //= 2

    def fewer_operations(self) -> None:
        """Leave out some consecutive requests of one client with their choices, but keep what it does later."""
        for client in self.clients():
            size = len(self.places(client))
            while size:
                first = 0
                while first + size <= len(self.places(client)):
                    if not self.attempt_less(self.cut(client, first, first + size)):
                        first += 1
                size = min(size - 1, max(size // 2, 8))

    def places(self, client: str) -> list[int]:
        return [i for i, event in enumerate(self.best.events) if event.client == client and event.kind != "told"]

    def cut(self, client: str, first: int, end: int) -> Plan:
        """Leave out a range of a client's requests. Choices for a request are made after the client's previous event."""
        places = self.places(client)
        after, until = places[first - 1] if first else -1, places[end - 1]
        tape = tuple(choice for choice, when in zip(self.plan.tape, self.when)
                     if not (choice[0].startswith(f"{client}.") and after < when <= until))
        steps = [i for i, step in enumerate(self.plan.order or ()) if step[0] == client]
        return dropped(self.plan._replace(tape=tape), set(steps[first:end]))

    def other_orders(self) -> None:
        """Move a client's steps in a row, or a single one, before the steps of another client that precede them."""
        for single in (False, True):
            at = 0
            while at < len(order := self.plan.order or ()) - 1:
                ends = [i for i in range(at, len(order)) if i + 1 == len(order) or order[i][0] != order[i + 1][0]]
                if len(ends) < 2:
                    break
                middle, end = ends[0] + 1, ends[1] + 1
                if single:
                    end = middle + 1
                self.attempt(self.plan._replace(order=(*order[:at], *order[middle:end], *order[at:middle], *order[end:])))
                at = middle

    # --- milder choices

    def fewer_choices(self) -> None:
        """Make choices the mildest: those of faults, then of clients, then of sites."""
        for group in (befalls, *map(of_client, self.clients()),
                      *map(of_site, sorted({choice[0] for choice in self.plan.tape if choice[1]}))):
            self.attempt(self.plan._replace(tape=tuple(
                (site, 0 if group(site, bound) and site != "untimed" else choice, bound)
                for site, choice, bound in self.plan.tape)))

    def clients(self) -> list[str]:
        return sorted({choice[0].partition(".")[0].partition("/")[0] for choice in self.plan.tape if "#" in choice[0]})

    def smaller_choices(self) -> None:
        at = len(self.plan.tape)
        while at > 0:
            at = min(at, len(self.plan.tape)) - 1
            if at < 0:
                return
            site, choice, bound = self.plan.tape[at]
            for smaller in dict.fromkeys((0, choice // 2, choice - 1)):
                if choice and site != "untimed" and self.attempt(self.plan._replace(tape=(
                        *self.plan.tape[:at], (site, smaller, bound), *self.plan.tape[at + 1:]))):
                    at += 1
                    break


def plan_of(outcome: Outcome, shape: BaseShape, ordered: bool) -> Plan:
    tape = [choice for choice in outcome.tape if planned(choice, ordered)]
    if not ordered:
        return Plan(shape, tuple(tape), None)
    tape = [("untimed", 1, 2) if choice[0] == "untimed" else choice for choice in tape]
    return Plan(shape, tuple(tape), tuple(step_of(event) for event in outcome.events if event.kind != "told"))


def patient(plan: Plan) -> Plan:
    return plan._replace(tape=tuple([(site, bound - 1 if site.endswith(".pause") else choice, bound)
                                     for site, choice, bound in plan.tape]))


def planned(choice: Choice, ordered: bool) -> bool:
    return not choice[0].startswith(("shape.", "swarm.")) and not (ordered and choice[0] == "schedule")


def dropped(plan: Plan, places: set[int]) -> Plan:
    return plan._replace(order=plan.order and tuple(step for i, step in enumerate(plan.order) if i not in places))


def without(plan: Plan, role: str, number: int) -> Plan:
    """Remove a client with its steps and choices, and rename the later ones of its role."""

    def renamed(name: str) -> Any:
        of, _, rest = name.partition("#")
        if of != role:
            return name
        n = rest.partition(".")[0].partition("/")[0]  # "0.latency"; "0/poller.latency" of a task
        return None if int(n) == number else f"{role}#{int(n) - (int(n) > number)}{rest[len(n):]}"

    tape = [(renamed(site), choice, bound) for site, choice, bound in plan.tape]
    order = None if plan.order is None else tuple(
        (renamed(client), kind, awaited) for client, kind, awaited in plan.order if renamed(client))
    return Plan(plan.shape, tuple(choice for choice in tape if choice[0]), order)


def of_client(name: str) -> Callable[[str, int], bool]:
    return lambda site, bound: site.startswith((f"{name}.", f"{name}/"))


def of_site(name: str) -> Callable[[str, int], bool]:
    return lambda site, bound: site == name
