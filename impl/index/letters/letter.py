"""Safety: a letter adds only the block that its key names, and no block that the index would refuse.

A letter is the metadata of a block that its writer could not add, at `dlq/{shard}/{tenant}/{id}/meta.pb`. One that cannot be
added is moved: to `dlq-rejected/` if it is damaged or invalid, to `dlq-aside/` if the index refuses it for ever. The rest of
its key stays the same.
"""

from typing import Any

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index.messages import BlockMeta, decode
from highwater.impl.codecs.index.names import dead_letter_path
from highwater.impl.codecs.index.strings import tenant_of
from highwater.impl.index.validate import LARGEST_BLOCK_BYTES, invalid_block

QUEUE, REJECTED, ASIDE = "dlq/", "dlq-rejected/", "dlq-aside/"
LONGEST_LETTER_BYTES = LARGEST_BLOCK_BYTES


class InvalidLetter(Undecodable):
    """An object that is no letter, or a letter of a block that no index takes. The message says why."""


def key_of(block: Any) -> str:
    """Return the key of a valid block's letter."""
    return dead_letter_path(block.shard, tenant_of(block), block.id)


def letter_key(key: str) -> str:
    """Return the key that a letter had in the queue, wherever it is now. One that was moved may have a suffix."""
    for prefix in (REJECTED, ASIDE):
        if key.startswith(prefix):
            folder, _, name = key.removeprefix(prefix).rpartition("/")
            return f"{QUEUE}{folder}/{name[:len('meta.pb')]}"
    return key


def letter_of(key: str, body: bytes) -> Any:
    """Return the block of a letter. Raises InvalidLetter."""
    try:
        block = decode(BlockMeta, body, "letter")
    except Undecodable as error:
        raise InvalidLetter(str(error), field="letter") from None
    if (wrong := invalid_block(block)) is not None:
        raise InvalidLetter(wrong, field="letter")
    if key_of(block) != letter_key(key):
        raise InvalidLetter(f"it has the block of {key_of(block)!r}", field="letter")
    return block
