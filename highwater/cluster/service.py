"""Defines what a cluster serves: a machine whose commands, results and queries are bytes, for clients in other processes."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from highwater.impl.raft.machine import Machine


class BadService(Exception):
    """The file does not define a service; the message says why."""


class Service(NamedTuple):
    """A machine with bytes as results, and a pure function that answers queries on its state.

    A command that raises when the leader tries it, or that the machine's own check refuses, is not proposed. One that raises
    when it is applied stops each node that comes to it. A query that raises is an error to its caller alone.
    """

    machine: Machine
    query: Callable[[Any, bytes], bytes]


def loaded(place: str) -> Service:
    """Return the service that "FILE.py:NAME" names. Raises BadService."""
    file, separator, name = place.rpartition(":")
    if not separator or not Path(file).is_file():
        raise BadService(f"{place!r}: write FILE.py:NAME, with a file that is there")
    spec = importlib.util.spec_from_file_location(f"highwater_service_{Path(file).stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadService(f"{file} cannot be imported: {type(error).__name__}: {error}") from error
    service = getattr(module, name, None)
    if not isinstance(service, Service):
        raise BadService(f"{file} has no Service of the name {name!r}")
    return service
