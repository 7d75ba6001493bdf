"""Destroys a SlateDB database; impl/protocols/destroy.py is the protocol.

A mark is one more manifest, in the version of the latest one. What is due is deleted by the same command, or by a later one.
"""

from typing import Any, NamedTuple

from highwater.admin.gc import stores_of
from highwater.impl.codecs.destroyed import HARD, SOFT, Mark, mark_of, pins_of
from highwater.impl.errors import Indefinite
from highwater.impl.protocols import destroy
from highwater.impl.protocols.destroy import GraceRuns, InvalidDeletion
from highwater.impl.world import World, list_all

REFUSALS = (InvalidDeletion,)  # for the sake of safety


class Destroyed(NamedTuple):
    """The result of a command. `waits`: why a soft mark is not finished yet; "" if nothing is left, or in a dry run."""

    mark: str
    due_ms: int
    deleted: list[str]
    waits: str = ""


class InDoubt(Indefinite):
    """The command stopped on the way."""


async def destroyed(world: World, root: str, kind: str, grace_ms: int, dry_run: bool) -> Destroyed:
    """Mark the database, and delete it if it is due. With `dry_run` nothing is written.

    Raises InvalidDeletion for a hard mark while a checkpoint is listed, ValueError if there is no database, and InDoubt.
    """
    manifests = stores_of(world, root)["manifest"]
    if dry_run:
        return await planned(world, root, kind, grace_ms)
    try:
        mark = Mark(HARD, 0, 0)
        if not await destroy.is_sealed(manifests):
            await there(manifests)
            await manifests.drop_ended()
            marked = (await destroy.mark(manifests, kind, grace_ms)).value
            mark = mark_of(marked) or mark
            if mark.kind == SOFT:
                await destroy.fence(manifests, root, marked)
        try:
            return Destroyed(mark.kind, mark.due_ms, within(root, await destroy.finish(manifests, root)))
        except (GraceRuns, InvalidDeletion) as error:
            if mark.kind == HARD:
                raise
            return Destroyed(SOFT, mark.due_ms, [], str(error))
    except Indefinite as error:
        raise InDoubt(f"the database may be marked, and a part of it deleted, now or later: give the command again ({error})"
                      ) from error


async def planned(world: World, root: str, kind: str, grace_ms: int) -> Destroyed:
    """Return what the command would do now. Raises InvalidDeletion, ValueError."""
    manifests = stores_of(world, root)["manifest"]
    mark, now_ms = Mark(HARD, 0, 0), world.clock.now_ms()
    if not await destroy.is_sealed(manifests):
        await there(manifests)
        value = (await manifests.current()).value
        old = mark_of(value)
        mark = old if old and old.kind in (kind, HARD) else Mark(kind, now_ms, now_ms + (grace_ms if kind == SOFT else 0))
        pins = pins_of(value.without_ended(now_ms))
        if pins and kind == HARD:
            raise InvalidDeletion(pins[0].id)
        if now_ms < mark.due_ms:
            return Destroyed(mark.kind, mark.due_ms, [], str(GraceRuns(mark.due_ms)))
        if pins:
            return Destroyed(mark.kind, mark.due_ms, [], str(InvalidDeletion(pins[0].id)))
    files = [entry.key for entry in await list_all(world.store, manifests.bounded.storage.namespace.prefix)]
    return Destroyed(mark.kind, mark.due_ms, within(root, [*await destroy.others_of(manifests, root), *files]))


def within(root: str, keys: list[str]) -> list[str]:
    """Return the keys as they are called in the database."""
    return [key.removeprefix(f"{root}/") for key in keys]


async def there(manifests: Any) -> None:
    if not await manifests.bounded.list():
        raise ValueError("there is no database here, so nothing is destroyed: check the URL")
