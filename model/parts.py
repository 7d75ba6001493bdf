"""Bookkeeping that several models share: bounds, requests in flight, lost responses, crashes, files by id, processes.

Only bookkeeping that no spec tells apart stands here. What a protocol does is in model/protocols/STEM.py. The functions expect
the names that all models use: `pool`, `lost`, `crashes` and `files` in the shared state, MAX_LOST and MAX_CRASHES among the
constants. A bound of None means unbounded and not counted.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from highwater.model.core import Action, Local, Process, Property, Shared

MANY = range(101)  # the values in LIMITS of a number that has no smaller limit
Constants = Any
Request = Any  # in flight: its client no longer waits for it


# --- bounds

def below(used: int, bound: int | None) -> bool:
    """Tell whether one more is allowed; always if the bound is None."""
    return bound is None or used < bound


def one_more(used: int, bound: int | None) -> int:
    """Count one more; not if the bound is None, so that the state stays small."""
    return 0 if bound is None else used + 1


# --- faults

def reply_lost(c: Constants, s: Shared) -> Shared:
    """Count one more lost reply."""
    return s._replace(lost=one_more(s.lost, c.MAX_LOST))


def crashed(c: Constants, s: Shared) -> Shared:
    """Count one more crash."""
    return s._replace(crashes=one_more(s.crashes, c.MAX_CRASHES))


# --- requests in flight: applied at any later time, or never

def pooled(s: Shared, request: Request) -> Shared:
    """Add a request to a sorted pool."""
    return s._replace(pool=tuple(sorted((*s.pool, request))))


def in_pool(s: Shared) -> Iterator[tuple[Request, Shared]]:
    """Yield each different request of a sorted pool, and the shared state once it has left the pool."""
    for request in sorted(set(s.pool)):
        at = s.pool.index(request)
        yield request, s._replace(pool=s.pool[:at] + s.pool[at + 1:])


def queued(s: Shared, request: Request) -> Shared:
    """Add a request to a pool in order of sending."""
    return s._replace(pool=(*s.pool, request))


def in_queue(s: Shared) -> Iterator[tuple[int, Request, Shared]]:
    """Yield the place of each request of a pool in order of sending, the request, and the shared state without it."""
    for at, request in enumerate(s.pool):
        yield at, request, s._replace(pool=s.pool[:at] + s.pool[at + 1:])


# --- files by id: the file of id i is files[i - 1], None or () where there is none

def top(files: tuple) -> int:
    """The largest id present, 0 if none is."""
    return next((i for i in range(len(files), 0, -1) if files[i - 1]), 0)


def with_file(files: tuple, i: int, file: Any, absent: tuple | None = None) -> tuple:
    """The same files with `file` under id i; `absent` stands for a file that is not there."""
    files += (absent,) * (i - len(files))
    return (*files[:i - 1], file, *files[i:])


def present(s: Shared, i: int) -> bool:
    return 1 <= i <= len(s.files) and s.files[i - 1] is not None


def file_of(s: Shared, i: int) -> Any:
    """Return the file of an id that is present."""
    file = s.files[i - 1]
    assert file is not None
    return file


# --- clients of abstract models, whose fields are sets of facts

def forget(c: Constants, me: int, s: Shared, w: Local) -> Iterator:
    for field, facts in zip(w._fields, w):
        for fact in sorted(facts, key=str):
            yield (field, fact), s, w._replace(**{field: facts - {fact}})


# --- what a Model is made of

def clients(*roles: tuple[str, int, Local, dict[str, Action]]) -> tuple[Process, ...]:
    """The processes Writer#0, Writer#1, .. of each (role, number, initial local state, actions)."""
    return tuple(Process(f"{role}#{i}", role, i, local, actions)
                 for role, number, local, actions in roles for i in range(number))


def store(actions: dict[str, Action]) -> Process:
    """The process that is no client: its actions are top-level actions of the spec."""
    return Process("", "", 0, (), actions)


def all_but(properties: dict[str, Property], absent: Iterable[str]) -> dict[str, Property]:
    """The properties without those named: an instance that cannot witness them does not ask for them."""
    absent = set(absent)
    return {name: prop for name, prop in properties.items() if name not in absent}
