"""Guide a campaign by coverage: choose its next run. Every run is legal, and replays from its seed and tape.

Coverage means model states that the campaign's traces reached, and steps (a state and the action taken there). A run that
reached something new is kept, and later runs are made from it. They cut its tape and draw the rest, splice it with another,
add, remove or change a fault, or move a stall. Three runs in ten are drawn from nothing. The same seeds, base strategy and
implementation give the same campaign. (ModelFuzz, OOPSLA 2025, also guides by model states.) docs/zoo.md measures whether
guidance pays.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate, count
from types import SimpleNamespace
from typing import Any, NamedTuple

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import DEFAULT, named
from highwater.dst.sim.choose import Choice, Lenient, drawing
from highwater.dst.simulate import Build, Outcome, Shape, simulate
from highwater.dst.world.faults import FATES
from highwater.traces.event import Event
from highwater.traces.refine import LIMIT, Effect, Failure, Match, Refiner

FRESH = 30  # of 100 runs
MOST_KEPT = 200  # tapes
STALL = FATES.index("stall")

Draw = Callable[[int], int]
Tape = list[Choice]


class Walked(Refiner):
    """A refiner that records each step. Its numbers of states remain valid: it only forgets what can be computed again."""

    def begin(self) -> None:
        if max(self.met, len(self.effects)) > LIMIT:
            self.forget()
        self.states = (self.explorer.initial,)
        self.steps: set[tuple[int, int]] = set()

    def event(self, process: str, event: tuple, match: Callable[[Event], Match | None]) -> None:
        before = self.states[0]
        super().event(process, event, match)
        self.steps.add((before, self.states[0]))

    def step(self, match: Match, effect: Effect | None = None) -> None:
        before = self.states[0]
        super().step(match, effect)
        self.steps.add((before, self.states[0]))


class Coverage:
    """The coverage of a campaign. Give its `trace_of` to `simulate`, and call `gain` after each run."""

    def __init__(self, scenario: str = DEFAULT) -> None:
        self.scenario = named(scenario)
        self.states: set[tuple] = set()
        self.steps: set[tuple] = set()
        self.refiners: dict[int, tuple[int, Refiner, Walked]] = {}  # by the scenario's id: number, it, the campaign's
        self.now: tuple[int, Refiner, Walked]  # for the last run

    def trace_of(self, shape: Shape) -> Any:
        trace = self.scenario.trace_of(shape)
        theirs = trace.refiner
        if id(theirs) not in self.refiners:
            self.refiners[id(theirs)] = len(self.refiners), theirs, Walked(theirs.model)
        self.now = self.refiners[id(theirs)]
        trace.refiner = self.now[2]
        trace.refiner.begin()
        return trace

    def forgiving_trace_of(self, shape: Shape) -> Any:
        return forgiving(self.trace_of(shape))

    def gain(self) -> int:
        """Return the number of states and steps that the last run reached first."""
        number, _, walked = self.now
        before = len(self.states) + len(self.steps)
        self.steps.update([(number, *step) for step in walked.steps])
        self.states.update([(number, after) for _, after in walked.steps])
        return len(self.states) + len(self.steps) - before


def forgiving(trace: Any) -> Any:
    """Make a trace follow a run as far as the model can, and then only record it: for a campaign that looks for harm."""
    follow, walked, names = trace.observe, trace.refiner, count(1000)  # above the model's numbers, so names are unique

    def observe(e: Event) -> None:
        try:
            follow(e)
        except Failure:
            trace.refiner = SimpleNamespace(model=walked.model, shared=walked.shared,
                                            local=lambda process: SimpleNamespace(k=next(names)),
                                            locals=lambda process: [SimpleNamespace(k=next(names))])

    trace.observe = lambda e: trace.events.append(e) if trace.refiner is not walked else observe(e)
    return trace


NO_HARM = ("history:too young", "liveness:stale", "liveness:requests")  # failures that only the model's judge can recognise


class Kept(NamedTuple):
    tape: Tape
    gain: int
    used: int  # number of tapes made from it since


class Guide:
    """The runs of one campaign, in order. `base`: the strategy for drawn parts. The first seed identifies the campaign."""

    def __init__(self, seed: int, base: str = "portfolio", scenario: str = DEFAULT):
        self.draw, self.base, self.coverage, self.kept = drawing(seed, "guide"), base, Coverage(scenario), []
        self.scenario = scenario

    def run(self, seed: int, build: Build | None = None, by_model: bool = True) -> Outcome:
        tape = self._next_tape()
        judge = self.coverage.trace_of if by_model else self.coverage.forgiving_trace_of
        outcome = simulate(Run(seed, self.scenario, None, self.base), build, chooser=Lenient(seed, tape, fresh=True),
                           trace_of=judge)
        if not by_model and outcome.signature in NO_HARM:
            outcome = outcome._replace(kind="", signature="", message="", failure=None)
        gain = self.coverage.gain()
        if gain:
            self.kept.append(Kept(outcome.tape, gain, 0))
            if len(self.kept) > MOST_KEPT:
                self.kept.remove(min(self.kept, key=energy))
        return outcome

    def _next_tape(self) -> Tape:
        """Make the next tape; [] for a run drawn from nothing."""
        if not self.kept or self.draw(100) < FRESH:
            return []
        place = self._pick()
        kept = self.kept[place]
        self.kept[place] = kept._replace(used=kept.used + 1)
        return MUTATIONS[self.draw(len(MUTATIONS))](kept.tape, self.kept[self.draw(len(self.kept))].tape, self.draw)

    def _pick(self) -> int:
        """Pick one of the kept tapes, in proportion to its energy."""
        sums = list(accumulate(map(energy, self.kept)))
        mark = self.draw(sums[-1])
        return next(place for place, total in enumerate(sums) if total > mark)


def energy(kept: Kept) -> int:
    """Return a tape's weight: it rises with its gain, and falls with each use."""
    return 1 + 16 * kept.gain // (1 + kept.used)


# --- mutations: (tape, another's tape, draw) -> a tape for a lenient run that draws what the tape does not say


def cut(tape: Tape, _: Tape, draw: Draw) -> Tape:
    return tape[:draw(len(tape) + 1)]


def splice(tape: Tape, other: Tape, draw: Draw) -> Tape:
    place = draw(len(tape) + 1)
    return tape[:place] + other[min(place, len(other)):]


def flip_fault(tape: Tape, _: Tape, draw: Draw) -> Tape:
    """Change the fate of one request: to a fault, or from a fault to none."""
    asked = fates_of(tape)
    place = asked[draw(len(asked))]
    return changed(tape, place, 0 if tape[place][1] else 1 + draw(len(FATES) - 1))


def move_stall(tape: Tape, _: Tape, draw: Draw) -> Tape:
    """Move a stall from one request to another, or add one if there is none."""
    asked = fates_of(tape)
    stalls = [place for place in asked if tape[place][1] == STALL]
    if stalls:
        tape = changed(tape, stalls[draw(len(stalls))], 0)
    return changed(tape, asked[draw(len(asked))], STALL)


def fates_of(tape: Tape) -> list[int]:
    """Return the places of the choices of requests' fates. Every run has at least one."""
    return [place for place, (site, _, bound) in enumerate(tape) if bound == len(FATES) and "#" in site]


def changed(tape: Tape, place: int, choice: int) -> Tape:
    site, _, bound = tape[place]
    return [*tape[:place], (site, choice, bound), *tape[place + 1:]]


MUTATIONS = (cut, splice, flip_fault, move_stall)


def guided(seeds: range, build: Build | None = None, by_model: bool = True, base: str = "portfolio",
           scenario: str = DEFAULT) -> Iterator[Outcome]:
    """Yield a guided campaign: one run for each seed. `simulate(Run(seed), build, outcome.tape)` repeats one alone."""
    guide = Guide(seeds.start, base, scenario)
    for seed in seeds:
        yield guide.run(seed, build, by_model)


def covered(seeds: range, strategy: str, build: Build | None = None) -> Iterator[tuple[int, int]]:
    """Yield after each run the numbers of states and steps that a campaign of any strategy, or "guided", has reached."""
    guide, coverage = Guide(seeds.start), Coverage()
    for seed in seeds:
        if strategy == "guided":
            guide.run(seed, build)
            coverage = guide.coverage
        else:
            simulate(Run(seed, strategy=strategy), build, trace_of=coverage.trace_of)
            coverage.gain()
        yield len(coverage.states), len(coverage.steps)
