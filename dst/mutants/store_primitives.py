"""Layers between a client and its store that break a promise of the store. Simulation must find each of them.

They represent faulty stores and proxies: an emulated condition, a cache, an SDK that reports success without a response.
"""

from collections.abc import Callable
from typing import Any

from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.store_primitives import Shape
from highwater.impl.errors import AlreadyExists, NotFound, OutcomeUnknown, PreconditionFailed
from highwater.impl.world import Object, ObjectStore, Page, World


class Layer:
    """Passes every request to the store."""

    caches = False

    def __init__(self, store: ObjectStore):
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)


class CreateByLooking(Layer):
    async def create(self, key: str, body: bytes) -> str:
        try:
            await self.store.get(key)
        except NotFound:
            return await self.store.put(key, body)
        raise AlreadyExists(key)


class UpdateByLooking(Layer):
    async def update(self, key: str, body: bytes, version: str) -> str:
        found = await self.store.get(key)
        if found.version != version:
            raise PreconditionFailed(key)
        return await self.store.put(key, body)


class BlindUpdate(Layer):
    async def update(self, key: str, body: bytes, version: str) -> str:
        return await self.store.put(key, body)


class SilenceIsSuccess(Layer):
    async def put(self, key: str, body: bytes) -> str:
        try:
            return await self.store.put(key, body)
        except OutcomeUnknown:
            return (await self.store.get(key)).version


class CachedReads(Layer):
    """Answers all later reads of a key with the first content that it read."""

    def __init__(self, store: ObjectStore):
        super().__init__(store)
        self.read: dict[str, Object] = {}

    async def get(self, key: str) -> Object:
        if key not in self.read:
            self.read[key] = await self.store.get(key)
        return self.read[key]


class NeverChanged(Layer):
    async def get_if_changed(self, key: str, version: str) -> None:
        return None


class CachedListing(Layer):
    def __init__(self, store: ObjectStore):
        super().__init__(store)
        self.listed: Page | None = None

    async def list_page(self, prefix: str, after: str = "") -> Page:
        self.listed = self.listed or await self.store.list_page(prefix, after)
        return self.listed


def above(layer: type[Layer]) -> Callable[[World, Shape, int], Layer]:
    return lambda world, shape, number: layer(world.store)


BUILDS = {  # name -> (its bug, its Build)
    "create_by_looking": ("PUT If-None-Match is emulated: GET, and PUT if the object does not exist", above(CreateByLooking)),
    "update_by_looking": ("PUT If-Match is emulated: GET, and PUT if the version is the expected one", above(UpdateByLooking)),
    "blind_update": ("the condition of an update is ignored", above(BlindUpdate)),
    "silence_is_success": ("a PUT without a response is reported as stored", above(SilenceIsSuccess)),
    "cached_reads": ("a cache answers reads", above(CachedReads)),
    "never_changed": ("GET If-None-Match is always answered 304", above(NeverChanged)),
    "cached_listing": ("a cache answers listings", above(CachedListing)),
}
HARM = ("history:not linearizable",)
# name -> prefixes of its signatures: by model; by harm
ORACLES = dict.fromkeys(BUILDS, (("told:", "refinement:Client.", *HARM), HARM))
MUTANTS = Mutants(BUILDS, ORACLES)
