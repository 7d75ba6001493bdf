"""Mutants of update ids: the RFC with the retry of released code, and the amendment with a part left out."""

from collections.abc import Callable
from typing import Any

from highwater.dst.scenario import Mutants
from highwater.dst.scenarios.update_ids import Codec, Store
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.errors import Definite, OutcomeUnknown
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import ObjectVersionBehindBoundary
from highwater.impl.protocols.sequenced_metadata import Committed, Policies, Recognised
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists
from highwater.impl.protocols.update_ids import Session, noted
from highwater.impl.world import World


class Unchecked(Store):
    """Trusts any file in which it finds its update, as in the model's row recognised_unchecked."""

    looks = True

    async def update_once(self, update_id: str, change: Callable[[int, Any], Any], attempts: int | None = None
                          ) -> Committed | Recognised:
        while True:
            latest, body = await self.bounded.latest()
            value = self.codec.decode(body)
            if self.looks and value.holds(update_id):
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


class NumberKept(Session):
    """Begins an update under the number of the one before."""

    async def update(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed | Recognised:
        self.number = max(self.number, 1)
        return await self.again(change, attempts)


class LastForgotten(Session):
    """Notes a session in its old place of the table, so that one in use is forgotten."""

    async def again(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed | Recognised:
        def kept(next_id: int, value: Any) -> Any:
            return Unsorted(change(next_id, value), self.id)

        return await super().again(kept, attempts)


class Unsorted:
    """A content whose table keeps its order."""

    def __init__(self, value: Any, session: str):
        self.value, self.session, self.sessions = value, session, value.sessions

    def _replace(self, sessions: Any) -> Any:
        numbers = dict(sessions)
        return self.value._replace(sessions=tuple((of, numbers[of]) for of, _ in self.value.sessions if of in numbers))


class ForgottenIsNew(Session):
    """Takes a session that was forgotten for one that has applied nothing."""

    async def again(self, change: Callable[[int, Any], Any], attempts: int | None = None) -> Committed | Recognised:
        number = self.number
        return await self.metadata.update_recognised(
            lambda value: dict(value.sessions).get(self.id) == number,
            lambda next_id, value: (after := change(next_id, value))._replace(
                sessions=noted(after.sessions, self.id, number, self.capacity)), attempts)


class DoubtForgotten(Store):
    """Raises the definite error of a later attempt, although an earlier one is in doubt."""

    async def update_recognised(self, *asked: Any, **more: Any) -> Committed | Recognised:
        try:
            return await super().update_recognised(*asked, **more)
        except OutcomeUnknown as error:
            if isinstance(error.__cause__, Definite):
                raise error.__cause__ from None
            raise


class RecognisedUnread(Store):
    """Returns the empty value for an update that it recognises."""

    async def update_recognised(self, *asked: Any, **more: Any) -> Committed | Recognised:
        done = await super().update_recognised(*asked, **more)
        return done._replace(value=Manifest()) if isinstance(done, Recognised) else done


def client(kind: type[Store], session: type[Session] = Session) -> Callable:
    def build(world: World, where: Namespace, spare: bool, number: int) -> Store:
        store = kind(world, where, Codec, Policies(spare_checkpoints=spare))
        store.session = session
        return store

    return build


BUILDS = {  # name -> (its bug, its Build)
    "refused_is_retried": ("as in the RFC, with the retry of released code: a refused update is applied again",
                           client(Retried)),
    "recognised_unchecked": ("the update is looked for in a file without reading the boundary afterwards", client(Unchecked)),
    "number_kept": ("a session begins an update under the number of the one before", client(Store, NumberKept)),
    "last_forgotten": ("a session that is used stays where it is in the table", client(Store, LastForgotten)),
    "forgotten_is_new": ("a forgotten session's update is applied again", client(Store, ForgottenIsNew)),
    "doubt_forgotten": ("an update with an attempt in doubt is reported as not applied after a later error",
                        client(DoubtForgotten)),
    "recognised_unread": ("a recognised update returns a value that does not hold it", client(RecognisedUnread)),
}
ATTEMPTS = "call:update_once attempts"
ORACLES = {  # name -> prefixes of its signatures: by model; by harm
    "refused_is_retried": (("refinement:Writer.", "told:failed", ATTEMPTS), (
        "history:applied twice", "history:denied update", "history:sessions", "history:out of order")),
    "number_kept": (("told:recognised", "refinement:Writer."), ("history:lost update", "history:sessions")),
    "last_forgotten": (("history:sessions",), ("history:sessions",)),
    "forgotten_is_new": (("history:sessions", "refinement:Writer."), ("history:sessions", "history:applied twice")),
    "recognised_unchecked": (("told:recognised", "told:failed", "refinement:Writer.", ATTEMPTS), ()),
    "doubt_forgotten": (("told:failed", "call:update_once"), ()),
    "recognised_unread": (("call:update_once value",), ()),
}
MUTANTS = Mutants(BUILDS, ORACLES)
