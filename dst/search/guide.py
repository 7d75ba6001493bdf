"""Safety: none; guidance says only which run is next. What it runs are legal runs, and each replays from its seed and tape.

Coverage is of the model: its states that a campaign's traces have reached, and the steps between them (a state and the
action taken there). A run that reached new ones is kept, and others are made from it: cut and drawn anew from there, spliced
with another, one fault more, less or other, a stall moved. Three runs in ten are drawn from nothing. The same seeds, base
strategy and implementation give the same campaign. (ModelFuzz, OOPSLA 2025, guides by a model's states.) Whether it pays is
measured in docs/zoo.md.
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
    """Notes each step. Its numbers of states hold as long as it lives: only what it has looked up is ever forgotten."""

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
    """What the traces of a campaign have reached: give its `trace_of` to `simulate`, and call `gain` after each run."""

    def __init__(self, scenario: str = DEFAULT) -> None:
        self.scenario = named(scenario)
        self.states: set[tuple] = set()
        self.steps: set[tuple] = set()
        self.refiners: dict[int, tuple[int, Refiner, Walked]] = {}  # id of the scenario's -> number, that, and the campaign's
        self.now: tuple[int, Refiner, Walked]  # of the last run

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
        """How many states and steps the last run was the first to reach."""
        number, _, walked = self.now
        before = len(self.states) + len(self.steps)
        self.steps.update([(number, *step) for step in walked.steps])
        self.states.update([(number, after) for _, after in walked.steps])
        return len(self.states) + len(self.steps) - before


def forgiving(trace: Any) -> Any:
    """Follows a run as far as the model can, and lets it go on where it cannot: for a campaign that looks for harm."""
    follow, walked, names = trace.observe, trace.refiner, count(1000)  # beyond the model's numbers of updates: no name twice

    def observe(e: Event) -> None:
        try:
            follow(e)
        except Failure:
            trace.refiner = SimpleNamespace(model=walked.model, shared=walked.shared,
                                            local=lambda process: SimpleNamespace(k=next(names)),
                                            locals=lambda process: [SimpleNamespace(k=next(names))])

    trace.observe = lambda e: trace.events.append(e) if trace.refiner is not walked else observe(e)
    return trace


NO_HARM = ("history:too young", "liveness:stale", "liveness:requests")  # what only the model's judge can know


class Kept(NamedTuple):
    tape: Tape
    gain: int
    used: int  # how often something was made from it since


class Guide:
    """Runs of one campaign, one after another. `base`: the strategy of what is drawn. The seeds name the campaign."""

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
        """Empty: a run drawn from nothing."""
        if not self.kept or self.draw(100) < FRESH:
            return []
        place = self._pick()
        kept = self.kept[place]
        self.kept[place] = kept._replace(used=kept.used + 1)
        return MUTATIONS[self.draw(len(MUTATIONS))](kept.tape, self.kept[self.draw(len(self.kept))].tape, self.draw)

    def _pick(self) -> int:
        """One of the kept, in proportion to its energy."""
        sums = list(accumulate(map(energy, self.kept)))
        mark = self.draw(sums[-1])
        return next(place for place, total in enumerate(sums) if total > mark)


def energy(kept: Kept) -> int:
    """What it was the first to reach, less with each use."""
    return 1 + 16 * kept.gain // (1 + kept.used)


# --- mutations: (tape, another's tape, draw) -> a tape for a lenient run that draws what the tape does not say


def cut(tape: Tape, _: Tape, draw: Draw) -> Tape:
    return tape[:draw(len(tape) + 1)]


def splice(tape: Tape, other: Tape, draw: Draw) -> Tape:
    place = draw(len(tape) + 1)
    return tape[:place] + other[min(place, len(other)):]


def flip_fault(tape: Tape, _: Tape, draw: Draw) -> Tape:
    """What befalls one request: something else, or nothing if it was something."""
    asked = fates_of(tape)
    place = asked[draw(len(asked))]
    return changed(tape, place, 0 if tape[place][1] else 1 + draw(len(FATES) - 1))


def move_stall(tape: Tape, _: Tape, draw: Draw) -> Tape:
    """A stall from one request to another; where there is none, it is new."""
    asked = fates_of(tape)
    stalls = [place for place in asked if tape[place][1] == STALL]
    if stalls:
        tape = changed(tape, stalls[draw(len(stalls))], 0)
    return changed(tape, asked[draw(len(asked))], STALL)


def fates_of(tape: Tape) -> list[int]:
    """Where the choices are of what befalls a request; there is no run without a request."""
    return [place for place, (site, _, bound) in enumerate(tape) if bound == len(FATES) and "#" in site]


def changed(tape: Tape, place: int, choice: int) -> Tape:
    site, _, bound = tape[place]
    return [*tape[:place], (site, choice, bound), *tape[place + 1:]]


MUTATIONS = (cut, splice, flip_fault, move_stall)


def guided(seeds: range, build: Build | None = None, by_model: bool = True, base: str = "portfolio",
           scenario: str = DEFAULT) -> Iterator[Outcome]:
    """A campaign: one run a seed, each made from those before. `simulate(Run(seed), build, outcome.tape)` runs one alone."""
    guide = Guide(seeds.start, base, scenario)
    for seed in seeds:
        yield guide.run(seed, build, by_model)


def covered(seeds: range, strategy: str, build: Build | None = None) -> Iterator[tuple[int, int]]:
    """After each run, how many states and steps of the model the campaign has reached: of any strategy, "guided" too."""
    guide, coverage = Guide(seeds.start), Coverage()
    for seed in seeds:
        if strategy == "guided":
            guide.run(seed, build)
            coverage = guide.coverage
        else:
            simulate(Run(seed, strategy=strategy), build, trace_of=coverage.trace_of)
            coverage.gain()
        yield len(coverage.states), len(coverage.steps)
