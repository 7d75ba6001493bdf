"""Mutants of impl/protocols/simple_conditional.py, each with one safeguard removed. Simulation must find each of them."""

from typing import Any

from highwater.dst.scenario import Build, Mutants
from highwater.dst.scenarios.simple_conditional import KEY, Shape, resolve
from highwater.impl.codecs.json.manifest import InvalidManifest
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import OutcomeUnknown, PreconditionFailed, Unavailable
from highwater.impl.protocols.simple_conditional import Content, SimpleConditional
from highwater.impl.world import World


class Unconditional(SimpleConditional):
    """Puts without a condition, as the baseline does: «one writer would simply overwrite the data from another»."""

    async def _put(self, value: Any) -> Content:
        return Content(value, await self.world.store.put(self.key, self.codec.encode(value)))


class OldContent(SimpleConditional):
    """Reads only the new version after a conflict, and puts what it computed from the old content."""

    async def _put(self, value: Any) -> Content:
        try:
            return await super()._put(value)
        except PreconditionFailed:
            assert self.known is not None
            self.known = Content(self.known.value, (await self.world.store.head(self.key)).version)
            return await super()._put(value)


class OthersDropped(SimpleConditional):
    """Reads again after a conflict, and then puts its old result over the content that it read."""

    made: tuple[str, ...] = ()

    def _changed(self, update: str, change: Any) -> Any:
        value = super()._changed(update, change)
        if self.made[-1:] != (update,):
            self.made = value.updates
        return Manifest(self.made)


class ConflictNotReread(SimpleConditional):
    """Repeats the same put after a conflict, and reads only after that."""

    async def _put(self, value: Any) -> Content:
        try:
            return await super()._put(value)
        except PreconditionFailed:
            return await super()._put(value)


class TimeoutIsFailure(SimpleConditional):
    async def update(self, *asked: Any) -> Content:
        try:
            return await super().update(*asked)
        except OutcomeUnknown as error:
            raise Unavailable(str(error)) from None


class AcknowledgedUnheard(SimpleConditional):
    async def _put(self, value: Any) -> Content:
        known = self.known
        try:
            return await super()._put(value)
        except OutcomeUnknown:
            assert known is not None
            return known._replace(value=value)


class LostReplyIsConflict(SimpleConditional):
    """Applies an update with an indeterminate outcome again, without checking whether it is there."""

    async def _put(self, value: Any) -> Content:
        try:
            return await super()._put(value)
        except OutcomeUnknown as error:
            raise PreconditionFailed(str(error)) from None


class ConflictIsMine(SimpleConditional):
    """Repeats a put with an indeterminate outcome. A conflict then counts as its own success."""

    async def _put(self, value: Any) -> Content:
        try:
            return await super()._put(value)
        except OutcomeUnknown:
            try:
                return await super()._put(value)
            except PreconditionFailed:
                return await self.current()


class AbsentHasFailed(SimpleConditional):
    """Reports an update with an indeterminate outcome as failed if it is absent, although it may still arrive."""

    async def update(self, update: str, *asked: Any) -> Content:
        try:
            return await super().update(update, *asked)
        except OutcomeUnknown:
            found = await self.current()
            if update in found.value.updates:
                return found
            raise Unavailable(f"{update!r} is not there") from None


class LastPlace(tuple):
    """Claims to contain only its last element."""

    def __contains__(self, update: object) -> bool:
        return self[-1:] == (update,)


class LastPlaceOnly(SimpleConditional):
    """Looks for its update only in the last place."""

    async def current(self) -> Content:
        value, version = await super().current()
        return Content(value._replace(updates=LastPlace(value.updates)), version)


class OldReads(SimpleConditional):
    """Answers every second read from a cache."""

    kept: Content | None = None
    reader = True

    async def update(self, *asked: Any) -> Content:
        self.reader = False
        return await super().update(*asked)

    async def current(self) -> Content:
        kept, self.kept = self.kept, None
        if kept is None or not self.reader:
            self.kept = kept = await super().current()
        return kept


class InitialisesBlindly(SimpleConditional):
    """Puts the first content without a condition."""

    async def initialise(self, value: Any) -> None:
        await self.world.store.put(self.key, self.codec.encode(value))


class VersionBefore(SimpleConditional):
    """Returns the new content with the version that it replaced."""

    async def update(self, *asked: Any) -> Content:
        before = self.known
        committed = await super().update(*asked)
        return committed._replace(version=before.version) if before else committed


class DamageNotNamed(SimpleConditional):
    """Raises the decoder's own error, which is none of the protocol's."""

    async def current(self) -> Content:
        try:
            return await super().current()
        except InvalidManifest as error:
            raise KeyError("updates") from error


class DamageIsEmpty(SimpleConditional):
    async def current(self) -> Content:
        try:
            return await super().current()
        except InvalidManifest:
            return Content(Manifest(), (await self.world.store.head(self.key)).version)


def client(kind: type[SimpleConditional]) -> Build:
    def build(world: World, shape: Shape, number: int) -> SimpleConditional:
        return kind(world, KEY, resolve=resolve(shape))

    return build


BUILDS = {  # name -> (its bug, its Build)
    "unconditional": ("a writer puts without a condition", client(Unconditional)),
    "initialises_blindly": ("the first content is put without a condition", client(InitialisesBlindly)),
    "old_content": ("after a conflict a writer reads only the new version, and puts its old content", client(OldContent)),
    "others_dropped": ("after a conflict the other writer's update is dropped", client(OthersDropped)),
    "conflict_not_reread": ("after a conflict the same put is repeated", client(ConflictNotReread)),
    "timeout_is_failure": ("an update without a response is reported as failed", client(TimeoutIsFailure)),
    "acknowledged_unheard": ("an update without a response is reported as committed", client(AcknowledgedUnheard)),
    "lost_reply_is_conflict": ("an update without a response is applied again unconditionally", client(LostReplyIsConflict)),
    "conflict_is_mine": ("a put without a response is repeated, and a conflict then counts as success",
                         client(ConflictIsMine)),
    "absent_has_failed": ("an update without a response is reported as failed if it is absent, although it may come later",
                          client(AbsentHasFailed)),
    "last_place_only": ("an update without a response is looked for only as the last update of the content",
                        client(LastPlaceOnly)),
    "old_reads": ("a cache answers a reader", client(OldReads)),
    "damage_not_named": ("a damaged content gives an error that no caller knows", client(DamageNotNamed)),
    "damage_is_empty": ("a damaged content is taken for an empty one", client(DamageIsEmpty)),
    "version_before": ("an update returns its content with the version that it replaced", client(VersionBefore)),
}

LOST, TWICE, DENIED = "history:lost update", "history:applied twice", "history:denied update"
PUTS = ("refinement:Writer.Put", "refinement:Writer.SendPut")  # PutOk, PutConflict
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "unconditional": (("refinement:Writer.put",), (LOST, "history:read")),
    "initialises_blindly": (("refinement:put",), (LOST, "history:")),
    "old_content": (("refinement:Writer.Head", *PUTS), (LOST, "history:read")),
    "others_dropped": (PUTS, (LOST, "history:read")),
    "conflict_not_reread": (PUTS, ()),
    "timeout_is_failure": (("told:failed",), (DENIED, TWICE)),
    "acknowledged_unheard": (("told:committed", *PUTS), (LOST,)),
    "lost_reply_is_conflict": ((*PUTS, "told:failed"), (TWICE,)),
    "conflict_is_mine": ((*PUTS, "told:failed"), (LOST, TWICE)),
    "absent_has_failed": (("told:", "call:update Unavailable", "refinement:Writer.Read"),
                          (DENIED, TWICE, "history:out of order")),
    "last_place_only": (PUTS, (TWICE,)),
    "damage_not_named": (("exception:KeyError",), ("exception:KeyError",)),
    "damage_is_empty": (("call:current content",), ("call:current content",)),
    "version_before": (("call:update version",), ()),
    "old_reads": (("told:read", "call:current"), ("history:stale read", "history:read went back")),
}
MUTANTS = Mutants(BUILDS, ORACLES)
