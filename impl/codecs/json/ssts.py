"""Names an SST by the records in it, so that a manifest can be judged without its data files.

    <id>~<epoch>~<body, base64url>+<id>~<epoch>~<body, base64url>

A real name refers to a file with these records. Neither `+` nor `~` is a letter of base64url or of a record's id.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from functools import lru_cache

from highwater.impl.codecs.json.manifest import InvalidManifest
from highwater.impl.codecs.json.wal import Record


def name_of(records: Iterable[Record]) -> str:
    """Return the name of the SST with these records, in the order of the log."""
    return "+".join(f"{record.id}~{record.epoch}~{urlsafe_b64encode(record.body).decode()}" for record in records)


@lru_cache(10_000)
def records_of(name: str) -> tuple[Record, ...]:
    """Return the records of an SST. Raises InvalidManifest if the name is not one that `name_of` returns."""
    try:
        records = tuple(Record(id_, int(epoch), urlsafe_b64decode(body))
                        for id_, epoch, body in (record.split("~") for record in name.split("+")))
    except ValueError as error:
        raise InvalidManifest(f"not the name of an SST: {name[:60]!r}: {error}") from None
    if name_of(records) != name:
        raise InvalidManifest(f"not the name of an SST: {name[:60]!r}")
    return records
