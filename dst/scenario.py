"""Define what a scenario is: all that the simulator, its search, campaigns and the command line ask of a protocol.

Each dst/scenarios/STEM.py ends with `SCENARIO = Scenario(...)`, its table of contents. Each dst/mutants/STEM.py ends with
`MUTANTS = Mutants(...)`. What several scenarios share stands here, and for clients at work in dst/actors.py.
"""

from collections.abc import Callable, Coroutine, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.store import SimulatedStore
from highwater.traces.event import Event

if TYPE_CHECKING:
    from highwater.dst.actors import Actors

Build = Callable[..., Any]  # makes one client's implementation of its World and what else the scenario's clients give it
Work = Callable[..., Coroutine[Any, Any, None]]  # what a client does: (actors, client, world, number of the client)
STORES = ("gcs", "azure", "r2", "minio-2025-08", "ceph", "strict-rfc9110")  # beside s3: those with conditional writes
SHORTEST_UNIT_MS = 60


class Shape(Protocol):
    """How large a run is: a NamedTuple of the scenario's own, every field with a default. These fields all shapes have."""

    @property
    def page_size(self) -> int:
        """How many keys a page of a listing holds."""
        ...

    @property
    def chaos(self) -> int:
        """After so many units of time (`unit_ms`) the faults stop."""
        ...

    @property
    def audit(self) -> bool:
        """Whether some clients work once more in the end, with nothing in their way."""
        ...

    @property
    def skew_ms(self) -> int:
        """How far a client's clock is ahead of the store's, or behind, at most."""
        ...

    @property
    def store(self) -> str:
        """The name of the store's profile, of dst/world/profiles.py."""
        ...

    @property
    def stall_ms(self) -> int:
        """The length that stalls are drawn around; 0: around each of the scenario's `waits_ms`."""
        ...

    @property
    def sdk(self) -> str:
        """The SDK between a client and the network, of dst/world/sdk.py; "": each request is sent once."""
        ...

    def _replace(self, **fields: Any) -> Self: ...

    def _asdict(self) -> dict[str, Any]: ...


COMMON = ("page_size", "chaos", "audit", "skew_ms", "store", "stall_ms", "sdk")


def unit_of_pauses_ms(shape: Any) -> int:
    """Measure time by the pause between two operations of a client."""
    return max(shape.pause_ms, SHORTEST_UNIT_MS)


def pause_and_timeout_ms(shape: Any) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS


def empty_store(store: SimulatedStore, shape: Any) -> None:
    """Begin with nothing in the store."""


def no_options(shape: Any) -> list[str]:
    return []


def no_moments(events: list[Event], shape: Any) -> set[str]:
    return set()


class Scenario(NamedTuple):
    """A protocol's clients, how large their runs are, and what judges them."""

    stem: str  # of dst/scenarios/STEM.py
    shape: type[Any]  # the NamedTuple of a run's size, a Shape
    draw_shape: Callable[..., Any]  # draw_shape(of) -> a shape; of(field, *values) is one of these values, drawn from the seed
    roles: Mapping[str, tuple[str, str]]  # role -> the fields of its shape: how many clients, how much each has to do
    most: Mapping[str, int]  # field of its shape -> at most so many, for the model is made for no more
    mildest: Any  # the shape that the shrinker makes a run's more like, sizes left out
    tiny: Any  # a shape that bounded search can go through
    length: Callable[[Any], int]  # about how many events a run of a shape has, without faults
    production: Build
    work: Mapping[str, Work]  # role -> what its clients do
    audit: tuple[tuple[str, ...], ...]  # who works once more after the faults, in turns of so many clients at once
    trace_of: Callable[[Any], Any]  # what judges the events of a run of a shape: traces/protocols/STEM.py
    final_check: Callable[["Actors", list[Event]], None]  # raises Failure: callers' history, and what only the end can show
    told: tuple[str, ...]  # what callers can be told
    optional: tuple[str, ...] = ()  # the roles that a run may be without
    unit_ms: Callable[[Any], int] = unit_of_pauses_ms  # the time by which phases and stalls are measured
    waits_ms: Callable[[Any], tuple[int, ...]] = pause_and_timeout_ms  # what the protocol and its callers wait by
    begin: Callable[[SimulatedStore, Any], None] = empty_store  # puts what is in the store before the first request
    trace_options: Callable[[Any], list[str]] = no_options  # the options of `trace check` for a recorded trace of a shape
    moments: tuple[str, ...] = ()  # what a campaign should reach, beside what every scenario has
    moments_of: Callable[[list[Event], Any], set[str]] = no_moments  # which of them a run of a shape has
    model: str = ""  # the stem of the model, where it is another protocol's
    needs: tuple[str, ...] | None = None  # what of a store it relies on beside GET, PUT and DELETE: "create" (PUT
    # If-None-Match), "update" (PUT If-Match), "cache" (GET If-None-Match), "list"; None: `store probe` does not judge it
    cost: Mapping[str, Any] = MappingProxyType({})  # contention -> the shape at which `highwater cost` measures a commit

    @property
    def protocol(self) -> str:
        """The stem of the protocol that it is a scenario of."""
        return self.model or self.stem


class Mutants(NamedTuple):
    """A protocol's known-bad clients."""

    builds: Mapping[str, tuple[str, Build]]  # name -> (what it does wrong, the Build that does it)
    oracles: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]  # name -> what the signatures of its failures begin with,
    # (by the model's judgement, by harm that callers came to); () where none is known


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
