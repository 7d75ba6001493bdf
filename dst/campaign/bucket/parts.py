"""Put rows into a bucket, from a worker. Safety: no part replaces another one, and none counts before the driver has named it.

The name of a part is new, so a worker sends a PUT without an answer again. A worker that has died may leave a part that nobody
names; `campaign tidy` deletes it.
"""

import asyncio
import io
from hashlib import sha256
from secrets import token_hex
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.dst.campaign.place import Part
from highwater.dst.campaign.what import CampaignError, Seeds
from highwater.impl.errors import AlreadyExists, OutcomeUnknown, StoreError
from highwater.impl.stores.s3 import S3Store, connect
from highwater.impl.stores.system import Ulids
from highwater.impl.world import ObjectStore

ATTEMPTS = 8  # of each request: a busy store is given ten seconds or more
PAUSE_S = 0.1  # after the first attempt; it doubles with each further one
ROWS = "rows/"


def bucket_of(url: str) -> tuple[str, str]:
    """Split s3://BUCKET/PREFIX. Raises ValueError."""
    scheme, _, place = url.partition("://")
    bucket, _, prefix = place.partition("/")
    if scheme != "s3" or not bucket:
        raise ValueError(f"{url!r} is no bucket: write s3://BUCKET/PREFIX")
    return bucket, prefix.strip("/")


def store_at(url: str, endpoint: str | None = None) -> S3Store:
    """Return the store of a bucket, below the prefix. Raises ValueError."""
    bucket, prefix = bucket_of(url)
    return S3Store(connect(endpoint), bucket, prefix, ids=Ulids(), attempts=ATTEMPTS)


def folder_of(epoch: int) -> str:
    return f"{ROWS}{epoch:020d}/"


class Parts(NamedTuple):
    """The place for the rows of an epoch's workers. Credentials come from each worker's own environment."""

    url: str
    endpoint: str | None  # None: as the worker's environment says
    epoch: int

    def put(self, table: pa.Table, seeds: Seeds) -> Part:
        """Put the rows into a new object. Raises CampaignError."""
        packed = io.BytesIO()
        pq.write_table(table, packed)
        return asyncio.run(created(store_at(self.url, self.endpoint), self.epoch, packed.getvalue(), seeds))


async def created(store: ObjectStore, epoch: int, body: bytes, seeds: Seeds) -> Part:
    """Create a part. The token in its name is this call's: if the part exists after a PUT without an answer, that PUT made it.
    """
    name = f"{folder_of(epoch)}{seeds[0]}-{seeds[1]}-{token_hex(16)}.parquet"
    doubt, why = False, ""
    for attempt in range(ATTEMPTS):
        try:
            await store.create(name, body)
            break
        except AlreadyExists as error:
            if doubt:
                break
            why = str(error)
        except OutcomeUnknown as error:
            doubt, why = True, str(error)
        except StoreError as error:
            why = str(error)
        await asyncio.sleep(PAUSE_S * 2 ** attempt)
    else:
        raise CampaignError(f"the rows of seeds {seeds[0]} to {seeds[1] - 1} cannot be put: {why}")
    return Part(name, len(body), sha256(body).hexdigest(), *seeds)
