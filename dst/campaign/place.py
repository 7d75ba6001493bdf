"""Define where a campaign is kept: in a folder, or in a bucket of an object store. Safety: only rows that the driver has
committed are rows of the campaign.

A driver is the process that runs a campaign. Its engine's workers write rows, wave by wave.
"""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa

from highwater.dst.campaign.folder import Asked, committed, opened, write_json
from highwater.dst.campaign.what import Campaign, Seeds


class Part(NamedTuple):
    """A Parquet file with the rows of some seeds, as its worker describes it. A bucket's driver names it in its journal."""

    name: str  # below the campaign's place
    size: int  # bytes
    sha256: str  # of the file, in hex
    low: int  # first seed
    high: int  # end, exclusive


class Target(Protocol):
    """The place for the rows of one wave's workers. It is sent to them, so it can be pickled."""

    def put(self, table: pa.Table, seeds: Seeds) -> Part:
        """Write the rows of these seeds, completely or not at all. Raises CampaignError."""
        ...


Wave = Callable[[Path | Target], list[Part]]
"""Run a wave: its workers write Parquet files into the folder, or give their rows to the target. Returns the target's parts."""


class Place(Protocol):
    """The place of one campaign."""

    out: Path  # the folder that holds the committed rows, or copies of them: folder.py reads it

    @property
    def name(self) -> str:
        """Return the name by which commands find the campaign again."""
        ...

    def opened(self, campaign: Campaign, asked: Asked) -> AbstractContextManager[None]:
        """Become the one driver of the campaign, for a block. Raises Refused, CampaignError."""
        ...

    def commit(self, run: Wave) -> Path:
        """Run a wave and commit its rows together. Returns the folder that holds them, or copies. Raises CampaignError."""
        ...

    def finish(self, summary: dict) -> None:
        """Keep the summary of the finished campaign. Raises CampaignError."""
        ...


class Folder:
    """A folder that the driver and all workers share, as folder.py keeps it."""

    def __init__(self, out: Path):
        self.out = out

    @property
    def name(self) -> str:
        return str(self.out)

    @contextmanager
    def opened(self, campaign: Campaign, asked: Asked) -> Generator[None, None, None]:
        with opened(self.out, campaign, asked):
            yield

    def commit(self, run: Wave) -> Path:
        with committed(self.out) as (writing, final):
            run(writing)
        return final

    def finish(self, summary: dict) -> None:
        write_json(self.out / "summary.json", summary)
