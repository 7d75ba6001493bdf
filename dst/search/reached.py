"""Record what a run reached, as one bit for each witness. What a campaign never reached it has not tested.

Witnesses are the model's `sometimes` properties in the states that the trace visits, each fault, each kind of response to a
caller, and the protocol's own moments, seen in the events. The model is asked only for every fourth seed: asking costs a tenth
of a campaign, and sketching another tenth.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

from highwater import project
from highwater.dst.run_spec import Run, drawn_shape
from highwater.dst.scenarios import DEFAULT, named
from highwater.dst.search.sketch import Sketcher
from highwater.dst.simulate import BaseShape, Outcome
from highwater.dst.world.faults import FATES
from highwater.dst.world.network import OPS, READS
from highwater.dst.world.tampering import DAMAGE
from highwater.model.explore.tabulated import BITS, FIELD
from highwater.traces.event import Event
from highwater.traces.refine import Refiner

MOMENTS = ("nobody waits for it: applied", "retired", "audited")  # witnesses of every scenario
MODEL_EVERY = 4  # the model's witnesses are looked for in seeds divisible by this
CONFLICT = FATES.index("conflict")


@cache
def bits(scenario: str = DEFAULT) -> dict[str, int]:
    """Return the bit of each witness of a scenario. There are at most 63, so that a Parquet column can hold them."""
    of = named(scenario)
    witnesses = (*(f"model: {name}" for name in sometimes(scenario)), *(f"fault: {name}" for name in FATES[1:]),
                 *(f"told: {name}" for name in of.told), *(f"seen: {name}" for name in (*of.moments, *MOMENTS)))
    return {name: 1 << place for place, name in enumerate(witnesses)}


def sometimes(scenario: str) -> dict[str, Any]:
    """Return the model's witnesses that drawn shapes allow: name -> (role, or None for the shared state; condition)."""
    of = named(scenario)
    model = project.load("model", of.protocol).model
    drawn = {of.trace_of(drawn_shape(seed, scenario)).refiner.model.constants: None for seed in range(50)}
    return {name: witness for c in drawn for name, witness in model(c).sometimes.items()}


def names_of(mask: int, scenario: str = DEFAULT) -> list[str]:
    return [name for name, bit in bits(scenario).items() if mask & bit]


class Watch:
    """The states and steps of the current run. Call `expect` with the run, give `trace_of` to `simulate`, then call `reached`
    with the outcome."""

    asked = True  # the model's witnesses are looked for in the current run

    def __init__(self, scenario: str = DEFAULT) -> None:
        self.scenario = named(scenario)
        self.bits, self.sometimes = bits(scenario), sometimes(scenario)
        self.roles = {role for role, _ in self.sometimes.values() if role}
        self.known: dict[int, tuple[object, dict[tuple[int, int], int]]] = {}  # refiner -> its tables, bits of their values
        self.refiner: Refiner
        self.states: set[int]
        self.steps: set[tuple[int, int]]  # from state to state; if several are possible, the first
        self.sketcher = Sketcher()

    def expect(self, run: Run) -> Run:
        """Note which run is the next one, and return it."""
        self.asked = run.seed % MODEL_EVERY == 0
        return run

    def trace_of(self, shape: BaseShape) -> Any:
        trace = self.scenario.trace_of(shape)
        if not self.asked:
            return trace
        self.refiner, self.states = refiner, states = trace.refiner, set(trace.refiner.states)
        self.steps = steps = set()
        observe, before = trace.observe, refiner.states

        def watched(event: Event) -> None:
            nonlocal before
            observe(event)
            after = refiner.states
            if after is not before:
                steps.add((before[0], after[0]))
                states.update(after)
                before = after

        trace.observe = watched
        return trace

    def reached(self, outcome: Outcome) -> int:
        asked = outcome.seed % MODEL_EVERY == 0
        damaged = outcome.shape.broken in DAMAGE  # a moment may need what was damaged
        seen = set() if damaged else self.scenario.moments_of(outcome.events, outcome.shape)
        return (self.of_model() if asked else 0) | of_tape(outcome.tape, self.bits) | of_events(outcome, self.bits) | sum(
            self.bits[f"seen: {name}"] for name in sorted(seen))

    def sketch(self, outcome: Outcome) -> tuple[list[int], list[int]]:
        """Return sketches of the run's model states and steps (dst/search/sketch.py)."""
        return self.sketcher.sketch(self.refiner, self.states, self.steps) if outcome.seed % MODEL_EVERY == 0 else ([], [])

    def of_model(self) -> int:
        explorer = self.refiner.explorer
        tables, known = self.known.get(id(self.refiner), (None, {}))
        if tables is not explorer:  # the numbers have another meaning now
            known = {}
            self.known[id(self.refiner)] = explorer, known
        mask = 0
        for number in {state & FIELD for state in self.states}:
            found = known.get((0, number))
            if found is None:
                found = known[0, number] = self.of_shared(number)
            mask |= found
        for p, process in enumerate(self.refiner.model.processes):
            if process.role in self.roles:
                of = explorer.masks[p]
                for pair in {state & of for state in self.states}:
                    found = known.get((p + 1, pair))
                    if found is None:
                        found = known[p + 1, pair] = self.of_pair(p, pair)
                    mask |= found
        return mask

    def of_shared(self, number: int) -> int:
        c, shared = self.refiner.model.constants, self.refiner.explorer.values[0][number]
        return sum(self.bits[f"model: {name}"] for name, (role, holds) in self.sometimes.items()
                   if role is None and holds(c, shared))

    def of_pair(self, p: int, pair: int) -> int:
        c, values, role = self.refiner.model.constants, self.refiner.explorer.values, self.refiner.model.processes[p].role
        shared, local = values[0][pair & FIELD], values[p + 1][pair >> BITS * (p + 1)]
        return sum(self.bits[f"model: {name}"] for name, (of, holds) in self.sometimes.items()
                   if of == role and holds(c, shared, local))


def of_tape(tape: Iterable[tuple[str, int, int]], bit: dict[str, int]) -> int:
    """Return the bits of the faults on a tape. A fate is a choice among all fates at the site `<client>.<op>`."""
    mask, bound = 0, len(FATES)
    for site, choice, of in tape:
        if of == bound and choice and site.rpartition(".")[2] in OPS and not (
                choice == CONFLICT and site.rpartition(".")[2] in READS):
            mask |= bit[f"fault: {FATES[choice]}"]
        elif choice and of == 2 and site.endswith(".retires"):
            mask |= bit["seen: retired"]
    return mask


def of_events(outcome: Outcome, bit: dict[str, int]) -> int:
    mask = bit["seen: audited"] if outcome.shape.audit else 0
    for e in outcome.events:
        if e.kind == "told":
            mask |= bit.get(f"told: {e.op}", 0)
        elif e.kind == "applied" and not e.awaited and e.status < 300:
            mask |= bit["seen: nobody waits for it: applied"]
    return mask
