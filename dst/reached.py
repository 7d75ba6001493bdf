"""Safety: none; what a campaign never reached it has not tested, and here is what counts as reached.

Of each run, one bit for each witness: the model's own `sometimes` properties, on all states that the trace has led through
(of every fourth seed, for to ask them of all costs a tenth of a campaign); each fault; each thing that a caller can be told;
and the moments that the protocol is about, seen in the events.
"""

from collections.abc import Iterable, Iterator

from dst.mutants_ambiguity import SOMETIMES as AMBIGUOUS
from dst.scenarios import sequenced_metadata_boundary as scenario
from dst.scenarios.sequenced_metadata_boundary import Shape
from dst.simulate import Outcome
from dst.world.faults import FATES
from dst.world.network import OPS, READS
from model import sequenced_metadata_boundary as protocol
from model.tabulated import BITS, FIELD
from traces.event import Event
from traces.refine import Refiner
from traces.sequenced_metadata_boundary import Trace

TOLD = ("committed", "failed", "refused", "unknown", "read")
SEEN = ("create conflict", "advance conflict", "listing of many pages", "file gone before it was read", "boundary unchanged",
        "reader refused", "nobody waits for it: applied", "nobody waits for it: condition failed", "retired", "audited")
WITH_SDK = tuple(name for name in AMBIGUOUS if not name.startswith("late_after_"))  # a request sent again has to do with it
LATE = ("late_after_timeout", "late_after_crash")
WITNESSES = (*(f"model: {name}" for name in protocol.SOMETIMES), *(f"fault: {name}" for name in FATES[1:]),
             *(f"told: {name}" for name in TOLD), *(f"seen: {name}" for name in (*SEEN, *WITH_SDK, *LATE)))
BIT = {name: 1 << place for place, name in enumerate(WITNESSES)}  # of 63: what a column of Parquet holds

MODEL = {name: BIT[f"model: {name}"] for name in protocol.SOMETIMES}
FAULT = (0, *(BIT[f"fault: {name}"] for name in FATES[1:]))
MODEL_EVERY = 4  # of the seeds that this divides the model's witnesses are looked for
CONFLICT = FATES.index("conflict")


def names_of(mask: int) -> list[str]:
    return [name for name in WITNESSES if mask & BIT[name]]


class Watch:
    """Give `trace_of` to `simulate`, then ask `reached` of the outcome."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[object, dict[tuple[int, int], int]]] = {}  # refiner -> its tables, and what they show
        self.refiner: Refiner
        self.states: set[int]

    def trace_of(self, shape: Shape) -> Trace:
        trace = scenario.trace_of(shape)
        self.refiner, self.states = refiner, states = trace.refiner, set(trace.refiner.states)
        observe = trace.observe

        def watched(event: Event) -> None:
            observe(event)
            states.update(refiner.states)

        trace.observe = watched
        return trace

    def reached(self, outcome: Outcome) -> int:
        asked = outcome.seed % MODEL_EVERY == 0
        return (self.of_model() if asked else 0) | of_tape(outcome.tape) | of_events(outcome.events, outcome.shape)

    def of_model(self) -> int:
        explorer = self.refiner.explorer
        tables, known = self.known.get(id(self.refiner), (None, {}))
        if tables is not explorer:  # its numbers mean something else now
            known = {}
            self.known[id(self.refiner)] = explorer, known
        mask = 0
        for number in {state & FIELD for state in self.states}:
            found = known.get((0, number))
            if found is None:
                found = known[0, number] = of_shared(self.refiner, number)
            mask |= found
        for p, process in enumerate(self.refiner.model.processes):
            if process.role in ROLES:
                of = explorer.masks[p]
                for pair in {state & of for state in self.states}:
                    found = known.get((p + 1, pair))
                    if found is None:
                        found = known[p + 1, pair] = of_pair(self.refiner, p, pair)
                    mask |= found
        return mask


ROLES = {role for role, _ in protocol.SOMETIMES.values() if role}


def of_shared(refiner: Refiner, number: int) -> int:
    c, shared = refiner.model.constants, refiner.explorer.values[0][number]
    return sum(MODEL[name] for name, (role, holds) in protocol.SOMETIMES.items() if role is None and holds(c, shared))


def of_pair(refiner: Refiner, p: int, pair: int) -> int:
    c, values, role = refiner.model.constants, refiner.explorer.values, refiner.model.processes[p].role
    shared, local = values[0][pair & FIELD], values[p + 1][pair >> BITS * (p + 1)]
    return sum(MODEL[name] for name, (of, holds) in protocol.SOMETIMES.items() if of == role and holds(c, shared, local))


def of_tape(tape: Iterable[tuple[str, int, int]]) -> int:
    """What was to befall a request is a choice, among all fates, of the site `<client>.<op>`."""
    mask, bound = 0, len(FATES)
    for site, choice, of in tape:
        if of == bound and choice and site.rpartition(".")[2] in OPS and not (
                choice == CONFLICT and site.rpartition(".")[2] in READS):
            mask |= FAULT[choice]
        elif choice and of == 2 and site.endswith(".retires"):
            mask |= BIT["seen: retired"]
    return mask


def of_events(events: list[Event], shape: Shape) -> int:
    mask, given_up = BIT["seen: audited"] if shape.audit else 0, {}
    for e in events:
        if e.kind == "told":
            mask |= BIT.get(f"told: {e.op}", 0)
        elif e.kind != "applied":
            if e.pending:
                given_up[e.request] = e.kind
        elif not e.awaited:
            mask |= NOBODY[e.status < 300]
            if e.op == "create" and e.status == 200 and e.request in given_up and not e.key.endswith(".boundary"):
                mask |= GIVEN_UP[given_up[e.request]]
        else:
            mask |= REPLIED.get((e.op, e.status, e.key.endswith(".boundary")), 0)
            if e.truncated:
                mask |= BIT["seen: listing of many pages"]
    for name in WITH_SDK if shape.sdk else ():
        if AMBIGUOUS[name](events):
            mask |= BIT[f"seen: {name}"]
    return mask | (BIT["seen: reader refused"] if any(reader_refused(events)) else 0)


def reader_refused(events: list[Event]) -> Iterator[bool]:
    """A reader that asked for the boundary asked for a listing next, and was told nothing in between."""
    asked: set[str] = set()
    for e in events:
        if e.client.startswith("Reader"):
            yield e.op == "list" and e.client in asked
            asked = asked | {e.client} if e.kind == "applied" and e.awaited and e.key.endswith(".boundary") else \
                asked - {e.client}


NOBODY = {True: BIT["seen: nobody waits for it: applied"], False: BIT["seen: nobody waits for it: condition failed"]}
GIVEN_UP = {"timeout": BIT["seen: late_after_timeout"], "crash": BIT["seen: late_after_crash"]}
REPLIED = {  # op, status, whether of the boundary
    ("create", 412, False): BIT["seen: create conflict"], ("create", 412, True): BIT["seen: advance conflict"],
    ("update", 412, True): BIT["seen: advance conflict"], ("get", 404, False): BIT["seen: file gone before it was read"],
    ("get_if_changed", 304, True): BIT["seen: boundary unchanged"],
}
