"""Safety: a database that is opened for a range neither changes nor shows a key outside it.

The database that a projection makes has the keys of a range, but its manifest has no place for the range. «currently, it is the
client responsibility to maintain the ranges associated with SlateDB instances»: so the range is an option of who opens it.
Released clients accept a write outside, and a union with a neighbour is then refused, or shows the key twice.
"""

from highwater.impl.errors import Definite
from highwater.impl.manifests.spans import Span, meet


class OutsideRange(Definite):
    """A write has a key outside the range that the database was opened for, or a read has no key inside it."""

    def __init__(self, asked: bytes | Span, of: Span):
        super().__init__(f"{asked if isinstance(asked, Span) else repr(asked)} is outside the range {of} of this database")


def check_key(key: bytes, of: Span) -> None:
    """Raise OutsideRange for a key that the range has not."""
    if key < of.start or of.ends_by(key):
        raise OutsideRange(key, of)


def inside(asked: Span, of: Span) -> Span:
    """Return the keys that both have. «read requests completely outside the visible_range» raise OutsideRange."""
    both = meet(asked, of)
    if both is None:
        raise OutsideRange(asked, of)
    return both
