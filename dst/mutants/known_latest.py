"""Mutants of the boundary protocol with a known latest file: writers that trust their knowledge too much."""

from collections.abc import Callable
from typing import Any

from highwater.dst.mutants.sequenced_metadata_boundary import Unchecked
from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.known_latest import Codec
from highwater.impl.errors import OutcomeUnknown
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import ObjectStoreBoundaryObject
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Policies
from highwater.impl.protocols.sequenced_storage import SequencedStorage
from highwater.impl.world import World


class Sent(MetadataStore):
    """Also trusts a file that it sent without getting a response, as in the model's row known_unanswered."""

    async def update(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed:
        sent: list[tuple[int, Any]] = []

        def noted(file_id: int, value: Any) -> Any:
            sent.append((file_id, change(file_id, value)))
            return sent[-1][1]

        try:
            return await super().update(noted, attempts)
        except OutcomeUnknown:
            if sent:
                self.kept = sent[-1][0], self.codec.encode(sent[-1][1])
            raise


class Early(MetadataStore):
    """Keeps the file that it is about to create, and forgets it after an error, but not if the call is cancelled."""

    async def update(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed:
        def noted(file_id: int, value: Any) -> Any:
            made = change(file_id, value)
            self.kept = file_id, self.codec.encode(made)
            return made

        try:
            return await super().update(noted, attempts)
        except Exception:
            self.kept = None
            raise


class Before(MetadataStore):
    """Keeps the id of the file that it put, but the content of the file before."""

    async def update(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed:
        made_of: list[Any] = []

        def noted(file_id: int, value: Any) -> Any:
            made_of.append(value)
            return change(file_id, value)

        done = await super().update(noted, attempts)
        self.kept = done.id, self.codec.encode(made_of[-1])
        return done


def unchecked(world: World, where: Namespace, spare: bool, client: int) -> MetadataStore:
    bounded = Unchecked(SequencedStorage(world, where), ObjectStoreBoundaryObject(world, where))
    return MetadataStore(world, where, Codec, Policies(keep_latest=True, spare_checkpoints=spare), bounded)


def of(kind: type[MetadataStore]) -> Callable:
    return lambda world, where, spare, client: kind(
        world, where, Codec, Policies(keep_latest=True, spare_checkpoints=spare))


BUILDS = {  # name -> (its bug, its Build)
    "known_no_check": ("a writer trusts that its known file is the latest, without reading the boundary", unchecked),
    "known_unanswered": ("a writer trusts that a file is the latest although its create had no response", of(Sent)),
    "known_before_its_answer": ("a writer trusts its file before the create is answered, and forgets it after an error, but "
                                "not if the call is cancelled", of(Early)),
    "known_without_its_update": ("a writer computes its next update from the content before its last one", of(Before)),
}
HARM = ("history:duplicate commit", "history:lost update", "history:read off history")
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "known_no_check": (("told:committed",), HARM),
    "known_unanswered": (("refinement:Writer.CreateNext", "refinement:Writer.SendCreate", "refinement:Writer.CreateConflict"),
                         HARM),
    "known_before_its_answer": (("refinement:Writer.CreateNext", "refinement:Writer.SendCreate",
                                 "refinement:Writer.CreateConflict"), HARM),
    "known_without_its_update": (("refinement:Writer.CreateNext", "refinement:Writer.SendCreate"), HARM),
}
MUTANTS = Mutants(BUILDS, ORACLES)
