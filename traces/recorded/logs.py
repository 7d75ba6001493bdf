"""Defines the logs of other programs that a protocol's mapping judges event by event, as if they were traces of ours.

Each is a module of traces/recorded/systems. It has `is_log(line)`, `read(lines)`, which raises ValueError, and RECORDED. What
`read` returns has `events`, and `options`: those of `trace check`, as they are typed.
"""

from importlib import import_module
from types import ModuleType

LOGS = ("etcd_raft",)


def named(name: str) -> ModuleType | None:
    """Return the module of a log; None if there is none of this name."""
    return import_module(f"highwater.traces.recorded.systems.{name}") if name in LOGS else None


def of_line(line: str) -> str:
    """Return the name of the log whose line this is; "" if it is of none."""
    return next((name for name in LOGS if import_module(f"highwater.traces.recorded.systems.{name}").is_log(line)), "")
