"""Judge one run of a bulk check. Safety: its row says what `trace check` says of the run alone.

A process shares what it computed from a model among all its runs. A run that fails is judged again without sharing, so that its
explanation is the same word for word.
"""

from collections.abc import Callable, Iterable
from shlex import quote
from typing import Any, NamedTuple

import pyarrow as pa

from highwater.dst.bulk.packets import Unpacked, unpacked
from highwater.dst.bulk.rows import INPUT, SCHEMA
from highwater.dst.scenarios import stems
from highwater.dst.simulate import place_of
from highwater.dst.verdict import Options, Unfit, beginner, judged, options_of, recorded_of, stem_of
from highwater.interrupt import is_by_signal
from highwater.model.uncollected import uncollected
from highwater.project import message_of
from highwater.traces.event import Event
from highwater.traces.explain.explain import explain
from highwater.traces.follow import Acquaintances, Events, follow
from highwater.traces.refine import Failure, Refiner


class Asked(NamedTuple):
    """The parameters of a bulk check.

    `usual`: options of runs whose rows do not give their own. `command`: the command that reads the same input; "" for no
    explanations."""

    usual: Options = Options()
    command: str = ""


class Known:
    """State that one process shares among runs: parsed events, trace factories, cached effects. None of it depends on a single
    run."""

    def __init__(self) -> None:
        self.rests: list[tuple] = []
        self.numbers: dict[tuple, int] = {}  # rest -> its place in `rests`
        self.clients: list[str] = []  # of each rest in `rests`
        self.begin: dict[tuple, Callable[[], Any]] = {}  # (options, clients) -> the factory of a trace for them
        self.acquaintances: dict[int, Acquaintances] = {}  # by the address of their refiner, which they keep alive

    def met(self) -> None:
        """Extend `clients` to the rests that were added since."""
        self.clients += [rest[0] for rest in self.rests[len(self.clients):]]

    def begun(self, of: Unpacked, options: Options) -> Any:
        """Begin a trace that has observed nothing. Raises Unfit."""
        what = options, frozenset(map(self.clients.__getitem__, set(of.numbers[2])))
        if what not in self.begin:
            begin = self.begin[what] = beginner(Events.whole(of.numbers, self.rests), options, shared=True)
            begin().refiner.limit = REFINER_LIMIT
        return self.begin[what]()

    def of(self, refiner: Refiner) -> Acquaintances:
        found = self.acquaintances.get(id(refiner))
        if found is None or found.effects is not refiner.effects:
            found = self.acquaintances[id(refiner)] = Acquaintances(refiner)
        return found


REFINER_LIMIT = 300_000  # larger than the one in traces/refine.py: a bulk check has more runs
LIMIT = 500_000  # rests, or factories of traces; beyond it a process forgets all, so that its memory is bounded
KNOWN = [Known()]


def judge(payloads: Iterable[bytes], asked: Asked) -> pa.Table:
    """Return the rows of one part. `payloads` are its packets from all splits."""
    if max(len(KNOWN[0].rests), len(KNOWN[0].begin)) > LIMIT:
        KNOWN[0] = Known()
    known = KNOWN[0]
    with uncollected():
        rows = [row_of(run, known, asked) for run in unpacked(payloads, known.rests, known.numbers)]
    return pa.Table.from_arrays([pa.array(column, field.type) for column, field in zip(list(zip(*rows)) or [[]] * len(SCHEMA),
                                                                                       SCHEMA)], schema=SCHEMA)


def row_of(of: Unpacked, known: Known, asked: Asked) -> tuple:
    head = (*of.run, of.protocol or stem_of(asked.usual))
    try:
        if of.damage:
            raise Unfit(of.damage)
        options = options_for(of, asked.usual)
        head = (*of.run, stem_of(options))
        known.met()
        trace = known.begun(of, options)
        try:
            follow(trace, of.numbers, known.rests, known.of(trace.refiner))
        except Failure:
            events = Events.whole(of.numbers, known.rests)
            return clean((*head, "failed", *failed(of.run, events, options, asked)))
        return (*head, "ok", "", "", "", len(of.numbers[0]), None, "")
    except Unfit as error:
        found = INPUT, f"{INPUT}:{'damaged' if of.damage else 'unfit'}", str(error)
    except BaseException as error:
        if is_by_signal(error):
            raise
        found = "harness", f"harness:{type(error).__name__}", f"{message_of(error)} ({place_of(error)})"
    return clean((*head, "damaged", *found, len(of.numbers[0]), None, ""))


def options_for(of: Unpacked, usual: Options) -> Options:
    """Return a run's own options. If the protocol's files may be anywhere, the namespace gives their place. Raises Unfit."""
    options = options_of(of.options, usual)
    options = options._replace(protocol=of.protocol or options.protocol)
    if of.run[1] and anywhere(stem_of(options)):
        root, _, name = of.run[1].rpartition("/")
        options = options._replace(root=root, namespace=name)
    return options


def anywhere(stem: str) -> bool:
    """Tell whether options say where this protocol's files are."""
    return stem in stems() and {"root", "namespace"} <= set(recorded_of(stem).takes)


def failed(run: tuple[str, str], events: list[Event], options: Options, asked: Asked) -> tuple:
    """Return kind, signature, message, number of events, index of the first bad event, and explanation."""
    trace = beginner(events, options)()
    failure = judged(events, trace, options)
    if failure is None:
        raise AssertionError("more clients fail where fewer do not")
    command = asked.command and " ".join([asked.command, *chosen(run)])
    told = explain(trace.events, failure, trace, command) if asked.command else ""
    return failure.kind, failure.signature, failure.message, len(events), len(trace.events) - 1, told


def chosen(run: tuple[str, str]) -> list[str]:
    return [word for option, name in zip(("--run", "--of"), run) if name for word in (option, quote(name))]


def clean(row: tuple) -> tuple:
    return tuple(value.encode(errors="backslashreplace").decode() if isinstance(value, str) else value for value in row)
