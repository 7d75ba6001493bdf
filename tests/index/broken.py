"""The commands of an index with a known bug: `python -m tests.index.broken BUG index serve ..`. A story has to notice each.

    letters       the sweeper deletes a letter before its block is added
    removed       a block that was compacted is added again
    hasty         objects are deleted without a delay
    idle          workers confirm deletions that they have not done
    boundary      retention drops a unit though it has later data
"""

import sys
from typing import Any

from highwater.cli.main import main
from highwater.impl.codecs.index.messages import TombstoneKey
from highwater.impl.index import removed, retention, tombstones
from highwater.impl.index.compaction.worker import Worker
from highwater.impl.index.letters.letter import InvalidLetter, letter_of
from highwater.impl.index.letters.sweeper import Sweeper
from highwater.impl.index.library import InvalidArgument, TooLate


async def settle(self: Sweeper, entry: Any) -> None:
    body = (await self.world.store.get(entry.key)).body
    await self.world.store.delete(entry.key)
    try:
        await self.add(letter_of(entry.key, body))
    except (InvalidLetter, InvalidArgument) as error:
        await self.copy(entry.key, "dlq-rejected/", body, str(error))
    except TooLate as error:
        await self.copy(entry.key, "dlq-aside/", body, str(error))


def letters() -> None:
    Sweeper.settle = settle  # pyright: ignore[reportAttributeAccessIssue]


def removed_again() -> None:
    removed.is_removed = lambda rows, block: False


def hasty() -> None:
    tombstones.is_due = lambda stored, now_ns, config: True


def idle() -> None:
    async def delete(self: Worker, told: Any) -> Any:
        return TombstoneKey(index=told.index, name=tombstones.name_of(told))

    Worker.delete = delete  # pyright: ignore[reportAttributeAccessIssue]


def boundary() -> None:
    def is_over(policy: Any, unit: Any, times: Any, now_ns: int) -> bool:
        period_ns = retention.period_s(policy, unit.tenant) * retention.S
        return period_ns > 0 and unit.partition.end_ns + period_ns <= now_ns

    retention.is_over = is_over


BUGS = {"letters": letters, "removed": removed_again, "hasty": hasty, "idle": idle, "boundary": boundary}

if __name__ == "__main__":
    BUGS[sys.argv.pop(1)]()
    main()
