"""Safety: a letter is deleted only after its block is in the index, or a copy of the letter is in its place.

Every 15 seconds, the node that leads lists the letters and adds their blocks. A letter that is damaged is moved, and so is one
that the index refuses for ever. All others stay for the next sweep. So a bad letter stops nobody, and two sweepers at once,
of which one does not lead any more, do no harm: the index knows the block the second time.
"""

from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from highwater.impl.errors import AlreadyExists, NotFound, StoreError
from highwater.impl.index.letters.letter import ASIDE, LONGEST_LETTER_BYTES, QUEUE, REJECTED, InvalidLetter, letter_of
from highwater.impl.index.library import InvalidArgument, TooLate
from highwater.impl.index.service.codes import OverLimit
from highwater.impl.raft.faults import NotLeader, NotRunning, TooLarge
from highwater.impl.world import Entry, Task, World

Add = Callable[[Any], Awaitable[None]]  # a BlockMeta; raises StoreError
ENDS = (NotLeader, NotRunning)  # no other letter can be added either


class Options(NamedTuple):
    """The settings of a sweeper."""

    period_ms: int = 15_000  # between two sweeps
    at_once: int = 16  # letters whose blocks are added beside each other


USUAL = Options()


async def ended(tasks: list[Task[None]]) -> None:
    """Cancel tasks, and return once all have ended, also if the caller is cancelled meanwhile: then raise that."""
    try:
        for task in tasks:
            task.cancel()
        for task in tasks:
            try:
                await task
            except StoreError:
                pass  # it was cancelled, or raised what the first one did
    except GeneratorExit:  # the process ends, and nothing of it takes a step any more
        raise
    except BaseException:
        await ended(tasks)
        raise


class Sweeper:
    """A sweeper of one index and one store."""

    def __init__(self, world: World, add: Add, leads: Callable[[], bool], options: Options = USUAL):
        """Make a sweeper. `add` asks the index; `leads` tells whether this node leads, as far as it knows."""
        self.world, self.add, self.leads, self.options = world, add, leads, options

    async def run(self) -> None:
        """Sweep until it is cancelled. What goes wrong is a warning."""
        while True:
            await self.world.clock.sleep_ms(self.options.period_ms)
            if self.leads():
                try:
                    await self.sweep()
                except StoreError as error:
                    self.world.metrics.warn(f"the sweep of the dead letters ended: {error}")

    async def sweep(self) -> None:
        """Handle each letter of one listing. Raises NotLeader, NotRunning, and what listing raises."""
        after = ""
        while True:
            page = await self.world.store.list_page(QUEUE, after)
            await self.handle(iter(page.entries))
            if not page.truncated or not page.entries:
                return
            after = page.entries[-1].key

    async def handle(self, entries: Iterator[Entry]) -> None:
        """Handle letters, several at once. Each task takes the next one that is left."""
        async def work() -> None:
            for entry in entries:
                await self.one(entry)

        tasks = [self.world.clock.spawn(work(), f"letters {number}") for number in range(self.options.at_once)]
        try:
            for task in tasks:
                await task
        except GeneratorExit:  # the process ends, and nothing of it takes a step any more
            raise
        except BaseException:
            await ended(tasks)
            raise

    async def one(self, entry: Entry) -> None:
        """Handle one letter. Raises NotLeader and NotRunning; anything else leaves the letter where it is, with a warning."""
        try:
            await self.settle(entry)
        except ENDS:
            raise
        except NotFound:
            pass  # another sweeper has settled it
        except StoreError as error:
            self.left(entry.key, str(error))

    def left(self, key: str, why: str) -> None:
        self.world.metrics.count("dead_letters_left")
        self.world.metrics.warn(f"{key} stays for the next sweep: {why}")

    async def settle(self, entry: Entry) -> None:
        """Add the block of a letter, or copy the letter, and delete it then."""
        if entry.size_bytes > LONGEST_LETTER_BYTES:
            self.left(entry.key, f"it has {entry.size_bytes:,} bytes, and no letter has more than {LONGEST_LETTER_BYTES:,}; "
                                 "move it elsewhere")
            return
        body = (await self.world.store.get(entry.key)).body
        try:
            await self.add(letter_of(entry.key, body))
        except (InvalidLetter, InvalidArgument, OverLimit, TooLarge) as error:
            await self.copy(entry.key, REJECTED, body, str(error))
            self.world.metrics.count("dead_letters_rejected")
        except TooLate as error:
            await self.copy(entry.key, ASIDE, body, str(error))
            self.world.metrics.count("dead_letters_aside")
        else:
            self.world.metrics.count("dead_letters_added")
        await self.world.store.delete(entry.key)

    async def copy(self, key: str, prefix: str, body: bytes, why: str) -> None:
        """Put a copy of a letter under another prefix. A copy with other bytes stays: this one gets a name of its own."""
        place = prefix + key.removeprefix(QUEUE)
        for name in (place, f"{place}.{sha256(body).hexdigest()[:16]}"):
            try:
                await self.world.store.create(name, body)
            except AlreadyExists:
                if (await self.world.store.get(name)).body != body:
                    continue
            self.world.metrics.warn(f"{key} is moved to {name}: {why}")
            return
        raise AlreadyExists(place)
