"""Says what a protocol needs of the codec of its files. A module with these two functions is one."""

from typing import Any, Protocol, Self

from highwater.impl.errors import Definite


class Undecodable(Definite):
    """Bytes of a file that this codec did not write: the byte, the field, and what is wrong with them."""

    def __init__(self, what: str, offset: int = 0, field: str = "file", key: str = ""):
        self.what, self.offset, self.field, self.key = what, offset, field, key
        super().__init__(f"{key}{': ' if key else ''}byte {offset}, {field}: {what}")

    def of(self, key: str, start: int = 0) -> Self:
        """Return the error for the object `key`, whose byte `start` is the first that was decoded."""
        return type(self)(self.what, start + self.offset, self.field, key)


class Codec(Protocol):
    """Encodes the values of one protocol, and decodes them."""

    def encode(self, value: Any, /) -> bytes:
        """Return the bytes of a file with this value."""
        ...

    def decode(self, body: bytes, /) -> Any:
        """Return the value of a file. Raises Undecodable, or another Definite error, if this codec did not write
        it."""
        ...
