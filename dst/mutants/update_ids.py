"""Mutants of update ids: the RFC with the retry of released code, and the amendment with a part left out."""

from collections.abc import Callable
from typing import Any

from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.update_ids import Codec
from highwater.impl.codecs.json.manifest import Manifest
from highwater.impl.errors import Definite, OutcomeUnknown
from highwater.impl.protocols.boundary_object import ObjectVersionBehindBoundary
from highwater.impl.protocols.sequenced_metadata_boundary import Committed, MetadataStore, Recognised
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists


class Unchecked(MetadataStore):
    """Trusts any file in which it finds its update, as in the model's row recognised_unchecked."""

    looks = True

    async def update_once(self, update_id: str, change: Callable[[int, Any], Any], attempts: int | None = None
                          ) -> Committed | Recognised:
        while True:
            latest, body = await self.bounded.latest()
            value = self.codec.decode(body)
            if self.looks and self.codec.holds(value, update_id):
                return Recognised(latest, value)
            value = change(latest + 1, value)
            try:
                await self.bounded.create(latest + 1, self.codec.encode(value))
            except (ObjectVersionExists, ObjectVersionBehindBoundary, OutcomeUnknown):
                continue
            return Committed(latest + 1, value)


class Retried(Unchecked):
    """Applies a refused or indeterminate update again; compare the model's row refused_is_retried."""

    looks = False


class DoubtForgotten(MetadataStore):
    """Raises the definite error of a later attempt, although an earlier one is in doubt."""

    async def update_recognised(self, *asked: Any) -> Committed | Recognised:
        try:
            return await super().update_recognised(*asked)
        except OutcomeUnknown as error:
            if isinstance(error.__cause__, Definite):
                raise error.__cause__ from None
            raise


class RecognisedUnread(MetadataStore):
    """Returns the empty value for an update that it recognises."""

    async def update_recognised(self, *asked: Any) -> Committed | Recognised:
        done = await super().update_recognised(*asked)
        return done._replace(value=Manifest()) if isinstance(done, Recognised) else done


def client(kind: type[MetadataStore]) -> Callable:
    return lambda world, where, spare, number: kind(world, where, Codec, spare)


BUILDS = {  # name -> (its bug, its Build)
    "refused_is_retried": ("as in the RFC, with the retry of released code: a refused update is applied again",
                           client(Retried)),
    "recognised_unchecked": ("the update is looked for in a file without reading the boundary afterwards", client(Unchecked)),
    "doubt_forgotten": ("an update with an attempt in doubt is reported as not applied after a later error",
                        client(DoubtForgotten)),
    "recognised_unread": ("a recognised update returns a value that does not hold it", client(RecognisedUnread)),
}
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "refused_is_retried": (("refinement:Writer.",), ("history:applied twice",)),
    "recognised_unchecked": (("told:recognised", "refinement:Writer."), ()),
    "doubt_forgotten": (("told:failed",), ()),
    "recognised_unread": (("call:update_once value",), ()),
}
MUTANTS = Mutants(BUILDS, ORACLES)
