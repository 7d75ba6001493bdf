"""Safety: a verb that writes rows opens the database as any writer does: it fences the one before, and says so.

What it was told is what it prints: a number, if the batch is durable; else an error that says whether it may be.
"""

from typing import Any

from highwater.admin.rows import text_of
from highwater.impl.db.db import Db, Options
from highwater.impl.db.reader import opened
from highwater.impl.db.writes import Op, folded
from highwater.impl.layout import Namespace
from highwater.impl.world import World, list_all

OPTIONS = Options(poll_ms=0)


async def written(world: World, root: str, ops: list[Op], create: bool, flush: bool) -> dict[str, Any]:
    """Write a batch, and flush it if asked; return its number and the writer's epoch.

    Raises ValueError for a bad batch, CannotRead if there is no database and `create` is off, what `opened` raises, before
    anybody is fenced, and what `Db.open`, `Db.write` and `Db.flush` raise. Nothing is written then, unless the error is
    Indefinite, or the flush failed: the batch is in the WAL.
    """
    folded(ops)
    if not create or await list_all(world.store, Namespace(root, "manifest").prefix):
        await opened(world.store, root)  # the WAL, too: a writer that cannot replay it must not fence the one before
    db = await Db.open(world, root, OPTIONS)
    try:
        seq = await db.write(ops)
        if flush:
            await db.flush()
    finally:
        await db.close()
    return {"seq": seq, "writer_epoch": db.epoch, "keys": [text_of(op.key) for op in ops], "flushed": flush}
