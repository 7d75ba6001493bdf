"""Safety: a program hears that its block is added or kept only if the index has it, or a letter does.

What the commands do with dead letters, over a client of the index's API.
"""

from typing import Any, NamedTuple

from highwater.impl.codecs.index import ulids
from highwater.impl.codecs.index.messages import CLASSES, BlockMeta, decode
from highwater.impl.errors import StoreError
from highwater.impl.index.bucket.objects import SEGMENT, metadata_in, place_of
from highwater.impl.index.letters import kept, writer
from highwater.impl.index.letters.letter import ASIDE
from highwater.impl.index.letters.sweeper import Add
from highwater.impl.index.library import InvalidArgument, TooLate
from highwater.impl.index.service.codes import FAILED_PRECONDITION, INVALID_ARGUMENT
from highwater.impl.stores.grpc_calls import Refused
from highwater.impl.stores.system import system_world
from highwater.impl.world import ObjectStore, list_all
from highwater.index.client import Client

FINAL = {INVALID_ARGUMENT: InvalidArgument, FAILED_PRECONDITION: TooLate}  # code -> error of a block that is never added


class Again(NamedTuple):
    """The outcome for one letter. `why`: it stays, for this reason; "" if its block is in the index now."""

    key: str
    block: str = ""
    why: str = ""


def adder(client: Client, past_horizon: bool = False) -> Add:
    """Return a function that adds a block. It raises InvalidArgument, TooLate, and what a call of the client raises."""
    async def add(block: Any) -> None:
        try:
            await client.call(CLASSES["AddBlockRequest"](block=block, past_horizon=past_horizon))
        except Refused as error:
            raise FINAL[error.code](str(error)) if error.code in FINAL else error from None

    return add


async def add_again(store: ObjectStore, keys: list[str], client: Client, past_horizon: bool) -> list[Again]:
    """Add the blocks of letters, and delete the letters of those that are in the index then."""
    found = []
    for key in keys:
        try:
            found.append(Again(key, await kept.add_again(store, key, adder(client, past_horizon))))
        except (StoreError, ValueError) as error:
            found.append(Again(key, why=f"{type(error).__name__}: {error}"))
    return found


async def admitted(store: ObjectStore, interval_ms: range, client: Client) -> list[Again]:
    """Add the blocks that were made in an interval, though they are older than the horizon: those of letters that are kept
    aside, and those of segments in the bucket. What the index has, or knows as removed, stays as it is.

    Results of jobs are left alone: their sources may be in the index."""
    add = adder(client, past_horizon=True)
    letters = [entry.key for entry in await list_all(store, ASIDE) if is_of(entry.key, interval_ms)]
    found = await add_again(store, letters, client, past_horizon=True)
    for entry in await list_all(store, "segments/"):
        if place_of(entry.key).kind != SEGMENT or not is_of(entry.key, interval_ms):
            continue
        metadata, wrong = await metadata_in(store, entry.key, entry.size_bytes)
        try:
            if not wrong:
                await add(decode(BlockMeta, metadata))
            found.append(Again(entry.key, place_of(entry.key).ulid, wrong))
        except StoreError as error:
            found.append(Again(entry.key, why=f"{type(error).__name__}: {error}"))
    return found


def is_of(key: str, interval_ms: range) -> bool:
    """Return whether the key of a block's object or letter has a ULID that was made in an interval."""
    try:
        return ulids.time_ns(key.split("/")[-2]) // 1_000_000 in interval_ms
    except (ulids.InvalidUlid, IndexError):
        return False


async def added_or_kept(store: ObjectStore, blocks: list[Any], client: Client, retry_ms: int) -> list[str]:
    """Add blocks, or leave letters: return ADDED or KEPT for each. Raises what `Writer.add` raises."""
    of = writer.Writer(system_world(store), adder(client), writer.USUAL._replace(retry_ms=retry_ms))
    return [await of.add(block) for block in blocks]
