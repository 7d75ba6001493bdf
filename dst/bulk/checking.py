"""Safety: a run's row says what `trace check` says of it alone.

What was worked out of a model serves all runs of a process. A run that fails is judged again by what serves it alone, so that
its explanation is word for word the same.
"""

from collections.abc import Iterable, Iterator
from shlex import quote
from typing import NamedTuple

import pyarrow as pa

from dst.bulk.packets import Unpacked, unpacked
from dst.bulk.rows import INPUT, SCHEMA
from dst.scenarios import DEFAULT
from dst.simulate import place_of
from dst.verdict import Options, Unfit, beginner, judged, options_of
from traces.event import Event
from traces.explain import explain

MOST_CLIENTS = (3, 2, 1)  # that traces share a model for: writers, collectors, readers; who has more has a model of its own
LIMIT = 500_000  # what events are behind their numbers; beyond it, it is forgotten
RESTS: tuple[list[tuple], dict[tuple, int]] = [], {}


class Asked(NamedTuple):
    """`usual`: of runs whose rows do not say otherwise. `command`: what reads the same input; "": no explanations."""

    usual: Options = Options()
    command: str = ""


def judge(payloads: Iterable[bytes], asked: Asked) -> pa.Table:
    """What all splits have packed for one part -> its rows."""
    rests, known = RESTS
    if len(rests) > LIMIT:
        rests.clear()
        known.clear()
    rows = [row_of(run, rests, asked) for run in unpacked(payloads, rests, known)]
    return pa.Table.from_arrays([pa.array(column, field.type) for column, field in zip(list(zip(*rows)) or [[]] * len(SCHEMA),
                                                                                       SCHEMA)], schema=SCHEMA)


def row_of(of: Unpacked, rests: list[tuple], asked: Asked) -> tuple:
    head = (*of.run, of.protocol or asked.usual.stem)
    try:
        if of.damage:
            raise Unfit(of.damage)
        options = options_for(of, asked.usual)
        head = (*of.run, options.stem)
        events = list(events_of(of, rests))
        failure = judged(events, beginner(events, options, MOST_CLIENTS)(), options)
        if failure is None:
            return (*head, "ok", "", "", "", len(events), None, "")
        return clean((*head, "failed", *failed(of.run, events, options, asked)))
    except Unfit as error:
        found = INPUT, f"{INPUT}:{'damaged' if of.damage else 'unfit'}", str(error)
    except Exception as error:
        found = "harness", f"harness:{type(error).__name__}", f"{error} ({place_of(error)})"
    return clean((*head, "damaged", *found, len(of.numbers[0]), None, ""))


def options_for(of: Unpacked, usual: Options) -> Options:
    """A run's own. Its namespace tells where the files of the default protocol are. Raises Unfit."""
    options = options_of(of.options, usual)
    options = options._replace(protocol=of.protocol or options.protocol)
    if of.run[1] and options.stem == DEFAULT:
        root, _, name = of.run[1].rpartition("/")
        options = options._replace(root=root, namespace=name)
    return options


def failed(run: tuple[str, str], events: list[Event], options: Options, asked: Asked) -> tuple:
    """Kind, signature, message, number of events, number of the first bad one, explanation."""
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


def events_of(of: Unpacked, rests: list[tuple]) -> Iterator[Event]:
    for t_ms, request, rest in zip(*of.numbers):
        yield tuple.__new__(Event, (t_ms, request, *rests[rest]))
