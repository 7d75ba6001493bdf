"""Creates, refreshes, deletes and lists checkpoints of a SlateDB database; impl/protocols/checkpoints.py is the protocol.

A change is one more manifest, in the version of the latest one. Clients may use the database meanwhile.
"""

from datetime import UTC, datetime
from typing import Any

from highwater.admin.database import deleting
from highwater.admin.gc import stores_of
from highwater.impl.codecs.slatedb.tables import Checkpoint
from highwater.impl.errors import Definite, Indefinite
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.checkpoints import CheckpointEnded, NotInitialized
from highwater.impl.protocols.destroy_mark import MARK, DatabaseDestroyed
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.world import World


class BeingDeleted(Definite):
    """A released client has begun to delete the database."""

    def __init__(self) -> None:
        super().__init__("the database has the mark .deleting: somebody deletes it, and a checkpoint would keep nothing")


class MarkIsKept(Definite):
    """The entry is the mark of a destroyed database."""

    def __init__(self) -> None:
        super().__init__("this entry is no checkpoint: it marks the database as destroyed, and what it names may be gone")


REFUSALS = (BeingDeleted, CheckpointEnded, DatabaseDestroyed, MarkIsKept, NotInitialized)  # for the sake of safety


class InDoubt(Indefinite):
    """A change of a checkpoint may be in the manifest, now or later."""


async def create(world: World, root: str, lifetime_ms: int | None, source: str | None, name: str | None) -> Checkpoint:
    """Take a checkpoint, and return it. Raises BeingDeleted, InDoubt, and what the protocol raises."""
    manifests = await opened(world, root)
    new = checkpoints.new_id(manifests)
    try:
        taken = await checkpoints.create(manifests, new, lifetime_ms, name, source)
    except Indefinite as error:
        raise InDoubt(f"checkpoint {new} may have been taken, now or later: list the checkpoints, and delete it if it is not "
                      f"wanted ({error})") from error
    return entry_of(taken.value, new)


async def refresh(world: World, root: str, checkpoint: str, lifetime_ms: int | None) -> Checkpoint:
    """Give a checkpoint a new lifetime, and return it. Raises BeingDeleted, InDoubt, and what the protocol raises."""
    manifests = await opened(world, root)
    try:
        renewed = await checkpoints.refresh(manifests, checkpoint, lifetime_ms)
    except Indefinite as error:
        raise InDoubt(f"checkpoint {checkpoint} may have the new lifetime, now or later: refresh it again ({error})") from error
    return entry_of(renewed.value, checkpoint)


async def delete(world: World, root: str, checkpoint: str) -> None:
    """Remove a checkpoint. Raises MarkIsKept, InDoubt, and what the protocol raises."""
    if checkpoint == MARK:
        raise MarkIsKept
    try:
        await checkpoints.delete(await there(world, root), checkpoint)
    except Indefinite as error:
        raise InDoubt(f"checkpoint {checkpoint} may be removed, now or later: list the checkpoints ({error})") from error


async def listed(world: World, root: str, name: str | None) -> tuple[Checkpoint, ...]:
    """Return the checkpoints of the latest manifest. Raises what the protocol raises."""
    return await checkpoints.listed(await there(world, root), name)


async def opened(world: World, root: str) -> MetadataStore:
    if await deleting(world, root):
        raise BeingDeleted
    return await there(world, root)


async def there(world: World, root: str) -> MetadataStore:
    """Return the client of the manifests. Raises ValueError if there are none."""
    manifests = stores_of(world, root)["manifest"]
    if not await manifests.bounded.list():
        raise ValueError("there is no database here, so it has no checkpoints: check the URL")
    return manifests


def entry_of(manifest: Any, checkpoint: str) -> Checkpoint:
    return checkpoints.found(manifest, checkpoint)


def as_json(of: Checkpoint) -> dict[str, Any]:
    """Return the fields of the released command line's list, under its names."""
    return {"id": of.id, "manifest_id": of.manifest_id, "expire_time": moment(of.expire_time_s) if of.expire_time_s else None,
            "create_time": moment(of.create_time_s), "name": of.name}


def moment(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
