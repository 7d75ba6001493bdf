"""Drive a campaign whose place is a bucket. Safety: each wave is committed by one entry of the journal, in this driver's epoch,
so that a second driver ends the first and no seed is lost or counted twice."""

import asyncio
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from highwater.dst.campaign.bucket.copy import Lost, copied, write
from highwater.dst.campaign.bucket.journal import Journal
from highwater.dst.campaign.bucket.parts import Parts, store_at
from highwater.dst.campaign.folder import VERSION, Asked, commit, compare, of_project, place_of_project
from highwater.dst.campaign.place import Wave
from highwater.dst.campaign.what import Campaign, CampaignError, Refused
from highwater.impl.errors import OutcomeUnknown, StoreError
from highwater.impl.stores.s3 import named_endpoint
from highwater.impl.stores.system import system_world

Result = TypeVar("Result")


class Bucket:
    """A bucket, below a prefix. Raises Refused for a bad URL."""

    def __init__(self, url: str):
        try:
            self.store = store_at(url)
        except ValueError as error:
            raise Refused(str(error)) from None
        self.url, self.journal, self.epoch = url.rstrip("/"), Journal(system_world(self.store), url.rstrip("/")), 0
        self.out = Path()  # once it is opened: its copy on this machine

    @property
    def name(self) -> str:
        return self.url

    @contextmanager
    def opened(self, campaign: Campaign, asked: Asked) -> Generator[None, None, None]:
        """Begin an epoch; any other driver stops at its next wave. Raises Refused, CampaignError."""
        label = {"version": VERSION, **campaign._asdict(), **of_project()}
        try:
            state = asyncio.run(self.journal.read())
            if state.opened:
                compare(self.url, state.opened["label"], label)
            more = {**place_of_project(), "commit": commit(), "asked": asked._asdict()}
            self.epoch = asyncio.run(self.journal.open(label=label | more))
        except OutcomeUnknown as error:
            raise CampaignError(f"{self.url} does not answer: {error}") from error
        except StoreError as error:
            raise Refused(f"{self.url} cannot be used: {error}") from error
        self.out = self._run(self._copied())
        yield

    def commit(self, run: Wave) -> Path:
        parts = run(Parts(self.url, named_endpoint() or None, self.epoch))
        self._run(self.journal.add(self.epoch, "wave", parts=sorted(parts, key=lambda part: part.low)))
        number = len(self.journal.entries)
        self._run(self._copied())
        return self.out / "rows" / f"wave={number}"

    def finish(self, summary: dict) -> None:
        self._run(self.journal.add(self.epoch, "finished", summary=summary))
        self._run(write(self.out, self.journal, self.store))

    async def _copied(self) -> Path:
        """Copy what the journal says. Parts that are gone or damaged are given up, so that their seeds run again."""
        for _ in range(2):
            try:
                return await copied(self.journal, self.store)
            except Lost as error:
                await self.journal.add(self.epoch, "lost", names=error.names)
        return await copied(self.journal, self.store)

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        try:
            return asyncio.run(work)
        except StoreError as error:
            raise CampaignError(f"{self.url} does not answer: {error}") from error
