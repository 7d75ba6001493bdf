"""Copy a campaign from its bucket into a folder of this machine, for everything that reads folders. Safety: a copy has the rows
that the journal names, and no others; each part has the hash that the journal says.

The copies are a cache: `$XDG_CACHE_HOME/highwater/campaigns/HASH/`, HASH being that of the URL, the server and the journal's
first entry. So a bucket that was emptied and filled anew has another copy, and so has a copied prefix. What is in a copy is not
looked at again in the bucket. A copy is a campaign's folder (dst/campaign/folder.py) and these two:

    url         the URL that it was last copied from
    journal/    the journal's entries, which never change
"""

import asyncio
import hashlib
import os
from pathlib import Path
from secrets import token_hex

from highwater.dst.campaign.bucket.journal import Journal, State
from highwater.dst.campaign.bucket.parts import store_at
from highwater.dst.campaign.folder import URL, write_json
from highwater.dst.campaign.place import Part
from highwater.dst.campaign.what import CampaignError, Refused
from highwater.impl.errors import NotFound, StoreError
from highwater.impl.layout import Namespace
from highwater.impl.stores.s3 import named_endpoint
from highwater.impl.stores.system import system_world
from highwater.impl.world import ObjectStore

TOGETHER = 8  # GETs at a time
FIRST = Namespace("", "campaign").key(1)


class Lost(CampaignError):
    """Parts that the journal names are gone or damaged."""

    def __init__(self, url: str, names: list[str], copy: Path):
        self.names, self.copy = names, copy  # the copy has all other parts
        super().__init__(f"{len(names)} parts of {url} are gone or damaged ({names[0]}): `highwater campaign resume {url}` "
                         "runs their seeds again")


def caches() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "highwater" / "campaigns"


def fetched(url: str, whole: bool = True) -> Path:
    """Copy what is new in a campaign's bucket. Returns the copy. Raises Refused, CampaignError, and Lost if parts are gone or
    damaged, unless the copy need not be `whole`."""
    try:
        store = store_at(url)
    except ValueError as error:
        raise Refused(str(error)) from None
    try:
        return asyncio.run(copied(Journal(system_world(store), url), store))
    except Lost as error:
        if whole:
            raise
        return error.copy


async def copied(journal: Journal, store: ObjectStore) -> Path:
    """Read the journal to its end, and copy. Raises Refused if there is none, CampaignError, Lost."""
    url = journal.where
    try:
        first = (await store.get(FIRST)).body
        copy = caches() / hashlib.sha256("\0".join((url, named_endpoint(), "")).encode() + first).hexdigest()[:32]
        if not journal.entries:
            while (known := copy / "journal" / str(journal.next_id)).exists():
                journal.know(known.read_bytes())
        await journal.read()
        await journal.check_end()
    except NotFound:
        raise Refused(f"{url} holds no campaign: it has no {FIRST}") from None
    except StoreError as error:
        raise Refused(f"{url} cannot be read: {error}") from error
    await write(copy, journal, store)
    return copy


async def write(copy: Path, journal: Journal, store: ObjectStore) -> None:
    """Bring a copy to the journal's state. Raises CampaignError; Lost when all other parts are there."""
    (copy / "journal").mkdir(parents=True, exist_ok=True)
    (copy / "rows").mkdir(exist_ok=True)
    put(copy / URL, f"{journal.where}\n".encode())
    lost = await write_rows(copy, journal.state, store)
    write_json(copy / "campaign.json", journal.state.opened["label"])
    if journal.state.summary:
        write_json(copy / "summary.json", journal.state.summary)
    else:
        (copy / "summary.json").unlink(missing_ok=True)
    for number, body in enumerate(journal.entries, 1):
        if not (copy / "journal" / str(number)).exists():
            put(copy / "journal" / str(number), body)
    if lost:
        raise Lost(journal.where, lost, copy)


async def write_rows(copy: Path, state: State, store: ObjectStore) -> list[str]:
    """Copy the parts that are not there. Returns the names of those that are gone or damaged. Raises CampaignError."""
    wanted = {path_of(copy, number, part): part for number, parts in state.waves.items() for part in parts}
    for file in (copy / "rows").rglob("*.parquet"):
        if file not in wanted and not file.name.startswith("."):
            file.unlink(missing_ok=True)  # of a part that was lost
    for number in state.waves:
        (copy / "rows" / f"wave={number}").mkdir(exist_ok=True)
    lost, todo = [], [(path, part) for path, part in wanted.items() if not path.exists()]
    for begin in range(0, len(todo), TOGETHER):
        some = todo[begin:begin + TOGETHER]
        for (path, part), body in zip(some, await asyncio.gather(*(body_of(store, part) for _, part in some))):
            if body is None:
                lost.append(part.name)
            else:
                put(path, body)
    for number, at_ms in state.at_ms.items():
        os.utime(copy / "rows" / f"wave={number}", (at_ms / 1000, at_ms / 1000))  # as in a folder: when it was committed
    return lost


def path_of(copy: Path, number: int, part: Part) -> Path:
    return copy / "rows" / f"wave={number}" / f"{part.low}-{part.high}-{part.sha256}.parquet"


async def body_of(store: ObjectStore, part: Part) -> bytes | None:
    """Return the bytes of a part; None if it is gone, or not what was named. Raises CampaignError."""
    try:
        body = (await store.get(part.name)).body
    except NotFound:
        return None
    except StoreError as error:
        raise CampaignError(f"{part.name} cannot be read: {error}") from error
    return body if (len(body), hashlib.sha256(body).hexdigest()) == (part.size, part.sha256) else None


def put(path: Path, body: bytes) -> None:
    half = path.with_name(f".{path.name}.{token_hex(4)}")
    half.write_bytes(body)
    half.replace(path)
