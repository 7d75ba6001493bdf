"""Say which keys of a program belong to a sequence or an object, by a template such as `_delta_log/{id:020d}.json`."""

import re
from functools import lru_cache
from typing import NamedTuple

from highwater.impl.layout import DIGITS, U64
from highwater.traces.recorded.s3store import Key
from highwater.traces.recorded.systems.facts import Namespaced

HOLE = re.compile(r"\{([^{}]*)\}")
PADDED = re.compile(r"id:0(\d{1,2})d")
ANY, ID, DESCENDING = "any", "id", "id:desc"


class Unfit(ValueError):
    """A template, or what else describes a program, is not what it has to be. The text says how to write it."""


class Spot(NamedTuple):
    """The file of a sequence, or an object of its own, whose `id` is 0."""

    where: Namespaced
    folder: str  # the template's text
    before: str = ""  # the key up to the id
    after: str = ""
    form: str = ""  # of the id: one of ID, DESCENDING, `id:0Nd`
    id: int = 0
    name: str = ""

    def key(self, file_id: int) -> Key:
        return self.where.bucket, f"{self.before}{spelled(self.form, file_id)}{self.after}"


class Template:
    """`{id}` stands for a number, `{id:020d}` for one of 20 digits, `{id:desc}` for 2^64 - 1 less the number, in 20 digits, and
    `{any}` for any text. Keys with the same texts are of one sequence. Raises Unfit."""

    def __init__(self, text: str, prefix: str = ""):
        self.text, self.prefix = text, prefix
        parts = HOLE.split(text)
        holes = parts[1::2]
        if wrong := [hole for hole in holes if hole not in (ANY, ID, DESCENDING) and not PADDED.fullmatch(hole)]:
            raise Unfit(f"{{{wrong[0]}}} in {text!r}: write {{id}}, {{id:020d}}, {{id:desc}} or {{any}}")
        ids = [hole for hole in holes if hole != ANY]
        if len(ids) > 1:
            raise Unfit(f"{text!r} has more than one id")
        if not text.strip("/") or any("{" in part or "}" in part for part in parts[::2]):
            raise Unfit(f"{text!r} is no template of keys: write for example '_delta_log/{{id:020d}}.json'")
        self.form = ids[0] if ids else ""
        digits = rf"\d{{{width(self.form)}}}" if width(self.form) else r"0|[1-9]\d*"
        self.keys = re.compile("".join([re.escape(part) if at % 2 == 0 else ".*?" if part == ANY else f"(?P<id>{digits})"
                                        for at, part in enumerate(parts)]), re.DOTALL)
        self.spot = lru_cache(100_000)(self.spot)

    def spot(self, key: Key) -> Spot | None:
        """Return the meaning of a key; None if it does not fit."""
        bucket, path = key
        found = self.keys.fullmatch(path, len(self.prefix)) if path.startswith(self.prefix) else None
        if not found:
            return None
        if not self.form:
            return Spot(Namespaced(bucket, path, self.text), self.text)
        number = int(found["id"])
        file_id = U64 - 1 - number if self.form == DESCENDING else number
        if not 0 <= file_id < U64:
            return None
        before, after = path[:found.start("id")], path[found.end("id"):]
        return Spot(Namespaced(bucket, f"{before}*{after}", self.text), self.text, before, after, self.form, file_id)


def width(form: str) -> int:
    padded = PADDED.fullmatch(form)
    return DIGITS if form == DESCENDING else int(padded[1]) if padded else 0


def spelled(form: str, file_id: int) -> str:
    return f"{U64 - 1 - file_id if form == DESCENDING else file_id:0{width(form)}d}"
