"""Safety: an object is taken for a block only under a key that names the block, so nothing of another program is read as one.

    segments/SHARD/anonymous/ULID/block.bin     level 0: of several tenants
    blocks/SHARD/TENANT/ULID/block.bin          compacted; TENANT `anonymous` is the empty one
    dlq/.., dlq-rejected/..                     dead letters
"""

import re
from typing import Any, NamedTuple

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index.footer import footer_size_bytes, metadata_of
from highwater.impl.codecs.index.messages import encode
from highwater.impl.codecs.index.names import ANONYMOUS, block_path
from highwater.impl.codecs.index.strings import tenant_of
from highwater.impl.errors import BeyondEnd, Definite, NotFound
from highwater.impl.index.validate import invalid_block
from highwater.impl.world import ObjectStore

SEGMENT, BLOCK, LETTER, REJECTED, OTHER = KINDS = ("segment", "block", "letter", "rejected letter", "other")
FOLDERS = {"segments": SEGMENT, "blocks": BLOCK, "dlq": LETTER, "dlq-rejected": REJECTED}
BLOCK_KEY = re.compile(r"(segments|blocks)/(0|[1-9]\d*)/([^/]+)/([0-7][0-9A-HJKMNP-TV-Z]{25})/block\.bin", re.ASCII)
LAST_BYTES = 256  # that are read first: most footers are no longer


class Place(NamedTuple):
    """The meaning of a key. For other kinds than segments and blocks only the kind is told."""

    kind: str
    shard: int = 0
    tenant: str = ""
    ulid: str = ""


class OtherLayout(Definite):
    """A bucket that has objects, and none of an index."""


def place_of(key: str) -> Place:
    found = BLOCK_KEY.fullmatch(key)
    if not found:
        kind = FOLDERS.get(key.partition("/")[0], OTHER)
        return Place(kind if kind in (LETTER, REJECTED) else OTHER)
    folder, shard, tenant, ulid = found.groups()
    return Place(FOLDERS[folder], int(shard), "" if tenant == ANONYMOUS else tenant, ulid)


async def metadata_in(store: ObjectStore, key: str, size_bytes: int) -> tuple[bytes, str]:
    """Return the metadata of an object as its footer has it, with the object's size, and ""; or nothing, and what is wrong.

    Two ranges are read at most, of the object's end. Raises StoreError if the store does not answer.
    """
    try:
        tail = (await store.get_range(key, max(0, size_bytes - LAST_BYTES), size_bytes)).body if size_bytes else b""
        need = min(footer_size_bytes(tail), size_bytes)
        if need > len(tail):
            tail = (await store.get_range(key, size_bytes - need, size_bytes)).body
        block = metadata_of(tail, size_bytes)
    except NotFound:
        return b"", "it is gone since it was listed"
    except (Undecodable, BeyondEnd) as error:  # no other error says anything about the object
        return b"", f"its footer is damaged: {error}"
    wrong = misplaced(key, block)
    return (b"", wrong) if wrong else (encode(block), "")


def misplaced(key: str, block: Any) -> str:
    """Return what is wrong with a block, or with its having this key; "" if nothing is."""
    if (wrong := invalid_block(block)) is not None:
        return f"its metadata is not valid: {wrong}"
    own = block_path(block.shard, tenant_of(block), block.id, block.compaction_level)
    return "" if own == key else f"its metadata is of {own}"
