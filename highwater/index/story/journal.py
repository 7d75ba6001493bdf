"""Safety: what a journal says has happened, however its writer was killed: a line counts only if it is whole.

A writer's journal is a file of JSON lines. A block is begun in it before anything of it is in the bucket or the index. A writer
that is started again finds in it which blocks it has to end.

    {"what": "begun", "id": ULID, "kind": KIND, "block": metadata in hexadecimal}
    {"what": "put", "id": ULID}                         its object is there
    {"what": "added" | "kept" | "refused" | "doubt", "id": ULID}
"""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from highwater.impl.codecs.index.messages import BlockMeta, decode, encode
from highwater.outside import json_of

BEGUN, PUT, ADDED, KEPT, REFUSED = "begun", "put", "added", "kept", "refused"
DOUBT = "doubt"  # it may be in the index, or not


class Line(NamedTuple):
    """An event of a block. `kind` and `block`: of one that is begun."""

    what: str
    ulid: str
    kind: str = ""
    block: Any = None


class Journal:
    """A journal to write to, by one process."""

    def __init__(self, path: Path):
        """Open a journal; a line that a killed process has begun is ended, and counts for nothing."""
        cut = path.exists() and path.stat().st_size and not path.read_bytes().endswith(b"\n")
        self.file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        if cut:
            os.write(self.file, b"\n")

    def begin(self, kind: str, block: Any) -> None:
        self._write({"what": BEGUN, "id": block.id, "kind": kind, "block": encode(block).hex()})

    def note(self, what: str, ulid: str) -> None:
        self._write({"what": what, "id": ulid})

    def _write(self, line: dict[str, str]) -> None:
        os.write(self.file, json.dumps(line).encode() + b"\n")


class Reading:
    """A journal to read, as it grows."""

    def __init__(self, path: Path):
        self.path, self.at = path, 0

    def new(self) -> list[Line]:
        """Return the whole lines that came since the last call."""
        if not self.path.exists():
            return []
        with self.path.open("rb") as file:
            file.seek(self.at)
            body = file.read()
        whole = body[:body.rfind(b"\n") + 1]
        self.at += len(whole)
        return [line for text in whole.splitlines() if (line := line_of(text)) is not None]


def line_of(text: bytes) -> Line | None:
    """Return a line; None for one that was cut."""
    try:
        said = json_of(text)
    except ValueError:
        return None
    block = decode(BlockMeta, bytes.fromhex(said["block"])) if said["what"] == BEGUN else None
    return Line(said["what"], said["id"], said.get("kind", ""), block)
