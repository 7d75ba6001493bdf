"""Encodes and decodes this repository's own compactions files: one JSON object, keys sorted, no spaces.

    {"compactor_epoch":1,"jobs":[["0.0","0.1"]]}

A job is the list of the names of the SSTs to merge. `jobs` has the jobs that were claimed and not finished. If their outputs
are objects, `ids` has the ULID of each job, in the same order. It is written only if it is not empty.
"""

import json
from typing import Any, NamedTuple

from highwater.impl.codecs.json.manifest import ENCODER
from highwater.impl.errors import Definite

Job = tuple[str, ...]  # names of the SSTs to merge


class Compactions(NamedTuple):
    """The decoded content of one compactions file."""

    compactor_epoch: int = 0
    jobs: tuple[Job, ...] = ()  # the claimed jobs
    ids: tuple[str, ...] = ()  # the ULID of each


class InvalidCompactions(Definite):
    """A file that this codec did not write."""


def frozen(value: Any) -> Any:
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def encode(compactions: Compactions) -> bytes:
    return ENCODER.encode({name: value for name, value in compactions._asdict().items() if value or name != "ids"}).encode()


def decode(body: bytes) -> Compactions:
    """Decode the bytes of a file. Raises InvalidCompactions."""
    try:
        return Compactions(**{name: frozen(value) for name, value in json.loads(body).items()})
    except (ValueError, TypeError, AttributeError) as error:
        raise InvalidCompactions(f"no compactions file: {body[:60]!r}: {error}") from None
