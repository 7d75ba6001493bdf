"""Creates, refreshes, deletes and lists checkpoints of a SlateDB database; impl/protocols/checkpoints.py is the protocol.

A change is one more manifest, in the version of the latest one. Clients may use the database meanwhile.
"""

from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any

from highwater.admin.database import deleting
from highwater.admin.gc import stores_of
from highwater.impl.codecs.destroyed import MARK
from highwater.impl.codecs.slatedb.tables import Checkpoint
from highwater.impl.errors import Definite, Indefinite, UpdateConflict
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.checkpoints import CheckpointEnded, NotInitialized
from highwater.impl.protocols.destroy_mark import DatabaseDestroyed
from highwater.impl.protocols.sequenced_metadata import Committed, MetadataStore, Recognised
from highwater.impl.protocols.sequenced_storage import ObjectVersionExists
from highwater.impl.world import World


class BeingDeleted(Definite):
    """A released client has begun to delete the database."""

    def __init__(self) -> None:
        super().__init__("the database has the mark .deleting: somebody deletes it, and a checkpoint would keep nothing")


class Unreadable(Definite):
    """The latest manifest is damaged, or of an unknown version."""


class MarkIsKept(Definite):
    """The entry is the mark of a destroyed database."""

    def __init__(self) -> None:
        super().__init__("this entry is no checkpoint: it marks the database as destroyed, and what it names may be gone")


REFUSALS = (BeingDeleted, CheckpointEnded, DatabaseDestroyed, MarkIsKept, NotInitialized)  # for the sake of safety
ATTEMPTS = 20  # of one change, after conflicts and failures of the store


class InDoubt(Indefinite):
    """A change of a checkpoint may be in the manifest, now or later."""


async def create(world: World, root: str, lifetime_ms: int | None, source: str | None, name: str | None) -> Checkpoint:
    """Take a checkpoint, and return it. Raises BeingDeleted, and what `applied` raises."""
    manifests = await opened(world, root)
    new = checkpoints.new_id(manifests)
    taken = await applied(checkpoints.create(manifests, new, lifetime_ms, name, source, ATTEMPTS),
                          f"checkpoint {new} may have been taken, now or later: list the checkpoints, and delete it if it is "
                          "not wanted")
    return entry_of(taken.value, new)


async def refresh(world: World, root: str, checkpoint: str, lifetime_ms: int | None) -> Checkpoint:
    """Give a checkpoint a new lifetime, and return it. Raises BeingDeleted, and what `applied` raises."""
    renewed = await applied(checkpoints.refresh(await opened(world, root), checkpoint, lifetime_ms, ATTEMPTS),
                            f"checkpoint {checkpoint} may have the new lifetime, now or later: refresh it again")
    return entry_of(renewed.value, checkpoint)


async def delete(world: World, root: str, checkpoint: str) -> None:
    """Remove a checkpoint. Raises MarkIsKept, and what `applied` raises."""
    if checkpoint == MARK:
        raise MarkIsKept
    await applied(checkpoints.delete(stores_of(world, root)["manifest"], checkpoint, ATTEMPTS),
                  f"checkpoint {checkpoint} may be removed, now or later: list the checkpoints")


async def applied(change: Coroutine[Any, Any, Committed | Recognised], doubt: str) -> Committed | Recognised:
    """Return what the change returns. `doubt` says what may have happened if its outcome is unknown, and what to do then.

    Raises InDoubt; UpdateConflict if other clients were always faster; and what the protocol raises.
    """
    try:
        return await change
    except ObjectVersionExists as error:
        raise UpdateConflict(f"nothing was changed: other clients were faster in each of {ATTEMPTS} attempts: try again"
                             ) from error
    except Indefinite as error:
        raise InDoubt(f"{doubt} ({error})") from error


async def listed(world: World, root: str, name: str | None) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of the latest manifest. Call `check_readable` first. Raises what the protocol raises."""
    return await checkpoints.listed(stores_of(world, root)["manifest"], name)


async def opened(world: World, root: str) -> MetadataStore:
    if await deleting(world, root):
        raise BeingDeleted
    return stores_of(world, root)["manifest"]


async def check_readable(world: World, root: str) -> None:
    """Check that a reader can open the latest manifest, before anything is written.

    A change reads the boundary only after it has created its manifest. Behind a boundary that is invalid or ahead of all
    manifests, that manifest would help nobody.

    Raises ValueError if there is no manifest, Unreadable, and what `BoundedSequencedStorage.current` raises.
    """
    manifests = stores_of(world, root)["manifest"]
    if not await manifests.bounded.list():
        raise ValueError("there is no database here, so it has no checkpoints: check the URL")
    file_id, body = await manifests.bounded.current()
    try:
        manifests.codec.decode(body)
    except Definite as error:
        raise Unreadable(f"manifest {file_id}, the latest, cannot be read: {error}") from error


def entry_of(manifest: Any, checkpoint: str) -> Checkpoint:
    return checkpoints.found(manifest, checkpoint)


def as_json(of: Checkpoint) -> dict[str, Any]:
    """Return the fields of the released command line's list, under its names."""
    return {"id": of.id, "manifest_id": of.manifest_id, "expire_time": moment(of.expire_time_s) if of.expire_time_s else None,
            "create_time": moment(of.create_time_s), "name": of.name}


def moment(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
