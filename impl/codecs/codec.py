"""Says what a protocol needs of the codec of its files. A module with these two functions is one."""

from typing import Any, Protocol


class Codec(Protocol):
    """Encodes the values of one protocol, and decodes them."""

    def encode(self, value: Any, /) -> bytes:
        """Return the bytes of a file with this value."""
        ...

    def decode(self, body: bytes, /) -> Any:
        """Return the value of a file. Raises a Definite error if this codec did not write the file."""
        ...
