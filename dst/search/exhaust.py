"""Safety: `complete` is said only if every run of the scope within the bounds was run: then none of them fails, or the
failures that are told are all that there are.

Delay-bounded search (Emmi et al., POPL 2011) for tiny scopes. Unbothered, events happen in a fixed order: the earliest first.
A delay passes over the event that is next, and from then on its client falls behind all that were not delayed after it: one
delay is a stall for as long as anybody else can go on. A run may have `delays` of them, and `faults` faults, each one of a
given list that befalls one request. Whatever else a run chooses is the mildest: what is proved is of these runs.

The search is depth-first over the tape: the first run takes no delay and no fault; each next one differs from the last in
its last choice that has an alternative within what is left of the bounds. No state is kept but one run's choices.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import DEFAULT, named
from highwater.dst.sim.choose import Choose, Chooser, Decide
from highwater.dst.sim.kernel import Event
from highwater.dst.simulate import Build, Outcome, Shape, simulate
from highwater.dst.world.faults import FATES, Weights

LATE = ("reply_lost", "late", "crash")  # the faults after which a request may be applied with nobody waiting


class Bounds(NamedTuple):
    delays: int = 2
    faults: int = 0
    of: tuple[str, ...] = LATE  # which faults


class Branch(NamedTuple):
    """A choice that has alternatives: the one that is taken, of `options`, of which each is (choice, delays, faults)."""

    taken: int
    options: tuple[tuple[int, int, int], ...]


class Bounded(Chooser):
    """Takes the branches of a path, and beyond its end the first option of each, which is the mildest."""

    def __init__(self, bounds: Bounds, path: list[Branch]):
        super().__init__(0)
        self.path, self.taken = path, 0
        self.delays, self.faults, self.kinds = bounds.delays, bounds.faults, [FATES.index(name) for name in bounds.of]
        self.behind: dict[str, int] = {}  # client -> the number of its last delay

    def stream(self, name: str) -> Choose:
        return self._mild

    def decider(self) -> Decide:
        return self._decide

    def _mild(self, site: str, bound: int) -> int:
        if bound == 1:
            return 0
        choice = 0
        if site.endswith(".crash"):  # when it dies
            choice = self._branch(tuple((when, 0, 0) for when in range(bound)))
        self.tape.append((site, choice, bound))
        return choice

    def _decide(self, site: str, bound: int, how: Callable[[Any], int], argument: Any) -> int:
        if bound == 1:
            return 0
        if site == "schedule":
            choice = self._next_event(argument)
        elif site == "untimed":
            choice = 1
        else:
            fates = self.kinds if self.faults else ()
            choice = self._branch(((0, 0, 0), *((kind, 0, 1) for kind in fates)))
        self.tape.append((site, choice, bound))
        return choice

    def _next_event(self, events: list[Event]) -> int:
        """Who passes over an event passes over all of its client's."""
        behind = self.behind
        order = sorted(range(len(events)), key=lambda place: behind.get(events[place].owner, 0))  # stable: then the earliest
        owners = list(dict.fromkeys(events[place].owner for place in order))
        passed = self._branch(tuple((i, i, 0) for i in range(min(len(owners), self.delays + 1))))
        for owner in owners[:passed]:
            behind[owner] = max(behind.values(), default=0) + 1
        return next(place for place in order if events[place].owner == owners[passed])

    def _branch(self, options: tuple[tuple[int, int, int], ...]) -> int:
        if len(options) == 1:
            return options[0][0]
        if self.taken == len(self.path):
            self.path.append(Branch(0, options))
        taken, known = self.path[self.taken]
        if known != options:
            raise RuntimeError(f"branch {self.taken} is {options} now, and was {known}: something is not deterministic")
        self.taken += 1
        choice, delays, faults = options[taken]
        self.delays -= delays
        self.faults -= faults
        return choice


class Searched(NamedTuple):
    runs: int
    traces: int  # that differ
    complete: bool  # no run of the scope within the bounds is left
    failures: dict[str, tuple[int, Outcome]]  # signature -> which run was the first, and that one
    failed: int  # runs


def outcomes(bounds: Bounds, shape: Shape | None = None, build: Build | None = None, by_model: bool = True,
             scenario: str = DEFAULT) -> Iterator[Outcome]:
    """Every run within the bounds, each once; of the scenario's tiny shape, unless another is given.
    `simulate(Run(0, scenario, shape=shape), build, outcome.tape)` is the same run again."""
    shape = shape or named(scenario).tiny
    path: list[Branch] = []
    while True:
        chooser = Bounded(bounds, path)
        outcome = simulate(Run(0, scenario, None, "random", shape, Weights()), build, chooser=chooser, by_model=by_model)
        if isinstance(outcome.failure, RuntimeError):
            raise outcome.failure
        yield outcome
        del path[chooser.taken:]
        while path and path[-1].taken + 1 == len(path[-1].options):
            path.pop()
        if not path:
            return
        path[-1] = path[-1]._replace(taken=path[-1].taken + 1)


def search(bounds: Bounds, shape: Shape | None = None, build: Build | None = None, by_model: bool = True,
           most: int = 1_000_000, first: bool = False, progress: Callable[[int], object] = lambda runs: None,
           scenario: str = DEFAULT) -> Searched:
    """At most so many runs; `first`: only up to the first failure."""
    runs, failed, traces, failures = 0, 0, set(), {}
    every = outcomes(bounds, shape, build, by_model, scenario)
    for outcome in every:
        runs += 1
        traces.add(outcome.digest)
        if outcome.kind:
            failed += 1
            failures.setdefault(outcome.signature, (runs, outcome))
            if first:
                break
        if runs == most:
            complete = next(every, None) is None
            return Searched(runs, len(traces), complete, failures, failed)
        progress(runs)
    return Searched(runs, len(traces), not (first and failed), failures, failed)
