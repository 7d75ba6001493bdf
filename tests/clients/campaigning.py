"""A campaign in a bucket as a client to test, without the probe of the store.

    python -m tests.clients.campaigning WHAT URL [BUG]

WHAT is run or check. The check resumes the campaign, and compares its rows and its summary with those of a folder. The BUG
`unrecognised` is a driver that commits a wave again if the reply was lost."""

import asyncio
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path

from highwater.dst.campaign import waves
from highwater.dst.campaign.bucket.driver import Bucket
from highwater.dst.campaign.bucket.journal import Journal
from highwater.dst.campaign.folder import Asked, read
from highwater.dst.campaign.place import Folder, Part, Place
from highwater.dst.campaign.processes import write_range
from highwater.dst.campaign.rows import SCHEMA
from highwater.dst.campaign.what import campaign_of
from highwater.impl.errors import OutcomeUnknown
from highwater.impl.protocols.sequenced_write import NextFile

SEEDS, SIZE = (0, 4), 1
FIRST = 2  # seeds of the first wave: so there are two waves


def here(work, ranges, target, progress) -> list[Part]:
    return [part for seeds in ranges for part in write_range(work, seeds, target)[0]]


def run(place: Place) -> tuple[dict, list[dict]]:
    summary = waves.run(campaign_of("baseline"), Asked(SEEDS, 0, SIZE), place, lambda: nullcontext(here), 1).summary
    return summary, read(place.out, SEEDS, SCHEMA.names).drop_columns(["cpu_us"]).sort_by("seed").to_pylist()


async def unrecognised(self: Journal, kind: str, epoch: int, token: str, fields: dict) -> bool:
    try:
        return await created(self, kind, epoch, token, fields)
    except OutcomeUnknown:
        await asyncio.sleep(1)
        await self.read()
        return False


created = Journal._created


def main(what: str, url: str, bug: str = "") -> int:
    waves.FIRST_SEEDS = FIRST
    place = Bucket(url)
    if bug:
        Journal._created = unrecognised
        place.journal.next_file = NextFile(place.journal.storage, "report")
    with tempfile.TemporaryDirectory() as folder:
        found = run(place)
        return 0 if what == "run" or found == run(Folder(Path(folder) / "rows")) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
