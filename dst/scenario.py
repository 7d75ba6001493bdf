"""Define a scenario: everything that the simulator, its search, campaigns and the command line need to know about a protocol.

Each dst/scenarios/STEM.py ends with `SCENARIO = Scenario(...)`. Each dst/mutants/STEM.py ends with `MUTANTS = Mutants(...)`.
Code that several scenarios share is here; code of running clients is in dst/actors.py.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeVar, cast

from highwater.dst.script import Script
from highwater.dst.sim.kernel import Client
from highwater.dst.world.faults import Weights
from highwater.dst.world.network import TIMEOUT_MS
from highwater.dst.world.node_faults import HARDWARE, AnyWeights, Hardware, NodeWeights
from highwater.dst.world.profiles import Profile
from highwater.dst.world.store import SimulatedStore, profile_of
from highwater.dst.world.tampering import DAMAGE, Breach
from highwater.messages import meant
from highwater.traces.event import Event
from highwater.traces.store import Rules, Store

if TYPE_CHECKING:
    from highwater.dst.actors import Actors

Build = Callable[..., Any]  # makes one client's implementation of its World and the scenario's further arguments
Work = Callable[["Actors", Client, Any, int], Coroutine[Any, Any, None]]  # a client's workload in its World or NodeWorld
Value = TypeVar("Value")
STORES = ("gcs", "azure", "r2", "minio-2025-08", "ceph", "strict-rfc9110")  # beside s3: those with conditional writes
SHORTEST_UNIT_MS = 60
RARELY = 4  # one run in so many has a rare setting
CACHED = 100_000  # contents
PATIENCE = {"patience_ms": 300}
USUAL = 100  # but none of the first seeds, so that examples stay as they are


def rarely(*broken: str) -> tuple[Mapping[str, Any], ...]:
    """Return rare settings: callers that cancel, and each of these breaks."""
    return PATIENCE, *({"broken": name, "page_size": 2} for name in broken)


class Cached:
    """The functions of a codec. Their results are kept for the process, because every run has the same contents."""

    def __init__(self, codec: Any):
        self.encode, self.decode = lru_cache(CACHED)(codec.encode), lru_cache(CACHED)(codec.decode)


RARE = rarely(*DAMAGE)  # for `rare` of a scenario with numbered files


class Draw(Protocol):
    """Draws a field of a shape from the seed."""

    def __call__(self, field: str, /, *values: Value) -> Value:
        """Return one of the values."""
        ...


@dataclass(frozen=True, kw_only=True)
class BaseShape:
    """The size of a run. A scenario's Shape adds fields of its own; these fields all shapes have. Each has a default."""

    page_size: int = 1000  # keys in a page of a listing
    chaos: int = 30  # the faults stop after this number of time units (`unit_ms`)
    audit: bool = True  # at the end some clients do one more operation, without faults
    skew_ms: int = 0  # largest difference between a client's clock and the store's, in either direction
    store: str = "s3"  # name of a profile in dst/world/profiles.py
    stall_ms: int = 0  # length around which stalls are drawn; 0: around each of the scenario's `waits_ms`
    sdk: str = ""  # name of an SDK in dst/world/sdk.py, for every client; "": each request is sent once, and no error says so
    broken: str = ""  # a promise of the environment that is broken in the run: one of the scenario's `breaks`
    patience_ms: int = 0  # a caller cancels a call after a time below this; 0: it waits for every call

    @classmethod
    def drawn(cls, draw: Draw, **values: tuple[Any, ...]) -> Self:
        """Draw each of the named fields, in this order, from its values. The other fields keep their defaults."""
        return cls(**{field: draw(field, *those) for field, those in values.items()})

    def _replace(self, **fields: Any) -> Self:
        return replace(self, **fields)

    def _asdict(self) -> dict[str, Any]:
        """Return field -> value: first the fields that the scenario declares, then the others."""
        names = [field.name for field in fields(self)]  # a ClassVar has an annotation, too, and is no field
        first = [name for name in type(self).__annotations__ if name in names]
        return {name: getattr(self, name) for name in dict.fromkeys((*first, *names))}


def unit_of_pauses_ms(shape: Any) -> int:
    """Measure time by the pause between two operations of a client."""
    return max(shape.pause_ms, SHORTEST_UNIT_MS)


def pause_and_timeout_ms(shape: Any) -> tuple[int, ...]:
    return shape.pause_ms, TIMEOUT_MS


def usual_hardware(shape: Any) -> Hardware:
    return HARDWARE["usual"]


def all_retire(shape: Any) -> int:
    return 1 << 40


def empty_store(store: SimulatedStore, shape: Any) -> None:
    """Begin with an empty store."""


def no_options(shape: Any) -> list[str]:
    return []


def no_moments(events: list[Event], shape: Any) -> set[str]:
    return set()


class Scenario(NamedTuple):
    """The clients of a protocol, the sizes of their runs, and the oracles that judge them."""

    stem: str  # of dst/scenarios/STEM.py
    shape: type[Any]  # the scenario's own BaseShape
    draw_shape: Callable[[Draw], BaseShape]  # called with a function that draws one of several values from the seed
    roles: Mapping[str, tuple[str, str]]  # role -> the fields of its shape: number of clients, operations of each
    most: Mapping[str, int]  # field of its shape -> its largest value: the model is made for no more
    mildest: BaseShape  # the shape towards which the shrinker changes a run's, apart from sizes
    tiny: BaseShape  # a shape that bounded search can exhaust
    length: Callable[[Any], int]  # about how many events a run has without faults
    production: Build
    work: Mapping[str, Work]  # role -> its clients' workload
    audit: tuple[tuple[str, ...], ...]  # clients of the audit, in turns of clients that work together
    trace_of: Callable[[Any], Any]  # makes the judge of a shape's events: traces/protocols/STEM.py
    final_check: Callable[["Actors", list[Event]], None]  # raises Failure: callers' history and the final state
    told: tuple[str, ...]  # the kinds of response to callers
    optional: tuple[str, ...] = ()  # roles that a run may leave out
    unit_ms: Callable[[Any], int] = unit_of_pauses_ms  # the unit of phases and stalls
    waits_ms: Callable[[Any], tuple[int, ...]] = pause_and_timeout_ms  # the protocol's and its callers' waiting times
    begin: Callable[[SimulatedStore, Any], None] = empty_store  # fills the store before the first request
    trace_options: Callable[[Any], list[str]] = no_options  # the options of `trace check` for a trace of a shape
    moments: tuple[str, ...] = ()  # witnesses of its own that a campaign should reach
    moments_of: Callable[[list[Event], Any], set[str]] = no_moments  # the witnesses that a run reached
    model: str = ""  # the stem of the model, if it is another protocol's
    breaks: Mapping[str, Breach] = MappingProxyType({})  # name -> what breaks a promise of the environment: such a run is
    # judged by `final_check` alone, without the model
    rare: tuple[Mapping[str, Any], ...] = ()  # settings of a shape, of which one run in RARELY has one, from seed USUAL on
    needs: tuple[str, ...] | None = None  # requests that it needs beside GET, PUT and DELETE: "create" (PUT
    # If-None-Match), "update" (PUT If-Match), "cache" (GET If-None-Match), "list"; None: `store probe` does not judge it
    share: float = 1  # times the seeds that the gate has for a scenario: less where a run takes many times as long, more where
    # much may happen between two messages
    scripts: tuple[Script, ...] = ()  # what one client alone is answered: dst/script.py
    nodes: tuple[str, ...] = ()  # roles whose clients are nodes: each has a NodeWorld, so a disk and messages, and no store
    hardware: Callable[[Any], Hardware] = usual_hardware  # how long disks and messages take, for a scenario of nodes
    shows_io: bool = True  # whether traces of nodes have their messages and the operations of their disks
    may_retire: Callable[[Any], int] = all_retire  # how many clients may retire; the others must finish without them
    cost: Mapping[str, BaseShape] | None = None  # contention -> the shape at which `highwater cost` measures a commit; {}: it
    # has no commits; None: one client of the first role, and as many as `most` has

    @property
    def protocol(self) -> str:
        """Return the stem of the protocol that it is a scenario of."""
        return self.model or self.stem

    @property
    def weights(self) -> type[Weights] | type[NodeWeights]:
        """Return the type of its faults' weights."""
        return NodeWeights if self.nodes else Weights

    @property
    def no_faults(self) -> AnyWeights:
        return self.weights(*[0] * len(self.weights._fields))

    def judge(self, shape: Any) -> Any:
        """Make the judge of a whole run of this shape: it knows the store's profile, and the objects that it begins with."""
        trace, store = self.trace_of(shape), SimulatedStore(profile=profile_in(shape))
        self.begin(store, shape)
        trace.store = judge_of(store)
        return trace


def judge_of(store: SimulatedStore) -> Store:
    """Make the judge of the store's replies from now on."""
    return Store(rules_of(store.profile), {key: (of.version, of.body) for key, (of, _, _) in store.objects.items()})


@cache
def rules_of(of: Profile) -> Rules:
    """Return the rules of a profile's store."""
    return Rules((of.create_exists,), (of.update_stale,), (of.update_missing,), (of.delete_missing,),
                 "digest" if of.version == "digest" else "unique", of.lexicographic, of.empty_pages, of.stale)


def profile_in(shape: BaseShape) -> Profile:
    """Return the profile of a run's store.

    Empty pages before the last one are below the seam: a real client follows the store's continuation token
    (impl/stores/s3.py)."""
    return profile_of(shape.store)._replace(empty_pages=False)


class Mutants(NamedTuple):
    """The known-bad clients of a protocol."""

    builds: Mapping[str, tuple[str, Build]]  # name -> (its bug, the Build that has it)
    oracles: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]  # name -> prefixes of the signatures of its failures,
    # (judged by the model, judged by harm to callers); () if none is known


def shape_of(scenario: Scenario, seed: int, draw: Draw, rarely: Callable[[str, int], int]) -> Any:
    """Draw the shape of a run. `rarely` is a stream of its own, so that rare settings change no other choice."""
    shape, rare = scenario.draw_shape(draw), scenario.rare
    number = rarely("shape.rare", RARELY * len(rare)) if rare and seed >= USUAL else 0
    return shape._replace(**rare[number - 1]) if 0 < number <= len(rare) else shape


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


# --- what a scenario may get wrong

REQUESTS = ("create", "update", "cache", "list")  # in `needs`


def contradiction(of: Scenario) -> str:
    """Return which parts of a scenario do not fit together, and what to write; "" if all do."""
    if not isinstance(of.shape, type):  # pyright: ignore[reportUnnecessaryIsInstance]
        return f"shape is {of.shape!r}: write the class"
    for part in ("draw_shape", "length", "production", "trace_of", "final_check"):
        if not callable(getattr(of, part)):
            return f"{part} is {getattr(of, part)!r}: write a function"
    known, drawn = [field.name for field in fields(of.shape)], {}
    for part, names in (("roles", [name for pair in of.roles.values() for name in pair]), ("most", of.most)):
        if strange := [name for name in names if name not in known]:
            return (f"{part} names {strange[0]!r}{meant(strange[0], known)}, which is no field of {of.shape.__name__}: "
                    f"{', '.join(known)}")
    if of.work.keys() != of.roles.keys():
        return f"work is of {', '.join(of.work)}, and roles of {', '.join(of.roles)}: name the same roles"
    if strange := [role for role in of.optional if role not in of.roles]:
        return f"optional names {strange[0]!r}{meant(strange[0], of.roles)}, which is none of the roles {', '.join(of.roles)}"
    for turn in of.audit:
        if isinstance(turn, str) or any(client.partition("#")[0] not in of.roles for client in turn):
            such = f'(("{next(iter(of.roles))}#0",),)'
            return f"audit has {turn!r}: write tuples of clients of {', '.join(of.roles)}, such as {such}"
    if isinstance(of.told, str) or not of.told:
        return f"told is {of.told!r}: write a tuple of the words that callers are told"
    if strange := [request for request in of.needs or () if request not in REQUESTS]:
        return f"needs names {strange[0]!r}{meant(strange[0], REQUESTS)}, which is none of {', '.join(REQUESTS)}"

    def draw(field: str, *values: Value) -> Value:
        drawn[field] = values
        return values[0]

    shape = of.draw_shape(draw)
    if not isinstance(shape, of.shape):
        return f"draw_shape returns {shape!r}, and not a {of.shape.__name__}: is a `return` missing?"
    for field, default in of.shape()._asdict().items():
        if strange := [value for value in drawn.get(field, ()) if isinstance(value, str) != isinstance(default, str)]:
            return f"draw_shape draws {strange[0]!r} for {field}, whose default is {default!r}"
    beyond = [name for name, most in of.most.items() if any(value > most for value in drawn.get(name, ()))]
    if beyond:
        return f"draw_shape draws {beyond[0]} up to {max(drawn[beyond[0]])}, and most has {of.most[beyond[0]]}: raise most"
    largest = of.shape()._replace(**of.most)
    trace = of.trace_of(largest)
    if isinstance(getattr(trace, "namespace", None), str):
        return f"the trace of trace_of has the keys {trace.namespace!r}: write Keys(PREFIX, ..) of highwater.traces.form"
    for role, (number, _) in of.roles.items():
        last = f"{role}#{max(getattr(largest, number), 1) - 1}"
        if last not in trace.refiner.index and not (trace.collector and role.startswith(trace.collector)):
            return f"the model of trace_of has no client {last}, only {', '.join(filter(None, trace.refiner.index))}"
    return trace.refiner.malformed_property()


def contradiction_of_mutants(of: Mutants) -> str:
    """Return what is wrong with a table of mutants; "" if nothing is."""
    if lacking := [name for name in of.builds if name not in of.oracles]:
        return f"oracles has no {lacking[0]!r}: write (prefixes by the model, prefixes by harm), each a tuple, perhaps empty"
    if strange := [name for name in of.oracles if name not in of.builds]:
        return f"oracles has {strange[0]!r}, and builds has not"
    for name, build in cast("Mapping[str, Any]", of.builds).items():
        if not (isinstance(build, tuple) and len(build) == 2 and callable(build[1])):
            return f"{name!r} is {build!r}: write (its bug, what makes a client)"
    for name, prefixes in of.oracles.items():
        if len(prefixes) != 2 or any(isinstance(part, str) for part in prefixes):
            return f"the oracle of {name!r} is {prefixes!r}: write two tuples of prefixes, such as ((\"refinement:put\",), ())"
    return ""
