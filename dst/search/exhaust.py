"""Search a tiny scope exhaustively within bounds. Safety: `complete` is reported only if every run within the bounds was run.

This is delay-bounded search (Emmi et al., POPL 2011). By default events happen in a fixed order, the earliest first. A delay
skips the next event, and its client falls behind all others that have not been delayed since. So one delay is a stall for as
long as any other client can continue. A run may have `delays` of them, and `faults` faults, each of a given list and affecting
one request. All other choices of a run are the mildest, and the result holds for these runs only.

The search is depth-first over the tape. The first run has no delay and no fault. Each later run differs from the one before in
its last choice that has an alternative within the bounds. Only one run's choices are kept in memory.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import DEFAULT, named
from highwater.dst.sim.choose import Choose, Chooser, Decide
from highwater.dst.sim.kernel import Event
from highwater.dst.simulate import BaseShape, Build, Outcome, simulate
from highwater.dst.world.faults import FATES

LATE = ("reply_lost", "late", "crash")  # faults after which a request may be applied although nobody waits


class Bounds(NamedTuple):
    delays: int = 2
    faults: int = 0
    of: tuple[str, ...] = LATE  # the faults to use


class Branch(NamedTuple):
    """A choice with alternatives: `taken` is a place in `options`, and each option is (choice, delays, faults)."""

    taken: int
    options: tuple[tuple[int, int, int], ...]


class Bounded(Chooser):
    """Takes the branches of a path, and beyond its end the first option of each branch, which is the mildest."""

    def __init__(self, bounds: Bounds, path: list[Branch]):
        super().__init__(0)
        self.path, self.taken = path, 0
        self.delays, self.faults, self.kinds = bounds.delays, bounds.faults, [FATES.index(name) for name in bounds.of]
        self.behind: dict[str, int] = {}  # client -> number of its last delay

    def stream(self, name: str) -> Choose:
        return self._mild

    def decider(self) -> Decide:
        return self._decide

    def _mild(self, site: str, bound: int) -> int:
        if bound == 1:
            return 0
        choice = 0
        if site.endswith(".crash"):  # the moment of the crash
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
        """Choose the next event. Delaying an event delays all events of its client."""
        behind = self.behind
        order = sorted(range(len(events)), key=lambda place: behind.get(events[place].owner, 0))  # ties: the earliest
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
            raise RuntimeError(f"branch {self.taken} is now {options}, but was {known}: something is not deterministic")
        self.taken += 1
        choice, delays, faults = options[taken]
        self.delays -= delays
        self.faults -= faults
        return choice


class Searched(NamedTuple):
    runs: int
    traces: int  # number of different ones
    complete: bool  # every run of the scope within the bounds was run
    failures: dict[str, tuple[int, Outcome]]  # signature -> number and outcome of the first run with it
    failed: int  # number of failed runs


def outcomes(bounds: Bounds, shape: BaseShape | None = None, build: Build | None = None, by_model: bool = True,
             scenario: str = DEFAULT) -> Iterator[Outcome]:
    """Yield the outcome of every run within the bounds once, for the scenario's tiny shape unless another is given.

    `simulate(Run(0, scenario, shape=shape), build, outcome.tape)` repeats a run."""
    shape = shape or named(scenario).tiny
    path: list[Branch] = []
    while True:
        chooser = Bounded(bounds, path)
        run = Run(0, scenario, None, "random", shape, named(scenario).weights())
        outcome = simulate(run, build, chooser=chooser, by_model=by_model)
        if isinstance(outcome.failure, RuntimeError):
            raise outcome.failure
        yield outcome
        del path[chooser.taken:]
        while path and path[-1].taken + 1 == len(path[-1].options):
            path.pop()
        if not path:
            return
        path[-1] = path[-1]._replace(taken=path[-1].taken + 1)


def search(bounds: Bounds, shape: BaseShape | None = None, build: Build | None = None, by_model: bool = True,
           most: int = 1_000_000, first: bool = False, progress: Callable[[int], object] = lambda runs: None,
           scenario: str = DEFAULT) -> Searched:
    """Run at most `most` runs, and summarize them. `first`: stop at the first failure."""
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
