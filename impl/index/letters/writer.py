"""Safety: a caller is told that its block is kept only if the index has it, or a letter in the store names it.

A writer adds a block for a while. If the index does not answer, it leaves a letter, and the block is added later. Until then
no query finds it: a read does not see a write that was completed before it. A caller that cannot have this uses no queue.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from highwater.impl.codecs.index.messages import encode
from highwater.impl.errors import AlreadyExists, Definite, NotFound, OutcomeUnknown, StoreError, Unavailable
from highwater.impl.index.letters.letter import key_of
from highwater.impl.index.library import InvalidArgument, TooLate
from highwater.impl.index.validate import invalid_block
from highwater.impl.raft.faults import TooLarge
from highwater.impl.world import World

Add = Callable[[Any], Awaitable[None]]  # a BlockMeta; raises StoreError
ADDED, KEPT = "added", "kept"
FINAL = (InvalidArgument, TooLate, TooLarge)  # the index refuses the block for ever


class Options(NamedTuple):
    """The settings of a writer. `retry_ms` is at most the index's `retry_ns`."""

    retry_ms: int = 10_000  # for so long the block is added again
    pause_ms: int = 500  # between two attempts
    attempts: int = 5  # to put the letter


USUAL = Options()


class LetterTaken(Definite):
    """Another block has the same shard, tenant and ULID, and a letter. This one is not kept."""


class Writer:
    """A writer of one index and one store."""

    def __init__(self, world: World, add: Add, options: Options = USUAL):
        """Make a writer; `add` asks the index."""
        self.world, self.ask, self.options = world, add, options

    async def add(self, block: Any) -> str:
        """Add a block, or leave a letter: return ADDED or KEPT.

        Raises InvalidArgument, TooLate and TooLarge if the index takes no such block, and LetterTaken. If the store does not
        answer either, it raises OutcomeUnknown if any request may have had an effect, else Unavailable. It may be called again
        after any error.
        """
        if (wrong := invalid_block(block)) is not None:
            raise InvalidArgument(wrong)
        until_ms, doubt = self.world.clock.monotonic_ms() + self.options.retry_ms, False
        while True:
            try:
                await self.ask(block)
                return ADDED
            except FINAL:
                raise
            except StoreError as error:
                why, doubt = str(error), doubt or not isinstance(error, Definite)
            if self.world.clock.monotonic_ms() >= until_ms:
                break
            await self.world.clock.sleep_ms(self.options.pause_ms)
        await self.leave(block, doubt)
        self.world.metrics.count("dead_letters_written")
        self.world.metrics.warn(f"block {block.id} is in no index yet, and its letter is in the queue: {why}")
        return KEPT

    async def leave(self, block: Any, doubt: bool = False) -> None:
        """Put a letter. Raises what `add` raises. `doubt`: the index may have the block."""
        key, body, why = key_of(block), encode(block), "each time a sweeper had just taken the letter"
        for left in reversed(range(self.options.attempts)):
            try:
                await self.world.store.create(key, body)
                return
            except AlreadyExists:
                asked, doubt = doubt, True  # that letter may be this block's
                try:
                    found = (await self.world.store.get(key)).body
                except NotFound:
                    continue  # it was swept; if that was an earlier block's, this one's still has to be put
                except StoreError as error:
                    why = str(error)
                else:
                    if found == body:
                        return
                    said = f"{key!r} has another block's metadata: give each block a ULID of its own"
                    raise (OutcomeUnknown if asked else LetterTaken)(said) from None
            except StoreError as error:
                why, doubt = str(error), doubt or not isinstance(error, Definite)
            if left:
                await self.world.clock.sleep_ms(self.options.pause_ms)
        said = f"{key!r} could not be put, {self.options.attempts} times over: {why}"
        raise OutcomeUnknown(said) if doubt else Unavailable(said)
