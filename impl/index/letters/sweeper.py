"""Safety: a letter is deleted only after its block is in the index, or a copy of the letter is in its place.

Every 15 seconds, the node that leads lists the letters and adds their blocks. A letter that is damaged is moved, and so is one
that the index refuses for ever. All others stay, also those that cannot be moved, for example because the key would be too
long. A letter that stays is logged once, and tried again after a pause that grows. So a bad letter stops nobody, and two
sweepers at once, of which one does not lead any more, do no harm: the index knows the block the second time.
"""

from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from highwater.impl.errors import AlreadyExists, Definite, NotFound
from highwater.impl.index.letters.letter import ASIDE, LONGEST_LETTER_BYTES, QUEUE, REJECTED, InvalidLetter, letter_of
from highwater.impl.index.library import InvalidArgument, TooLate
from highwater.impl.index.pauses import pause_ms, reason, repeat
from highwater.impl.index.service.codes import OverLimit
from highwater.impl.raft.faults import NotLeader, NotRunning, TooLarge
from highwater.impl.world import Entry, Task, World

Add = Callable[[Any], Awaitable[None]]  # a BlockMeta; raises StoreError
ENDS = (NotLeader, NotRunning)  # no other letter can be added either
MOST_STUCK_MS = 3_600_000  # between two attempts for one letter


class Options(NamedTuple):
    """The settings of a sweeper."""

    period_ms: int = 15_000  # between two sweeps
    at_once: int = 16  # letters whose blocks are added beside each other
    stuck: int = 10_000  # letters that stay, of which the pauses are remembered; their keys take 1 KB each at most


USUAL = Options()


class Stuck(NamedTuple):
    """A letter that stays. `why`: the class of the latest error; `until_ms`: it is not tried again before."""

    version: str
    failures: int
    why: type[Exception]
    until_ms: int


class Oversize(Definite):
    """An object in the queue that is too long for a letter. It is not read."""


async def ended(tasks: list[Task[None]]) -> None:
    """Cancel tasks, and return once all have ended, also if the caller is cancelled meanwhile: then raise that."""
    left, interrupted = list(reversed(tasks)), None
    for task in tasks:
        task.cancel()
    while left:
        try:
            await left[-1]
        except GeneratorExit:  # the process ends, and nothing of it takes a step any more
            raise
        except Exception:
            pass  # it was cancelled, or raised what the first one did
        except BaseException as error:
            if error is not interrupted:  # the caller is cancelled; a task raises the same error each time
                interrupted = error
                continue
        left.pop()
    if interrupted is not None:
        raise interrupted


class Sweeper:
    """A sweeper of one index and one store."""

    def __init__(self, world: World, add: Add, leads: Callable[[], bool], options: Options = USUAL):
        """Make a sweeper. `add` asks the index; `leads` tells whether this node leads, as far as it knows."""
        self.world, self.add, self.leads, self.options = world, add, leads, options
        self.stuck: dict[str, Stuck] = {}  # by key, the oldest first

    async def run(self) -> None:
        """Sweep until it is cancelled. Any error is a warning."""
        await repeat(self.world.clock, self.world.metrics, self.options.period_ms, "dead_letter_sweeps_failed",
                     "the sweep of the dead letters ended", self.swept)

    async def swept(self) -> None:
        """Sweep if this node leads. Raises what `sweep` raises."""
        if self.leads():
            await self.sweep()

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
        before = self.stuck.get(entry.key)
        if before is not None and before.version == entry.version and self.world.clock.monotonic_ms() < before.until_ms:
            return
        try:
            await self.settle(entry)
        except ENDS:
            raise
        except NotFound:
            pass  # another sweeper has settled it
        except Exception as error:  # whatever its bytes, its key or a response of the store bring about
            self.left(entry, error)
            return
        self.stuck.pop(entry.key, None)

    def left(self, entry: Entry, error: Exception) -> None:
        """Count a letter that stays, choose when to try it again, and log it unless that was done for this class of error."""
        before = self.stuck.pop(entry.key, None)
        again = before is not None and before.version == entry.version
        failures = before.failures + 1 if before is not None and again else 1
        wait_ms = pause_ms(self.options.period_ms, failures, MOST_STUCK_MS) if failures > 1 else 0
        self.stuck[entry.key] = Stuck(entry.version, failures, type(error), self.world.clock.monotonic_ms() + wait_ms)
        if len(self.stuck) > self.options.stuck:
            del self.stuck[next(iter(self.stuck))]
        self.world.metrics.count("dead_letters_left")
        if before is None or not again or before.why is not type(error):
            self.world.metrics.warn(f"{entry.key} stays for the next sweep: {reason(error)}")

    async def settle(self, entry: Entry) -> None:
        """Add the block of a letter, or copy the letter, and delete it then."""
        if entry.size_bytes > LONGEST_LETTER_BYTES:
            raise Oversize(f"it has {entry.size_bytes:,} bytes, and no letter has more than {LONGEST_LETTER_BYTES:,}; "
                           "move it elsewhere")
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
