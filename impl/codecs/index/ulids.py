"""Safety: what passes here as a ULID has one text only, so that two texts never name one block.

Strict means upper-case letters of Crockford's base 32, 26 of them, the first at most 7. Pyroscope's decoder lets other letters
pass. The first 48 bits are the time of creation.
"""

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.slatedb.flatbuffer import number_of_ulid, ulid_of

RANDOM = 80  # bits of a ULID after its time
LENGTH = 26
NS_PER_MS = 1_000_000


class InvalidUlid(Undecodable):
    """A text that is not a ULID."""


def time_ms(ulid: str) -> int:
    """Return when the block was created. Raises InvalidUlid."""
    try:
        return number_of_ulid(ulid) >> RANDOM
    except ValueError as error:
        raise InvalidUlid(str(error), field="ULID") from None


def time_ns(ulid: str) -> int:
    """Return when the block was created. Raises InvalidUlid."""
    return time_ms(ulid) * NS_PER_MS


def made(at_ms: int, entropy: bytes) -> str:
    """Return the ULID of this time and these 10 bytes. Raises InvalidUlid for a time that does not fit 48 bits."""
    if not 0 <= at_ms < 1 << 48:
        raise InvalidUlid(f"{at_ms} ms do not fit a ULID", field="ULID")
    return ulid_of(at_ms << RANDOM | int.from_bytes(entropy[:10]))
