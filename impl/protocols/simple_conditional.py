"""Safety: an update that was reported as committed was computed from the content that it replaced, and is in it once.

This is the simple conditional protocol of the essay on object-store protocols: one object is the whole database. GET it, apply
the update, and PUT it If-Match the version that was read. «On a conditional write failure, the conflicting data is re-read,
conflicts are resolved, and then the write is retried». After a PUT a writer knows content and version, and «doesn't need an
additional GET to write again». The code follows model/protocols/simple_conditional.py request by request.

Versions may be digests of the content, as on S3. Then a condition also holds after others have written, if the content is the
same again (ABA). Here it never is: a value holds the id of the update that made it, and no earlier value did
(docs/operating/aba.md).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from highwater.impl.codecs.codec import Codec
from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.errors import AlreadyExists, OutcomeUnknown, PreconditionFailed, UpdateConflict
from highwater.impl.world import World


class Content(NamedTuple):
    """The content of the object, with its version."""

    value: Any
    version: str


class SimpleConditional:
    """The object `key`, as one client uses it. `codec` encodes and decodes its values.

    `resolve` says how a PUT without a reply is handled. With "unknown" the caller is told, and nothing repeats it. With "check"
    the content is read again. If the value's `updates` hold this update's id, it is committed; otherwise it is applied once
    more. That cannot apply it twice as long as no id leaves the value: each PUT names a version that only the first one can
    meet.

    `recurs` says that earlier values may recur, so they need not hold ids. A condition then says only that the content is
    equal. A PUT without a reply may take effect long after others have written.
    """

    def __init__(self, world: World, key: str, codec: Codec = UPDATES, resolve: str = "unknown", recurs: bool = False):
        if world.store.caches:
            raise ValueError(f"{type(world.store).__name__} answers reads from memory: after a conflict the content must be "
                             "read anew; give the store that it wraps")
        if resolve not in ("unknown", "check"):
            raise ValueError(f"resolve is {resolve!r}: accepted are 'unknown' and 'check'")
        if recurs and resolve == "check":
            raise ValueError("recurs with resolve 'check': a value that holds no ids does not tell whether an update is in it")
        self.world, self.key, self.codec, self.resolve, self.recurs = world, key, codec, resolve, recurs
        self.known: Content | None = None  # the latest content that this client put, or read for an update

    async def initialise(self, value: Any) -> None:
        """Create the object if there is none. Raises OutcomeUnknown, Unavailable."""
        try:
            await self.world.store.create(self.key, self.codec.encode(value))
        except AlreadyExists:
            pass

    async def current(self) -> Content:
        """GET the content for a reader. Raises NotFound, Unavailable."""
        found = await self.world.store.get(self.key)
        return Content(self.codec.decode(found.body), found.version)

    async def update(self, update: str, change: Callable[[Any], Any], attempts: int | None = None) -> Content:
        """Apply `change` to the content, again after each conflict («resolved»).

        `change` must put the id `update`, never used before, into the value's `updates`. Returns a content that holds it. After
        a Definite error nothing of it is applied, and never will be (UpdateConflict after `attempts` tries). After
        OutcomeUnknown it may be applied, now or later.
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
            except Exception as error:  # also from `change`: this PUT had no effect, an earlier one may have
                if doubt:
                    self.known = None
                    raise OutcomeUnknown(f"update {update!r} of {self.key!r} stays in doubt: {error}") from error
                raise
            except BaseException:  # the call is cancelled: its PUT may be applied
                self.known = None
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
