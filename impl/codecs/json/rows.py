"""Encodes and decodes rows: the content of an SST, or of a WAL object, of this repository's own form.

    [[7,"key","value"],[8,"key",null]]

A row is a sequence number, a key, and a value; null: the key was deleted. Rows come in the order of their sequence numbers.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple

from highwater.impl.errors import Definite


class Row(NamedTuple):
    """One version of a key."""

    seq: int
    key: str
    value: str | None


class InvalidRows(Definite):
    """An object that this codec did not write."""


def encode_rows(rows: Iterable[Row]) -> bytes:
    return json.dumps([list(row) for row in rows], separators=(",", ":")).encode()


def decode_rows(body: bytes) -> tuple[Row, ...]:
    """Decode an object. An empty one is a fence of the WAL, which has no row. Raises InvalidRows."""
    try:
        rows = tuple(Row(*one) for one in json.loads(body)) if body else ()
        if any((type(of.seq), type(of.key)) != (int, str) or type(of.value) not in (str, type(None)) for of in rows):
            raise TypeError("a row is a number, a key and a value")
    except (ValueError, TypeError) as error:
        raise InvalidRows(f"not rows: {body[:60]!r}: {error}") from None
    return rows
