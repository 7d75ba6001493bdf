"""Names an SST by the records in it, so that a manifest can be judged without its data files.

    <id>~<epoch>~<body, base64url>+<id>~<epoch>~<body, base64url>

A real name refers to a file with these records. Neither `+` nor `~` is a letter of base64url or of a record's id.

A database whose SSTs are objects names each by the ULID of its object, and by its parts: one from a flush, and several from a
compaction, which merges SSTs.

    <ULID>!<part>|<part>
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
    """Return the records of an SST. Raises InvalidManifest if the name is not one that `name_of` or `stored` returns."""
    if "!" in name:
        return tuple(record for part in parts_of(name) for record in records_of(part))
    try:
        records = tuple(Record(id_, int(epoch), urlsafe_b64decode(body))
                        for id_, epoch, body in (record.split("~") for record in name.split("+")))
    except ValueError as error:
        raise InvalidManifest(f"not the name of an SST: {name[:60]!r}: {error}") from None
    if name_of(records) != name:
        raise InvalidManifest(f"not the name of an SST: {name[:60]!r}")
    return records


# --- SSTs that are objects

def stored(ulid: str, parts: Iterable[str]) -> str:
    """Return the name of an SST whose object has this ULID. `parts`: the names of what was flushed, in their order."""
    return f"{ulid}!{'|'.join(parts)}"


def parts_of(name: str) -> tuple[str, ...]:
    """Return the parts of an SST: the name itself if it is one part, without an object."""
    _, stored, parts = name.partition("!")
    return tuple(parts.split("|")) if stored else (name,)


def ulid_of(name: str) -> str:
    """Return the ULID of an SST's object."""
    return name.partition("!")[0]
