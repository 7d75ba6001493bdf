"""Read the footers of many objects of an index, in a worker. Safety: each object has one row, with its metadata or a reason."""

import asyncio
import base64
import os
from collections.abc import Sequence
from urllib.parse import unquote

from highwater.dst.campaign.bucket.parts import store_at
from highwater.impl.index.bucket.objects import metadata_in
from highwater.impl.stores.local import LocalStore
from highwater.impl.world import ObjectStore

TOGETHER = 32  # requests at a time
Listed = tuple[str, int]  # key, size in bytes
Read = tuple[str, int, str, bytes]  # key, size in bytes, what is wrong, metadata


def opened(url: str, endpoint: str) -> ObjectStore:
    """Open the store of a bucket or a folder to read it. Raises ValueError."""
    scheme, separator, place = url.partition("://")
    if separator and scheme != "file":
        return store_at(url, endpoint or None)
    folder = unquote(place) if separator else url
    if not os.path.isdir(folder):
        raise ValueError(f"there is no folder {folder!r}")
    return LocalStore(folder, read_only=True, threads=False)


def read(url: str, endpoint: str, objects: Sequence[Listed]) -> list[Read]:
    """Read the footers of these objects, in order. Raises StoreError if the store does not answer."""
    return asyncio.run(all_read(opened(url, endpoint), objects))


async def all_read(store: ObjectStore, objects: Sequence[Listed]) -> list[Read]:
    if isinstance(store, LocalStore):
        return [await one_read(store, key, size) for key, size in objects]
    found: list[Read] = []
    for begin in range(0, len(objects), TOGETHER):
        found += await asyncio.gather(*(one_read(store, key, size) for key, size in objects[begin:begin + TOGETHER]))
    return found


async def one_read(store: ObjectStore, key: str, size: int) -> Read:
    metadata, wrong = await metadata_in(store, key, size)
    return key, size, wrong, metadata


def as_json(url: str, endpoint: str, objects: Sequence[Listed], *_: str) -> list[list]:
    """The same for JSON."""
    return [[*row[:3], base64.b64encode(row[3]).decode()] for row in read(url, endpoint, objects)]
