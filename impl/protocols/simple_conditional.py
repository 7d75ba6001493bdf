"""Safety: an update that was reported as committed was computed from the content that it replaced, and is in it once.

Source 004's simple conditional protocol: one object is the whole database. GET it, apply the update, PUT it If-Match the
version that was read; «On a conditional write failure, the conflicting data is re-read, conflicts are resolved, and then the
write is retried». After a PUT a writer knows content and version, and «doesn't need an additional GET to write again».
model/protocols/simple_conditional.py, request by request.

Versions may be digests of the content, as S3's are: then a condition holds also where others have written and the content is
the same again (ABA). So it never is: a value holds the id of the update that made it, which none before it held (docs/aba.md).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from highwater.impl.codecs.json import manifest as manifest_json
from highwater.impl.errors import AlreadyExists, Definite, OutcomeUnknown, PreconditionFailed
from highwater.impl.world import World


class UpdateConflict(Definite):
    """Others were faster, so many times over: nothing of this update is applied."""


class Content(NamedTuple):
    value: Any
    version: str


class SimpleConditional:
    """The object `key` for one client. `codec` encodes and decodes its values.

    `resolve` says what is done about a PUT without a reply. "unknown": the caller is told so, and nothing repeats it. "check":
    the content is read again; if the value's `updates` hold this update's id it is committed, else it is applied once more.
    That cannot apply it twice as long as no id ever leaves the value: each PUT names a version that only the first can meet.

    `recurs`: values may come again that were there before, so they need not hold ids; a condition then says only that the
    content is equal, and a PUT without a reply may take effect long after others have written.
    """

    def __init__(self, world: World, key: str, codec: Any = manifest_json, resolve: str = "unknown", recurs: bool = False):
        if world.store.caches:
            raise ValueError(f"{type(world.store).__name__} answers reads from memory: after a conflict the content must be "
                             "read anew; give the store that it wraps")
        if resolve not in ("unknown", "check"):
            raise ValueError(f"resolve is {resolve!r}: accepted are 'unknown' and 'check'")
        if recurs and resolve == "check":
            raise ValueError("recurs with resolve 'check': a value that holds no ids does not tell whether an update is in it")
        self.world, self.key, self.codec, self.resolve, self.recurs = world, key, codec, resolve, recurs
        self.known: Content | None = None  # the latest, as far as this client has put or read it for an update

    async def initialise(self, value: Any) -> None:
        """Create the object, if there is none. Raises OutcomeUnknown, Unavailable."""
        try:
            await self.world.store.create(self.key, self.codec.encode(value))
        except AlreadyExists:
            pass

    async def current(self) -> Content:
        """GET, for a reader. Raises NotFound, Unavailable."""
        found = await self.world.store.get(self.key)
        return Content(self.codec.decode(found.body), found.version)

    async def update(self, update: str, change: Callable[[Any], Any], attempts: int | None = None) -> Content:
        """Apply `change` to the content, again to what is there after each conflict («resolved»). `change` must put the id
        `update`, never used before, into the value's `updates`.

        Returns a content that holds it. A Definite error: nothing of it is applied, and never will be (UpdateConflict after so
        many `attempts`). OutcomeUnknown: it may be applied, now or later.
        """
        doubt, left = False, attempts
        while True:
            try:
                if self.known is None:
                    self.known = await self.current()
                if doubt and update in self.known.value.updates:
                    return self.known
                self.known = await self._put(self._changed(update, change))
                return self.known
            except PreconditionFailed:
                self.known = None
                self.world.metrics.count("update_conflicts")
            except OutcomeUnknown:
                self.known = None
                if self.resolve == "unknown":
                    raise
                self.world.metrics.count("updates_in_doubt")
                doubt = True
            except Exception as error:  # the change's own, too: of this PUT nothing is applied, but perhaps of one before it
                if doubt:
                    self.known = None
                    raise OutcomeUnknown(f"update {update!r} of {self.key!r} stays in doubt: {error}") from error
                raise
            left = None if left is None else left - 1
            if left == 0:
                raise self._given_up(update, doubt, attempts)

    def _changed(self, update: str, change: Callable[[Any], Any]) -> Any:
        assert self.known is not None, "it was read before"
        value = change(self.known.value)
        if not self.recurs and update not in value.updates:
            raise ValueError(f"update {update!r} is not among the updates of the value that it makes: its bytes could be there "
                             "again, and after a lost reply nobody could tell whether it was applied")
        return value

    async def _put(self, value: Any) -> Content:
        assert self.known is not None, "it was read before"
        return Content(value, await self.world.store.update(self.key, self.codec.encode(value), self.known.version))

    def _given_up(self, update: str, doubt: bool, attempts: int | None) -> Exception:
        what = f"update {update!r} of {self.key!r}: {attempts} attempts"
        if doubt:
            return OutcomeUnknown(f"{what}, one of them without a reply: it may be applied now or later")
        return UpdateConflict(f"{what}, and another client was faster each time: try again, or later")
