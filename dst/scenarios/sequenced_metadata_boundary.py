"""Safety: none of its own; writers, collectors and readers that run impl/ unchanged, for traces/ to judge.

Each writer brings its updates home one after another: an update of unknown outcome is not repeated, one that surely did
not happen is. Collectors work in rounds. Readers read the current value. After the faults have stopped, and everything
still under way has arrived, one writer, reader and collector must each get on, and nothing stale may be left.
"""

from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

from dst.choose import Chooser
from dst.kernel import Client, Kernel
from dst.world.network import TIMEOUT_MS, offset_ms
from dst.world.profiles import PROFILES, Profile, scaled
from dst.world.sdk import IN_SIMULATION, SdkStore
from dst.world.store import NEW, S3_IN_MS, ClientClock, ClientStore, SimulatedStore
from impl import manifest_json
from impl.boundary_object import ObjectVersionBehindBoundary
from impl.errors import Definite, Indefinite
from impl.layout import Namespace
from impl.manifest_json import Checkpoint, Manifest
from impl.sequenced_metadata_boundary import MetadataStore
from impl.sequenced_storage import FIRST_ID
from impl.stores.verified import verified
from impl.world import World
from model.sequenced_metadata_boundary import Shared, latest, present
from traces import retries
from traces.bounds import too_many
from traces.event import Event
from traces.history import damage, too_young
from traces.linear import anomalies
from traces.refine import Failure, Refiner
from traces.sequenced_metadata_boundary import Trace, constants, refiner

MOST_WRITERS, MOST_COLLECTORS, MOST_READERS = 3, 2, 1  # the model is made for so many; a run may have fewer
Build = Callable[[World, Namespace, bool, int], MetadataStore]  # world, namespace, spare checkpoints, number of the client


Lifetime = int | None  # in ms, of the checkpoint that an update takes; None: it takes none; 0: for ever


class Shape(NamedTuple):
    """How large a run is, drawn from its seed unless given."""

    writers: int = 2
    commits: int = 3
    collectors: int = 1
    rounds: int = 1
    readers: int = 0
    reads: int = 0
    page_size: int = 1000
    min_age_ms: int = 150
    manifest: bool = False  # the namespace that has checkpoints
    think_ms: int = 300  # a writer's pause between two updates is at most so long
    chaos: int = 1000  # after so many times min_age the faults stop
    audit: bool = True  # in the end one more update, round of collection and read
    skew_ms: int = 0  # clients' clocks are at most so far ahead of the store's, or behind
    store: str = "s3"  # of dst/world/profiles.py
    stall_ms: int = 0  # stalls are drawn around this; 0: around each of waits_ms()
    sdk: str = ""  # of dst/world/sdk.py, between every client and the network; "": each request is sent once


def draw_shape(choose: Callable[[str, int], int]) -> Shape:
    def of(site: str, *values: int) -> int:
        return values[choose(f"shape.{site}", len(values))]

    readers = of("readers", 0, 1)
    return Shape(of("writers", 2, 3), of("commits", 2, 3, 4), of("collectors", 1, 2), of("rounds", 1, 2, 3), readers,
                 readers * of("reads", 1, 2, 3), of("page_size", 1000, 1000, 2), of("min_age_ms", 60, 150, 400),
                 bool(of("manifest", 0, 1)), of("think_ms", 1, 1, 300), of("chaos", 3, 30, 1000), bool(of("audit", 1, 0, 0, 0)),
                 of("skew_ms", 0, 50), of("store", "s3", "s3", "s3", "s3", *STORES), sdk=of("sdk", *NO_SDK, *DRAWN_SDKS))


SDKS = tuple(IN_SIMULATION)
DRAWN_SDKS = (*SDKS, "object_store")  # drawn twice as often: it reads back what it has sent but once
NO_SDK = ("",) * (2 * len(DRAWN_SDKS))  # most runs are without
SECOND_MS = 10  # of a run: its min_age, hours of real time, is some hundreds of ms
STORES = ("gcs", "azure", "r2", "minio-2025-08", "ceph", "strict-rfc9110")  # that have all that the protocol needs


@cache
def profile(shape: Shape) -> Profile:
    return scaled(PROFILES[shape.store], SECOND_MS) if shape.store != "s3" else S3_IN_MS


def store_of(shape: Shape, chooser: Chooser) -> SimulatedStore:
    """A store that is free to lag behind chooses on the tape. Pages that are empty though more follow are below the seam: who
    talks to such a store follows its token (impl/stores/s3.py)."""
    of = profile(shape)
    return SimulatedStore(shape.page_size, of._replace(empty_pages=False), chooser.stream("store") if of.stale else None)


def drawn_shape(seed: int) -> Shape:
    """Of the run of this seed, if none is given."""
    return draw_shape(Chooser(seed).stream("workload"))


def waits_ms(shape: Shape) -> tuple[int, ...]:
    """What the protocol and its callers wait by: min_age, a request's time-out, a checkpoint's lifetime, a poll."""
    return (shape.stall_ms,) if shape.stall_ms else (shape.min_age_ms, TIMEOUT_MS, 3 * shape.min_age_ms, shape.think_ms)


def length(shape: Shape) -> int:
    """About how many events happen in a run without faults: calibrated in tests."""
    return 6 * shape.writers * shape.commits + 6 * shape.collectors * shape.rounds + 4 * shape.readers * shape.reads


REFINERS: dict[tuple, Refiner] = {}  # what they have worked out of the model serves every run of the process


def trace_of(shape: Shape) -> Trace:
    page = shape.page_size if shape.page_size < 1000 else 0
    key = (page, shape.manifest, bool(shape.sdk))
    if key not in REFINERS:
        of = retries.refiner if shape.sdk else refiner
        REFINERS[key] = of(constants(MOST_WRITERS, MOST_COLLECTORS, MOST_READERS, page, shape.manifest))
    return (retries.RetryingTrace if shape.sdk else Trace)(REFINERS[key], namespace(shape), shape.skew_ms)


NAMESPACES = {True: Namespace("db", "manifest"), False: Namespace("db", "compactions")}


def namespace(shape: Shape) -> Namespace:
    return NAMESPACES[shape.manifest]


class Codec:
    """manifest_json, which is a function of its argument, and so asked for each value once in a process."""

    referenced = staticmethod(manifest_json.referenced)
    encode = staticmethod(lru_cache(100_000)(manifest_json.encode))
    decode = staticmethod(lru_cache(100_000)(manifest_json.decode))


def production(world: World, where: Namespace, spare_checkpoints: bool, client: int) -> MetadataStore:
    return MetadataStore(world, where, Codec, spare_checkpoints)


class QuietMetrics:
    def count(self, name: str, amount: int = 1) -> None:
        pass

    def observe(self, name: str, value: float) -> None:
        pass

    def warn(self, message: str) -> None:
        pass


STORE, METRICS = ClientStore(), QuietMetrics()  # they hold nothing


class Actors:
    """The clients of one run and their workloads."""

    def __init__(self, kernel: Kernel, store: SimulatedStore, shape: Shape, choose: Callable[[str, int], int],
                 trace: Trace | None, tell: Callable[[Event], None], build: Build):
        self.kernel, self.shape, self.choose, self.trace, self.tell, self.build = kernel, shape, choose, trace, tell, build
        self.store, self.begun, self.told = store, 0, []
        self.namespace = namespace(shape)
        store.put(self.namespace.key(FIRST_ID), Codec.encode(Manifest()), 0)
        roles = (("Writer", shape.writers, shape.commits), ("Collector", shape.collectors, shape.rounds),
                 ("Reader", shape.readers, shape.reads))
        self.left = {f"{role}#{i}": amount for role, number, amount in roles for i in range(number)}
        self.clients = [self._client(name) for name in self.left]
        self.auditing = False

    def _client(self, name: str) -> Client:
        skew_ms = self.shape.skew_ms
        return Client(name, offset_ms(self.choose, f"{name}.skew", skew_ms) if skew_ms else 0)

    def start(self, client: Client) -> None:
        """Begin, or begin again after a crash, with what is left to do, and knowing nothing."""
        world = World(STORE, ClientClock(self.kernel, client), None, METRICS)
        if self.shape.sdk:
            world = self._retrying(world, client.name)
        role, _, number = client.name.partition("#")
        store = self.build(world, self.namespace, self.shape.manifest, int(number))
        self.kernel.start(client, WORK[role](self, client, world, store))

    def _retrying(self, world: World, client: str) -> World:
        """Its requests may be sent again; so what it is told of its creates is verified."""
        policy = IN_SIMULATION[self.shape.sdk]
        sdk = SdkStore(world.store, world.clock, policy, self.choose, client)
        return verified(world._replace(store=sdk), self.namespace, silent=not policy.tells)

    def _told(self, client: Client, op: str, body: bytes, file_id: int = 0) -> None:
        key = self.namespace.key(file_id) if file_id else ""
        event = NEW(Event, (self.kernel.now_ms, 0, client.name, "told", op, key, "", 0, "", body, (), False, True, False))
        self.told.append(event)
        self.tell(event)

    async def writer(self, client: Client, world: World, store: MetadataStore) -> None:
        while self.left[client.name]:
            self.left[client.name] -= 1  # begun: not repeated after a crash
            update = self.name_update(client.name)
            lifetime_ms = self._lifetime_ms(client)

            def change(next_id: int, manifest: Manifest, update: str = update, lifetime: Lifetime = lifetime_ms) -> Manifest:
                after = manifest.with_update(update)
                if lifetime is None:
                    return after
                expiry_ms = lifetime and self.kernel.now_ms + lifetime
                return after.with_checkpoint(Checkpoint(update, next_id, expiry_ms))

            while True:
                try:
                    committed = await store.update(change)
                    self._told(client, "committed", update.encode(), committed.id)
                except Definite:
                    self._told(client, "failed", update.encode())
                    continue
                except ObjectVersionBehindBoundary:
                    self._told(client, "refused", update.encode())
                except Indefinite:
                    self._told(client, "unknown", update.encode())
                break
            if self.left[client.name] and self.shape.think_ms > 1:
                await world.clock.sleep_ms(self.choose(f"{client.name}.think", self.shape.think_ms))

    def name_update(self, writer: str) -> str:
        """As the model counts them, so that bodies, and what was worked out for them, recur in many runs."""
        self.begun += 1
        return f"{writer.partition('#')[2]}.{self.trace.refiner.local(writer).k if self.trace else self.begun}"

    def _lifetime_ms(self, client: Client) -> Lifetime:
        if not self.shape.manifest:
            return None
        age_ms = self.shape.min_age_ms
        return (None, None, None, 0, age_ms, 3 * age_ms)[self.choose(f"{client.name}.checkpoint", 6)]

    async def collector(self, client: Client, world: World, store: MetadataStore) -> None:
        while self.left[client.name]:
            self.left[client.name] -= 1
            await world.clock.sleep_ms(self._pause_ms(client))
            try:
                await store.collect(self.shape.min_age_ms)
            except (Definite, Indefinite):
                continue  # the next round begins anew

    async def reader(self, client: Client, world: World, store: MetadataStore) -> None:
        while self.left[client.name]:
            self.left[client.name] -= 1
            await world.clock.sleep_ms(self._pause_ms(client))
            try:
                file_id, manifest = await store.current()
            except Definite:
                continue
            self._told(client, "read", Codec.encode(manifest), file_id)

    def _pause_ms(self, client: Client) -> int:
        if self.auditing:
            return 4 * self.shape.min_age_ms + 2 * self.shape.skew_ms + 1  # everything is old; checkpoints are over
        return self.shape.min_age_ms // 2 + self.choose(f"{client.name}.pause", 2 * self.shape.min_age_ms)

    # --- when the faults have stopped

    def who_retires(self) -> list[Client]:
        """Of one run in four, a random set: the others have to get on without them."""
        some = self.choose("retire", 4) == 3
        return [client for client in self.clients if some and self.choose(f"{client.name}.retires", 2)]

    def unfinished(self) -> list[str]:
        return [client.name for client in self.clients if not client.done]

    def begin_audit(self) -> None:
        """One more update, then, when everything is old enough, one more round and one more read."""
        self.auditing = True
        self._once("Writer#0")

    def continue_audit(self) -> None:
        self._once("Collector#0")
        if self.shape.readers:
            self._once("Reader#0")

    def _once(self, name: str) -> None:
        client = next(client for client in self.clients if client.name == name)
        self.left[name] = 1
        self.start(client)

    def final_check(self, events: list[Event]) -> None:
        """Of the callers' history; and: «Eventually the garbage collector will LIST and notice the conflicting file,
        cleaning it up.» (source 004)"""
        files = [key for key in self.store.keys if key.startswith(self.namespace.prefix)]
        if not files:
            raise Failure("safety", "history:nothing left", "there is no file left")
        final = self.store.objects[files[-1]][0].body
        found = damage(self.told, self.namespace, final) or \
            anomalies(events, self.namespace, self.namespace.file_id(files[-1]), final)
        if found:
            raise Failure("safety", f"history:{found[0].partition(':')[0]}", "; ".join(found))
        young = self.trace and too_young(events, self.namespace, self.shape.min_age_ms - self.shape.skew_ms
                                     - self.store.profile.last_modified_ms + 1)
        if young:
            raise Failure("safety", "history:too young", young)
        many = self.trace and too_many(events, self.namespace, bool(self.shape.sdk))  # slow, and no harm to a caller
        if many:
            raise Failure("liveness", "liveness:requests", many)
        if self.trace and self.shape.audit:
            self._nothing_stale(self.trace.refiner.shared())

    @staticmethod
    def _nothing_stale(shared: Shared) -> None:
        kept = latest(shared).checkpoints - shared.expired
        stale = [i for i in range(1, shared.high) if present(shared, i) and i not in kept]
        if stale:
            raise Failure("liveness", "liveness:stale", f"after the last round of collection ids {stale} are still there, "
                          "though neither the latest nor held by an active checkpoint")


WORK = {"Writer": Actors.writer, "Collector": Actors.collector, "Reader": Actors.reader}
