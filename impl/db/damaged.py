"""Say where bytes are damaged: which object, which byte, which field."""

from typing import NamedTuple

from highwater.impl.errors import Definite


class DamagedObject(Definite):
    """Bytes of an object that do not mean anything. No row of it is returned after this."""

    def __init__(self, key: str, offset: int, field: str, what: str):
        self.key, self.offset, self.field = key, offset, field
        super().__init__(f"{key}: byte {offset}, {field}: {what}")


class Place(NamedTuple):
    """A part of an object, for the text of an error."""

    key: str
    offset: int  # of the part's first byte in the object
    part: str  # "block 3", "index"
    packed: bool = False  # the part is compressed in the object; offsets in it count its content

    def damaged(self, at: int, field: str, what: str) -> DamagedObject:
        """Return the error for the byte `at` of this part."""
        if self.packed:
            return DamagedObject(self.key, self.offset, f"{self.part}, {field} at byte {at} of its content", what)
        return DamagedObject(self.key, self.offset + at, f"{self.part}, {field}", what)
