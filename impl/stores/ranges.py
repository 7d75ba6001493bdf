"""Safety: a range of an object is the same bytes in every store here, and the same error where the object has none."""

from highwater.impl.errors import BeyondEnd
from highwater.impl.world import Object


def check_range(start: int, end: int) -> None:
    """Check that a range has a byte. Raises ValueError."""
    if not 0 <= start < end:
        raise ValueError(f"bad range from {start:,} up to before {end:,}: it has no byte")


def part_of(found: Object, key: str, start: int, end: int) -> Object:
    """Return what `get_range` returns of an object that was read whole. Raises BeyondEnd."""
    if start >= len(found.body):
        raise BeyondEnd(key)
    return found._replace(body=found.body[start:end])
