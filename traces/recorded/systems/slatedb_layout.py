"""Say what a key of SlateDB's layout names, and what a request to it did and holds."""

import re
from functools import lru_cache
from typing import Any, NamedTuple

from highwater.impl.codecs.slatedb import compactions as compactions_slatedb
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.errors import Definite
from highwater.impl.layout import InvalidName, Namespace
from highwater.traces.recorded.s3log import Body, Request
from highwater.traces.recorded.s3store import Key
from highwater.traces.recorded.systems.facts import Namespaced, done

SEQUENCED = ("manifest", "compactions")
MARK = ".deleting"  # the object that marks a database for deletion
DATA = re.compile(r"(?:(.*)/)?compacted/([0-7][0-9A-HJKMNP-TV-Z]{25})\.sst", re.DOTALL)  # the name is a ULID
CODEC = ManifestCodec()


class Place(NamedTuple):
    """The meaning of a key. `id` is the id in a sequence; `name` is the sequence that a boundary belongs to."""

    where: Namespaced
    folder: str
    id: int = 0
    name: str = ""

    def key(self, file_id: int) -> Key:
        return key_of(self.where, file_id)


@lru_cache(100_000)
def key_of(where: Namespaced, file_id: int) -> Key:
    return where.bucket, Namespace(where.root, where.folder).key(file_id)


def boundary_of_ids(where: Namespaced) -> Key:
    return where.bucket, Namespace(where.root, where.folder).boundary_key


def mark_of(bucket: str, root: str) -> Key:
    return bucket, f"{root}/{MARK}" if root else MARK


@lru_cache(100_000)
def place_of(key: Key) -> Place | None:
    """Return the meaning of a key; None if it is not metadata."""
    bucket, path = key
    root, _, rest = path.rpartition("/")
    if rest == MARK:
        return Place(Namespaced(bucket, root, "manifest"), MARK)
    root, _, folder = root.rpartition("/")
    if folder == "gc":
        name, _, suffix = rest.rpartition(".")
        return Place(Namespaced(bucket, root, name), "gc", 0, name) if suffix == "boundary" and name in SEQUENCED else None
    if folder not in (*SEQUENCED, "wal"):
        return None
    try:
        file_id = Namespace(root, folder).file_id(path)
    except InvalidName:
        return None
    return None if file_id is None else Place(Namespaced(bucket, root, folder), folder, file_id)


def is_known(request: Request) -> bool:
    """Return whether the request belongs to a database: to its metadata, or to its data, which is not checked.

    The name of the file decides, because other programs have folders of the same names.
    """
    return request.op in ("list", "delete_many") or place_of((request.bucket, request.key)) is not None or (
        DATA.fullmatch(request.key) is not None)


def is_unread(request: Request) -> bool:
    """Return whether it put a metadata file or a boundary whose content is not in the log."""
    place = place_of((request.bucket, request.key)) if request.op in ("put", "copy", "complete") and done(request) else None
    return place is not None and place.folder not in ("wal", MARK) and (request.op != "put" or request.sent_body.data is None)


def content_of(folder: str, body: Body) -> Any:
    """Return a Manifest or Compactions; None if the log has not kept the body; a text if it cannot be decoded."""
    return None if body.data is None else decoded(folder, body.data)


@lru_cache(10_000)
def decoded(folder: str, data: bytes) -> Any:
    try:
        return CODEC.decode(data) if folder == "manifest" else compactions_slatedb.decode(data)
    except Definite as error:
        return str(error)
