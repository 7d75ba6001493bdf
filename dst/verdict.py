"""Safety: a trace is held against the protocol that it is said to be of, and one that cannot be of it is told so.

What `highwater trace check` decides of the events of one trace: of one file, and of each of millions of runs (dst/bulk/).
"""

import re
import shlex
from argparse import ArgumentParser
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

from highwater.dst.run_spec import settings_in
from highwater.dst.scenarios import DEFAULT, STEMS, known, named
from highwater.impl.layout import InvalidName, Namespace
from highwater.traces.event import Event
from highwater.traces.form import owns
from highwater.traces.protocols import sequenced_metadata_boundary_retries as retries
from highwater.traces.protocols.sequenced_metadata_boundary import Trace, constants, refiner
from highwater.traces.refine import Failure, refiner_of

BOUNDARYS = ("--root", "--namespace", "--page-size", "--skew-ms", "--retries")
ROLES = ("Writer", "Collector", "Reader")


class Unfit(ValueError):
    """This is no trace of what it was said to be of; the message says of what it may be, and how to say so."""


class Options(NamedTuple):
    """What `trace check` is told of a trace, by its own options."""

    root: str = "db"
    namespace: str = "compactions"
    page_size: int = 0
    skew_ms: int = 0
    retries: bool = False
    protocol: str = ""  # "": the default, and nobody has said so
    shape: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        return self.protocol or DEFAULT

    def words(self) -> str:
        """As they are typed."""
        if self.stem == DEFAULT:
            return (f"--root {self.root} --namespace {self.namespace} --page-size {self.page_size} --skew-ms {self.skew_ms}"
                    + " --retries" * self.retries)
        return " ".join([f"--protocol {self.stem}", *(f"--shape {one}" for one in self.shape)])

    def said(self) -> list[str]:
        """What of it is not as usual."""
        named = {f"--{name.replace('_', '-')}": getattr(self, name) for name in (*self._fields[:4], "protocol")
                 if getattr(self, name) != self._field_defaults[name]}
        return [*(word for option, value in named.items() for word in (option, str(value))), *["--retries"] * self.retries,
                *(word for one in self.shape for word in ("--shape", one))]


class Words(ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Unfit(message)


def parser() -> Words:
    words = Words(add_help=False, allow_abbrev=False)
    for option, kind in (("--root", str), ("--namespace", str), ("--page-size", int), ("--skew-ms", int), ("--protocol", str)):
        words.add_argument(option, type=kind)
    words.add_argument("--retries", action="store_const", const=True)
    words.add_argument("--shape", action="append")
    return words


@lru_cache(10_000)
def options_of(text: str, usual: Options) -> Options:
    """What a run's own words say, and else what is usual. Raises Unfit."""
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

def judged(events: list[Event], trace: Any, options: Options) -> Failure | None:
    """Why the model cannot have done that. Raises Unfit where it is a trace of another protocol."""
    try:
        for event in events:
            trace.observe(event)
    except Failure as failure:
        others = [stem for stem in fitting(events) if stem != options.stem]
        if others and not fits(options.stem, events):
            raise Unfit(f"{failure.message}; {of_others(others)}") from None
        return failure
    return None


def beginner(events: list[Event], options: Options, least: tuple[int, int, int] = (1, 1, 1)) -> Callable[[], Any]:
    """What makes a Trace for the clients that these events are of. Raises Unfit. `least`: of each role, so that traces of fewer
    clients share what was worked out of the model."""
    try:
        known(options.stem)
    except LookupError as error:
        raise Unfit(str(error)) from None
    return of_boundary(events, options, least) if options.stem == DEFAULT else of_protocol(events, options)


def of_boundary(events: list[Event], options: Options, least: tuple[int, int, int]) -> Callable[[], Any]:
    if options.shape:
        raise Unfit(f"--shape is of other protocols; of {DEFAULT} {', '.join(BOUNDARYS)} tell")
    clients = list(dict.fromkeys(e.client for e in events))
    strange = [client for client in clients if not CLIENT.fullmatch(client)]
    if strange:
        raise Unfit(f"client {strange[0]!r}: clients are Writer#0, Collector#0, Reader#0 and so on" + hint(events))
    if options.namespace not in ("manifest", "compactions"):
        raise Unfit(f"namespace {options.namespace!r}: manifest or compactions")
    numbers = [max(few, 1 + max([int(client.partition("#")[2]) for client in clients if client.startswith(role)], default=0))
               for role, few in zip(ROLES, least)]
    kind, checker = (retries.RetryingTrace, retries.refiner) if options.retries else (Trace, refiner)
    of = refiner_of(checker, constants(*numbers, options.page_size, options.namespace == "manifest"))
    where = Namespace(options.root, options.namespace)
    return lambda: kind(of, where, options.skew_ms)


CLIENT = re.compile(rf"({'|'.join(ROLES)})#\d{{1,2}}", re.ASCII)


def of_protocol(events: list[Event], options: Options) -> Callable[[], Any]:
    if options[:5] != Options()[:5]:
        raise Unfit(f"{', '.join(BOUNDARYS[:-1])} and {BOUNDARYS[-1]} are of {DEFAULT}; of {options.stem} --shape tells, as in "
                    "--shape skew_ms=50")
    of = named(options.stem)
    try:
        shape = settings_in(of.shape(), options.shape, of.most)
    except ValueError as error:
        raise Unfit(f"--shape: {error}") from None
    clients = of.trace_of(shape).refiner.index
    strange = [e.client for e in events if e.client not in clients]
    if strange:
        raise Unfit(f"client {strange[0]!r}: clients of {options.stem} are {', '.join(filter(None, clients))}" + hint(events))
    return lambda: of.trace_of(shape)


# --- whose a trace may be

def hint(events: list[Event]) -> str:
    others = fitting(events)
    return f"; {of_others(others)}" if others else ""


def of_others(protocols: list[str]) -> str:
    return (f"its clients, its keys and what callers were told are as in {' and '.join(protocols)}: "
            f"{' or '.join(f'--protocol {name}' for name in protocols)}, with --shape where `dst run -o` has told of one")


def fitting(events: list[Event]) -> list[str]:
    """The protocols of which a trace may be by its clients, its keys, and the words that callers were told."""
    return [stem for stem in STEMS if fits(stem, events)]


def fits(protocol: str, events: list[Event]) -> bool:
    of = named(protocol)
    usual = of.shape()
    flags = [name for name, value in usual._asdict().items() if isinstance(value, bool)]  # keys may depend on one
    spaces = [of.trace_of(shape).namespace for shape in (usual, *(usual._replace(**{name: not getattr(usual, name)})
                                                                  for name in flags))]
    asked, told = ([e for e in events if (e.kind == "told") == is_told] for is_told in (False, True))
    return (all(e.client.partition("#")[0] in of.roles for e in events) and all(e.op in of.told for e in told)
            and any(all(is_of(space, e) for e in asked) for space in spaces))


def is_of(space: Any, e: Event) -> bool:
    try:
        return owns(space, e)
    except InvalidName:
        return False
