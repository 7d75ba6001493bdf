"""Define the options that describe a recorded trace, and how a protocol makes a checker from them.

A trace of the simulator knows its scenario's Shape. A recorded file does not, so the options of `highwater trace check` give
the same facts. Each protocol names the options that it takes, and makes the checker from them (`Recorded`).
"""

from collections.abc import Callable
from typing import NamedTuple

from highwater.traces.event import Event
from highwater.traces.trace import Trace


class Options(NamedTuple):
    """The options of `trace check`, of all protocols together. Each protocol takes some of them."""

    root: str = "db"
    namespace: str = "compactions"
    page_size: int = 0  # 0: a listing has one page
    skew_ms: int = 0
    retries: bool = False
    protocol: str = ""  # "": the default protocol, not chosen explicitly
    shape: tuple[str, ...] = ()  # NAME=VALUE, fields of the scenario's Shape

    def said(self) -> list[str]:
        """Return the options that differ from the defaults, as they are typed."""
        return [word for name in self._fields if getattr(self, name) != self._field_defaults[name] for word in self.typed(name)]

    def typed(self, name: str) -> list[str]:
        """Return one option as it is typed: a flag, or the option and its value, once for each value."""
        value = getattr(self, name)
        if isinstance(value, bool):
            return [option(name)] * value
        return [word for one in (value if isinstance(value, tuple) else (value,)) for word in (option(name), str(one))]


def option(name: str) -> str:
    """Return the option's name on the command line."""
    return f"--{name.replace('_', '-')}"


class Unfit(ValueError):
    """The trace does not fit the options. The message says which options may fit."""


class StrangeClient(Unfit):
    """A client of the trace is unknown to the protocol: the trace may be of another one."""


class Recorded(NamedTuple):
    """The check of recorded traces of one protocol.

    `takes`: the fields of Options that describe such a trace. `begin(events, options, shared)` returns a function that makes a
    new Trace for the clients of these events. With `shared` the Trace has room for more clients, so that many traces are
    checked against one model. Raises Unfit."""

    takes: tuple[str, ...]
    begin: Callable[[list[Event], Options, bool], Callable[[], Trace]]
