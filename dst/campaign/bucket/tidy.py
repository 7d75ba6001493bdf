"""Delete what killed workers and drivers have left in a campaign's bucket. Safety: a part that the journal names, or may still
come to name, is never deleted."""

import asyncio
from typing import NamedTuple

from highwater.dst.campaign.bucket.journal import Journal
from highwater.dst.campaign.bucket.parts import ROWS, folder_of, store_at
from highwater.dst.campaign.what import CampaignError, Refused
from highwater.impl.errors import Definite, StoreError
from highwater.impl.stores.system import system_world
from highwater.impl.world import Entry, list_all


class Tidied(NamedTuple):
    """The parts that nobody named, in epochs before `epoch`, the latest. The parts of the latest epoch are left alone, because
    its driver may still name them."""

    epoch: int
    names: list[str]
    size: int  # bytes


def tidy(url: str, dry_run: bool) -> Tidied:
    """Delete the parts of earlier epochs that the journal does not name. Raises Refused, CampaignError."""
    try:
        return asyncio.run(tidied(url, dry_run))
    except ValueError as error:
        raise Refused(str(error)) from None
    except Definite as error:
        raise Refused(f"{url}: {error}") from error
    except StoreError as error:
        raise CampaignError(f"{url}: {error}") from error


async def tidied(url: str, dry_run: bool) -> Tidied:
    store = store_at(url)
    journal = Journal(system_world(store), url)
    state = await journal.read()
    await journal.check_end()  # else what later entries name would be deleted
    if not state.epoch:
        raise Refused(f"{url} holds no campaign")
    named = {part.name for part in state.parts}
    left: list[Entry] = [entry for entry in await list_all(store, ROWS)
                         if entry.key < folder_of(state.epoch) and entry.key not in named]
    if not dry_run:
        for entry in left:
            await store.delete(entry.key)
    return Tidied(state.epoch, [entry.key for entry in left], sum(entry.size_bytes for entry in left))
