"""Safety: an update that is returned as committed stays in the history that every later client of the sequence builds on. An
update that is reported as not applied is in no file of the history, and never will be.

This is the one client of a sequence of metadata files. Protocols differ in their policies (`Policies`), and in what an update
decides from the latest file (`Decide`). There is one loop for all of them, `MetadataStore.apply`: read the latest file, decide,
create the next file, and start over after a conflict.

A client may draw three verdicts from a file that it has read: its update is in the history already, it is fenced, or there is
nothing to do. Where files are deleted, the file may be in nobody's history: between LIST and GET the latest was collected, and
a late create took its id. So a verdict counts only if a boundary read after the file is behind its id.
"""

from collections.abc import Awaitable, Callable, Collection
from typing import Any, NamedTuple

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.json.manifest import UPDATES
from highwater.impl.errors import Definite, Fenced, FencedInDoubt, NotFound, OutcomeUnknown, StoreError, Unavailable
from highwater.impl.layout import Namespace
from highwater.impl.protocols.boundary_object import NoBoundary, ObjectStoreBoundaryObject, ObjectVersionBehindBoundary
from highwater.impl.protocols.sequenced_metadata_boundary import BoundedSequencedStorage
from highwater.impl.protocols.sequenced_storage import FIRST_ID, ObjectVersionExists, SequencedStorage, old_ids
from highwater.impl.world import World


class Policies(NamedTuple):
    """The rules that a client of a sequence follows, beside reading the latest file and creating the next one."""

    boundary: bool = True  # files are collected: creates, verdicts and reads are checked against the boundary
    epoch: str = ""  # the field of the values with the epoch of the client's role, which fences it; "": it is never fenced
    recognise: bool = True  # after a refusal or a lost reply an update may be looked for in the latest file, and tried again
    keep_latest: bool = False  # an update starts from the file that this client has put before, without LIST and GET
    spare_checkpoints: bool = True  # a collection keeps every file that a listed checkpoint refers to

    def refusal(self) -> str:
        """Return why these policies do not go together; "" if they do."""
        if self.spare_checkpoints and not self.boundary:
            return "spare_checkpoints without boundary: nothing is collected without a boundary, so nothing has to be spared"
        if self.epoch and not self.recognise:
            return "epoch without recognise: a fenced client must find out whether its update was applied before"
        if self.epoch and self.keep_latest:
            return "epoch with keep_latest: an epoch is compared with the epoch in a file that was read"
        return ""


USUAL = Policies()


class Committed(NamedTuple):
    """A committed update: the id of its file, and the value in it."""

    id: int
    value: Any


class Recognised(NamedTuple):
    """An update that an earlier attempt committed, at this id or before it; `value` contains it."""

    id: int
    value: Any


class Verdict(NamedTuple):
    """A conclusion from the latest file, instead of a next one: a result, or an error to raise."""

    said: Committed | Recognised | StoreError | None


class Put(NamedTuple):
    """The value of the next file."""

    value: Any


Decide = Callable[[int, Any], Awaitable[Put | Verdict]]  # (id of the latest file, its value)
Change = Callable[[int, Any], Any]  # (id of the next file, latest value) -> the next value


class Attempt:
    """The state of one update, over all calls for it.

    `base` is the file to build on, with its id; None: LIST and GET the latest. `doubt` is the id of its last create that had no
    response, or was refused by the boundary, so that it may be applied now or later; 0: there is none. `why` is the error then.
    """

    def __init__(self, base: tuple[int, bytes] | None = None):
        self.base, self.doubt = base, 0
        self.why: StoreError | None = None

    def settle(self) -> None:
        """Forget the doubt: the create can no longer be applied."""
        self.doubt, self.why = 0, None


class MetadataStore:
    """One namespace of sequenced metadata: updates, reads, collection.

    With the policy `keep_latest` an `update` starts from the last file that this store committed, without LIST and GET. A
    commit then takes two requests if nobody else commits. Any error drops the kept file, and a conflict lists as usual. See
    docs/operating/cost.md.
    """

    def __init__(self, world: World, namespace: Namespace, codec: Any = UPDATES, policies: Policies = USUAL,
                 storage: BoundedSequencedStorage | None = None):
        """Make a client. Raises ValueError if the policies do not go together."""
        if why := policies.refusal():
            raise ValueError(f"{namespace.prefix!r}: {why}")
        self.world, self.codec, self.policies = world, codec, policies
        self.kept: tuple[int, bytes] | None = None  # the last accepted file; None while an update runs or after one failed
        self.bounded = storage or BoundedSequencedStorage(
            SequencedStorage(world, namespace),
            ObjectStoreBoundaryObject(world, namespace) if policies.boundary else NoBoundary())

    async def initialise(self, value: Any) -> None:
        """Create the first file, if there is none and has never been one."""
        if not await self.bounded.list():
            try:
                await self.bounded.create(FIRST_ID, self.codec.encode(value))
            except (ObjectVersionExists, ObjectVersionBehindBoundary):
                pass  # another client created it; it may even have been collected since

    # --- updates

    def after(self, base: "Committed | Recognised | None") -> Attempt:
        """Return an attempt at an update of a file that the caller has read: it is not read again. None: of the latest one."""
        return Attempt((base.id, self.codec.encode(base.value)) if base else None)

    async def apply(self, decide: Decide, again: bool, attempts: int | None = None, deadline_ms: int | None = None,
                    attempt: Attempt | None = None, epoch: int = 0, fenced: Callable[[Any], Fenced] | None = None
                    ) -> Committed | Recognised | None:
        """Create the next file with what `decide` makes of the latest one, or return its verdict.

        After a conflict it starts over, and so it does after a refusal by the boundary or a lost reply if `again`. It gives up
        after `attempts` tries, or if a try fails at `deadline_ms` or later. A client with an `epoch` is fenced by a file with a
        higher one, by the error that `fenced` makes of the value. `attempt` has what earlier calls for the same update know.

        After a Definite error the update is nowhere, and never will be (ObjectVersionExists: a conflict in the last try). After
        an Indefinite one it may be in the history, now or later.
        """
        if attempts is not None and attempts < 1:
            raise ValueError(f"{attempts} attempts: at least one is made")
        attempt, conflicts, last = attempt or Attempt(), dict[int, int](), None
        while True:
            latest, base = FIRST_ID, attempt.base
            attempt.base = None
            try:
                latest, body = base or await self.bounded.latest()
                value = self.decoded(latest, body)
                if self.is_fenced(value, epoch):
                    decided = Verdict(fenced(value) if fenced else self.fenced_by(value, epoch))
                else:
                    decided = await decide(latest, value)
                if isinstance(decided, Verdict):
                    return await self._believed(latest, decided)
                self.bounded.storage.check_listed(latest, conflicts)
                return await self._create(latest, body, decided.value, attempt)
            except ObjectVersionExists as error:
                self.world.metrics.count("update_conflicts")
                conflicts, last = {latest: conflicts.get(latest, 0) + 1}, error.with_traceback(None)
            except (ObjectVersionBehindBoundary, OutcomeUnknown) as error:
                if not again:
                    raise
                self.world.metrics.count("updates_in_doubt")
                attempt.why = last = error.with_traceback(None)
            except Definite as error:  # this try had no effect; an earlier one may have had one, or may have it later
                if attempt.why is None or isinstance(error, Fenced):
                    raise
                raise OutcomeUnknown(f"an earlier attempt is in doubt ({attempt.why}), and then: {error}") from error
            attempts = None if attempts is None else attempts - 1
            if attempts == 0 or (deadline_ms is not None and self.world.clock.now_ms() >= deadline_ms):
                raise attempt.why or last

    def is_fenced(self, value: Any, epoch: int) -> bool:
        """Return whether a client with this epoch (0: none) is fenced: «If our epoch is less than the epoch stored»."""
        return bool(epoch and self.policies.epoch) and getattr(value, self.policies.epoch) > epoch

    def fenced_by(self, value: Any, epoch: int) -> Fenced:
        """Return the error of a client with this epoch that is fenced by the value."""
        field = self.policies.epoch
        return FencedInDoubt(field.removesuffix("_epoch"), epoch, getattr(value, field),
                             "what it was doing may be done, or its successor does it")

    async def _believed(self, latest: int, verdict: Verdict) -> Committed | Recognised | None:
        """Return a verdict from file `latest`, or raise its error, if that file is in the history. Raises OutcomeUnknown."""
        if latest <= await self.bounded.boundary.read():
            raise OutcomeUnknown(f"id {latest} was behind the boundary before it could be read")
        if isinstance(verdict.said, StoreError):
            raise verdict.said
        if verdict.said is not None:
            self.world.metrics.count("updates_recognised")
        return verdict.said

    async def _create(self, latest: int, base: bytes, value: Any, attempt: Attempt) -> Committed:
        """Create the file after `latest`. The attempt keeps the base if the store refuses the create without effect."""
        body = self.codec.encode(value)
        try:
            await self.bounded.create(latest + 1, body)
        except Unavailable:
            attempt.base = latest, base
            raise
        except Definite:
            raise
        except BaseException:  # no response, a refusal, or the caller stopped waiting
            attempt.doubt, attempt.why = latest + 1, OutcomeUnknown(f"id {latest + 1} may be created, now or later")
            raise
        if self.policies.keep_latest:
            self.kept = latest + 1, body
        return Committed(latest + 1, value)

    async def update(self, change: Change, attempts: int | None = None) -> Committed:
        """Apply `change(id of the next file, latest value)` to the latest value, again after each conflict.

        Returns the committed file. After a Definite error the update is nowhere and may be repeated (ObjectVersionExists after
        `attempts` conflicts). After an Indefinite one it may be in the history, now or later, so nothing here repeats it.
        """
        attempt, self.kept = Attempt(self.kept), None
        return await self._changed(change, False, attempts, None, attempt)

    async def claim(self, attempts: int | None = None, deadline_ms: int | None = None,
                    attempt: Attempt | None = None, change: Change | None = None) -> Committed:
        """Add one to the epoch of the client's role. After a conflict, a refusal or a lost reply take the epoch after the one
        that is read then. `change` is applied to the value with that epoch, in the same update.

        After an Indefinite error a file may have an epoch that no client has. Raises what `apply` raises.
        """
        if not self.policies.epoch:
            raise ValueError("this client's policies include no epoch")
        def claimed(next_id: int, value: Any) -> Any:
            value = self.claimed(value)
            return change(next_id, value) if change else value

        return await self._changed(claimed, True, attempts, deadline_ms, attempt)

    def claimed(self, value: Any) -> Any:
        """Return the value with the next epoch of the client's role."""
        field = self.policies.epoch
        return value._replace(**{field: getattr(value, field) + 1})

    async def _changed(self, change: Change, again: bool, attempts: int | None, deadline_ms: int | None,
                       attempt: Attempt | None) -> Committed:
        async def decide(latest: int, value: Any) -> Put:
            return Put(change(latest + 1, value))

        committed = await self.apply(decide, again, attempts, deadline_ms, attempt)
        assert isinstance(committed, Committed), "nothing else was decided"
        return committed

    async def update_once(self, update_id: str, change: Change, attempts: int | None = None) -> Committed | Recognised:
        """Apply an update exactly once, however often this is called. `change` must put `update_id` into the value.

        Raises what `update_recognised` raises.
        """
        return await self.update_recognised(lambda value: value.holds(update_id), change, attempts)

    async def update_recognised(self, holds: Callable[[Any], bool | StoreError], change: Change,
                                attempts: int | None = None, epoch: int = 0) -> Committed | Recognised:
        """Apply `change` as `update` does, and try again after a refusal or a missing reply unless the latest value `holds` it.

        If `holds` returns an error, it is raised: by that value nobody can tell. The value is believed only if its file is
        ahead of a boundary read after it. See docs/protocols/committed-but-rejected.md.

        After a Definite error this call's update is nowhere, and never will be. After an Indefinite one, also after `attempts`
        tries of which one is in doubt, call again with the same id to find out, from another process if need be. A client with
        an `epoch` is fenced by a file with a higher one: FencedInDoubt.
        """
        if not self.policies.recognise:
            raise ValueError("this client's policies do not include recognise")

        async def decide(latest: int, value: Any) -> Put | Verdict:
            if found := holds(value):
                return Verdict(found if isinstance(found, StoreError) else Recognised(latest, value))
            value = change(latest + 1, value)
            if not holds(value):
                raise ValueError("the changed value does not hold its update: it could never be recognised")
            return Put(value)

        done = await self.apply(decide, True, attempts, epoch=epoch)
        assert done is not None, "nothing else was decided"
        return done

    # --- reads

    async def current(self) -> Committed:
        """Return the latest committed value. Raises NoLatest, InvalidName, InvalidBoundary, BoundaryLost, Unavailable."""
        file_id, body = await self.bounded.current()
        return Committed(file_id, self.decoded(file_id, body))

    async def read(self, file_id: int) -> Any:
        """Return the value of one file, for example one that a checkpoint keeps behind the boundary. Raises NotFound."""
        return self.decoded(file_id, await self.bounded.read(file_id))

    def decoded(self, file_id: int, body: bytes) -> Any:
        """Return the value of a file with these bytes. Raises what the codec raises; an Undecodable names the file."""
        try:
            return self.codec.decode(body)
        except Undecodable as error:
            raise error.of(self.bounded.storage.namespace.key(file_id)) from None

    # --- collection

    async def advance_boundary(self, boundary: int) -> None:
        await self.bounded.boundary.advance(boundary)

    async def drop_ended(self, attempts: int | None = None, skew_ms: int = 0) -> Committed | Recognised:
        """Remove the checkpoints that ended `skew_ms` ago by this client's clock, by an update; Recognised if there are none.

        `skew_ms`: the largest difference between the clocks of two clients, so that a lease lasts as long as its owner thinks.
        Call it before `collect`, which deletes no file of a checkpoint that is listed. It may be repeated after any error.
        Raises what `update_recognised` raises.
        """
        now_ms = self.world.clock.now_ms() - skew_ms
        return await self.update_recognised(lambda value: value.without_ended(now_ms) == value,
                                            lambda _, value: value.without_ended(now_ms), attempts)

    async def collect(self, min_age_ms: int, only: Collection[int] | None = None) -> list[int]:
        """Run one round of garbage collection; return the deleted ids. `only`: of these files alone.

        The boundary becomes «the maximum file ID from that filtered list»: all files older than `min_age_ms` except the latest,
        including those that a checkpoint refers to. Files in that list are deleted unless a checkpoint refers to them. It makes
        no difference whether the checkpoint has ended: its owner may renew it as long as it is listed.
        """
        files = await self.bounded.list()
        now_ms = self.world.clock.now_ms()
        old = [file_id for file_id in old_ids(files[:-1], now_ms, min_age_ms) if only is None or file_id in only]
        if not old:
            return []  # «If no files are old enough, GC skips the boundary update for that namespace.»
        await self.advance_boundary(max(old))
        spared = await self._spared(files[-1].id)
        if spared is None:
            return []
        return [file_id for file_id in old if file_id not in spared and await self.bounded.storage.collect(file_id)]

    async def _spared(self, latest: int) -> frozenset[int] | None:
        """Return the ids that checkpoints refer to, by the latest file listed; None if the listing is too old to tell.

        As for any reader, that file can be trusted only if its id is ahead of a boundary read after it. Otherwise it may have
        been collected and replaced by the file of a refused writer. Such a file may lack checkpoints: later ones, and those
        that its writer tried to remove.
        """
        if not self.policies.spare_checkpoints:
            return frozenset()
        try:
            value = await self.read(latest)
        except NotFound:
            return None
        if latest <= await self.bounded.boundary.read():
            return None
        return value.referenced()


def manifest_store(world: World, root: str) -> MetadataStore:
    return MetadataStore(world, Namespace(root, "manifest"))


def compactions_store(world: World, root: str) -> MetadataStore:
    return MetadataStore(world, Namespace(root, "compactions"), policies=Policies(spare_checkpoints=False))
