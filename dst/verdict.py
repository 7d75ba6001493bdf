"""Judge a trace by its protocol. Safety: a trace that cannot be of the stated protocol is refused.

This is the verdict of `highwater trace check`, for one file and for each of millions of runs (dst/bulk/).
"""

import shlex
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any, NoReturn

from highwater.dst.run_spec import settings_in
from highwater.dst.scenario import rules_of
from highwater.dst.scenarios import default, known, named, stems
from highwater.dst.world.store import profile_of
from highwater.impl.layout import InvalidName
from highwater.traces import protocols
from highwater.traces.event import Event
from highwater.traces.form import owns
from highwater.traces.options import Options, Recorded, StrangeClient, Unfit, option
from highwater.traces.recorded import logs
from highwater.traces.refine import Failure
from highwater.traces.store import ANY, Store
from highwater.traces.stream import ByClient, Streamed

USUAL = Options()
OFTEN = 1_024  # events after which a judge looks at the size of its tables


def stem_of(options: Options) -> str:
    """Return the protocol that the options state."""
    return options.protocol or default()


def words(options: Options) -> str:
    """Return the options for such a trace, as a user types them."""
    protocol = ["--protocol", stem_of(options)] if stem_of(options) != stem_of(USUAL) else []
    return " ".join([*protocol, *(word for name in recorded_of(stem_of(options)).takes for word in options.typed(name))])


class Words(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Unfit(message)


def parser() -> Words:
    words = Words(add_help=False, allow_abbrev=False)
    for name, usual in USUAL._asdict().items():
        kinds = {bool: {"action": "store_const", "const": True}, tuple: {"action": "append"}}
        words.add_argument(option(name), **kinds.get(type(usual), {"type": type(usual)}))
    return words


@lru_cache(10_000)
def options_of(text: str, usual: Options) -> Options:
    """Parse a run's own options; `usual` supplies the others. Raises Unfit."""
    try:
        given = vars(parser().parse_args(shlex.split(text)))
    except ValueError as error:
        raise Unfit(f"options {text!r}: {error}") from None
    if given["shape"]:
        given["shape"] = tuple(given["shape"])
    if min(given["page_size"] or 0, given["skew_ms"] or 0) < 0:
        raise Unfit(f"options {text!r}: less than 0")
    return usual._replace(**{name: value for name, value in given.items() if value is not None})


# --- one trace

def judged(events: list[Event] | Streamed, trace: Any, options: Options) -> Failure | None:
    """Return why the model cannot produce these events; None if it can. Raises Unfit if they are of another protocol.

    Of the events of a file (traces/stream.py) the trace keeps only what a judge may still ask for. Its memory grows with the
    state of the store and of the model, and by 16 bytes an event. Raises ValueError for a line that is no event."""
    rest = iter(events)
    if isinstance(events, Streamed):
        trace.events, trace.by_client, rest = events, ByClient(events), events.read()
    try:
        for number, event in enumerate(rest, 1):
            trace.observe(event)
            if not number % OFTEN:
                trace.trim()
    except Failure as failure:
        for _ in rest:
            pass  # a file with a line that is no event has no verdict
        others = fitting(events) if not logs.named(stem_of(options)) else []
        if others and stem_of(options) not in others:
            raise Unfit(f"{failure.message}; {of_others(others)}") from None
        return failure
    return None


def recorded_of(stem: str) -> Recorded:
    """Return how recorded traces of a protocol, or of another program's log, are checked. Raises LookupError."""
    if log := logs.named(stem):
        return log.RECORDED
    return protocols.recorded(known(stem)) or Recorded(("shape",), partial(by_shape, stem))


def beginner(events: list[Event], options: Options, shared: bool = False) -> Callable[[], Any]:
    """Return a function that makes a Trace for the clients of these events. Raises Unfit.

    `events`: one of each client is enough. `shared`: with room for more clients, so that many traces share results computed
    from the model."""
    try:
        of = recorded_of(stem_of(options))
    except LookupError as error:
        raise Unfit(str(error)) from None
    if any(getattr(options, name) != getattr(USUAL, name) for name in Options._fields if name not in (*of.takes, "protocol")):
        raise Unfit(not_of(options, of))
    try:
        return of.begin(events, options, shared)
    except StrangeClient as error:
        raise Unfit(f"{error}{hint(events)}") from None


def not_of(options: Options, of: Recorded) -> str:
    """Explain which options do not apply to this protocol's traces, and which do."""
    others = [name for name in Options._fields if name not in (*of.takes, "protocol")]
    given = [name for name in others if getattr(options, name) != getattr(USUAL, name)]
    owners = [stem for stem in stems() if set(given) <= set(recorded_of(stem).takes)]
    whose = f"; they are of {owners[0]}" if len(owners) == 1 else ""
    return (f"{listed(given)} cannot be given for {stem_of(options)}{whose}; of {stem_of(options)} {listed(of.takes)} can"
            + ", as in --shape skew_ms=50" * ("shape" in of.takes))


def listed(names: Iterable[str]) -> str:
    """List options as a user types them: `--root, --namespace and --retries`."""
    *most, last = map(option, names)
    return f"{', '.join(most)} and {last}" if most else last


def by_shape(stem: str, events: list[Event], options: Options, shared: bool) -> Callable[[], Any]:
    """Return a trace's maker for a protocol that is described by its scenario's Shape.

    The model has as many clients as a run may have, so it is always shared. The store is judged by the rules of its profile if
    the options name it."""
    of = named(stem)
    try:
        shape = settings_in(of.shape(), options.shape, of.most)
    except ValueError as error:
        raise Unfit(f"--shape: {error}") from None
    trace = of.trace_of(shape)
    clients = trace.refiner.index
    strange = [e.client for e in events if not trace.knows(e.client.partition("/")[0])]  # a task is of its client
    if strange:
        raise StrangeClient(f"client {strange[0]!r}: clients of {stem} are {', '.join(filter(None, clients))}")
    rules = rules_of(profile_of(shape.store)) if any(one.startswith("store=") for one in options.shape) else ANY

    def begin() -> Any:
        trace = of.trace_of(shape)
        trace.store = Store(rules)
        return trace

    return begin


# --- whose a trace may be

def hint(events: list[Event]) -> str:
    others = fitting(events)
    return f"; {of_others(others)}" if others else ""


def of_others(protocols: list[str]) -> str:
    return (f"its clients, its keys and what callers were told are as in {' and '.join(protocols)}: "
            f"{' or '.join(f'--protocol {name}' for name in protocols)}, with --shape if `dst run -o` printed one")


def fitting(events: list[Event] | Streamed) -> list[str]:
    """Return the protocols that fit a trace's clients, keys and kinds of response, up to its end."""
    if isinstance(events, Streamed):
        return [stem for stem in stems() if fits(stem, events.whole())]
    return [stem for stem in stems() if fits(stem, events)]


def fits(protocol: str, events: Iterable[Event]) -> bool:
    of = named(protocol)
    usual = of.shape()
    flags = [name for name, value in usual._asdict().items() if isinstance(value, bool)]  # keys may depend on a flag
    spaces = [of.trace_of(shape).namespace for shape in (usual, *(usual._replace(**{name: not getattr(usual, name)})
                                                                  for name in flags))]
    for e in events:
        if e.client.partition("#")[0] not in of.roles or (e.kind == "told" and e.op not in of.told):
            return False
        if e.kind != "told" and not (spaces := [space for space in spaces if is_of(space, e)]):
            return False
    return True


def is_of(space: Any, e: Event) -> bool:
    try:
        return owns(space, e)
    except InvalidName:
        return False
