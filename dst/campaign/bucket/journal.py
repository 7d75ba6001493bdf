"""The journal of a campaign in a bucket. Safety: of several drivers one is in force, the one that began the latest epoch; what
others add after that has no effect. An entry whose PUT lost its reply is in the journal once, or not at all.

The journal is a log of impl/protocols/sequenced_write.py. An entry is a JSON object with its `id`, `kind`, `epoch`, `token` and
`at_ms`:

    opened     a driver begins its epoch: the campaign, its code and what is requested, as in campaign.json of a folder
    wave       the parts with the rows of a wave, each with its name, size, hash and seeds
    lost       parts of earlier waves that are damaged or gone: their seeds are run again
    finished   the summary; it holds until the next driver opens the campaign

Nothing is deleted from it. The token is new for each entry, and stays the same when that is tried again. So a driver's own
entry differs from any other's.
"""

import json
from collections.abc import Iterable
from secrets import token_hex
from typing import Any

from highwater.dst.campaign.place import Part
from highwater.dst.campaign.what import CampaignError
from highwater.impl.errors import NotFound
from highwater.impl.layout import Namespace
from highwater.impl.protocols.sequenced_storage import FIRST_ID, SequencedStorage
from highwater.impl.protocols.sequenced_write import NextFile
from highwater.impl.world import World

KINDS = {"opened": ("label",), "wave": ("parts",), "lost": ("names",), "finished": ("summary",)}
MEND = "restore it from a copy of the bucket, or give a new prefix"
Entry = dict[str, Any]


def is_entry(entry: Entry) -> bool:
    """Return whether a decoded entry has all that its kind needs, each of its type. Raises KeyError, TypeError, AttributeError,
    ValueError."""
    if not {"token", "at_ms", *KINDS[entry["kind"]]} <= entry.keys() or type(entry["epoch"]) is not int:
        return False
    parts = [Part(*part) for part in entry.get("parts", ())]
    return all([type(value) for value in part] == [str, int, str, int, int] for part in parts) and (
        entry["kind"] != "opened" or type(entry["label"]) is dict) and type(entry["at_ms"]) is int


class Fenced(CampaignError):
    """Another driver has begun a later epoch."""


class State:
    """The meaning of the entries up to some point."""

    def __init__(self, entries: Iterable[Entry] = ()):
        self.epoch = 0  # the latest; 0: nobody has opened the campaign yet
        self.opened: Entry = {}  # the latest
        self.waves: dict[int, list[Part]] = {}  # id of the entry -> its parts, without the lost ones
        self.at_ms: dict[int, int] = {}  # id of the entry -> when it was made, by its driver's clock
        self.summary: dict = {}
        self.ids = 0  # of the entries so far
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        self.ids += 1
        if entry["kind"] == "opened":
            if entry["epoch"] > self.epoch:
                self.epoch, self.opened, self.summary = entry["epoch"], entry, {}
        elif entry["epoch"] != self.epoch:
            pass  # of a driver that did not notice that it was no longer in force: `Journal.add` does
        elif entry["kind"] == "wave":
            self.waves[self.ids], self.at_ms[self.ids] = [Part(*part) for part in entry["parts"]], entry["at_ms"]
        elif entry["kind"] == "lost":
            names = set(entry["names"])
            self.waves = {number: [part for part in parts if part.name not in names] for number, parts in self.waves.items()}
        else:
            self.summary = entry["summary"]

    @property
    def parts(self) -> list[Part]:
        return [part for parts in self.waves.values() for part in parts]


class Journal:
    """The journal as one process knows it. `entries`: the bodies read or written so far, in order."""

    def __init__(self, world: World, where: str):
        self.world, self.where = world, where
        self.storage = SequencedStorage(world, Namespace("", "campaign"))
        self.next_file = NextFile(self.storage, "recognise")
        self.entries: list[bytes] = []
        self.state = State()

    @property
    def next_id(self) -> int:
        return FIRST_ID + len(self.entries)

    async def read(self) -> State:
        """Read the entries that are new. Raises CampaignError, StoreError."""
        while True:
            try:
                self.know(await self.storage.read(self.next_id))
            except NotFound:
                return self.state

    def know(self, body: bytes) -> Entry:
        """Add the next entry, as it was read or created. Raises CampaignError."""
        entry = self.entry_of(body)
        self.entries.append(body)
        self.state.add(entry)
        return entry

    def entry_of(self, body: bytes) -> Entry:
        try:
            entry = json.loads(body)
            if is_entry(entry) and entry["id"] == self.next_id:
                return entry
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        key = self.storage.namespace.key(self.next_id)
        raise CampaignError(f"{key} in {self.where} is no entry of a campaign's journal, or not this one: {MEND}")

    async def check_end(self) -> None:
        """Check that no entry stands behind one that is missing. Raises CampaignError, StoreError."""
        later = await self.storage.list(self.next_id - 1)
        if later and (await self.read(), self.next_id)[1] <= later[-1].id:
            raise CampaignError(f"{self.storage.namespace.key(self.next_id)} in {self.where} is missing, and entries up to "
                                f"{later[-1].id} are there: {MEND}")

    async def open(self, **fields: Any) -> int:
        """Begin the next epoch, in the place of any other driver. Returns the epoch. Raises CampaignError, StoreError."""
        token = token_hex(16)
        while True:
            await self.read()
            epoch = self.state.epoch + 1
            if await self._created("opened", epoch, token, fields):
                return epoch

    async def add(self, epoch: int, kind: str, **fields: Any) -> None:
        """Add an entry of this epoch. Raises Fenced, CampaignError, StoreError (OutcomeUnknown: it may be in the journal)."""
        token = token_hex(16)
        while not await self._created(kind, epoch, token, fields):
            if self.state.epoch != epoch:
                raise Fenced(f"{self.where}: another driver has taken over (epoch {self.state.epoch}; this one had {epoch}). "
                             "Its waves count from there, so this driver stops")

    async def _created(self, kind: str, epoch: int, token: str, fields: Entry) -> bool:
        """Create the next file. False if another entry is there; it is known then."""
        entry = {"id": self.next_id, "kind": kind, "epoch": epoch, "token": token, "at_ms": self.world.clock.now_ms(), **fields}
        body = json.dumps(entry).encode()
        lost = await self.next_file.create(self.next_id, body)
        if lost is None:
            self.know(body)
            return True
        self.know(lost.body if lost.body is not None else await self.storage.read(self.next_id))
        return False
