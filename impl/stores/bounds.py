"""Safety: a store cannot make a client wait for ever, or fill its memory.

Each bound is on time or on memory. Its usual value is one that no honest store exceeds. An error that a bound causes names the
bound and how to raise it: the environment variable HIGHWATER_BOUNDS, "name=value name=value ..", or the argument `bounds` of a
store.
"""

import os
import time
from typing import NamedTuple

from highwater.impl.world import Page

VARIABLE = "HIGHWATER_BOUNDS"
SLOWEST_BYTES = 1 << 16  # in a second: a transfer gets a second more for each
BYTES_OF_A_MARK = 64  # in memory, for each "<" and "=" of XML. A key of an honest page has some 20 of them
LEAST_OF_PAGE = 100  # keys that a page counts as, at least: pages of one key must not make a listing long
LISTINGS = 100  # begun listings that a store remembers


class BoundExceeded(Exception):
    """A store has exceeded a bound. It is raised inside of a request, whose method raises an error of impl/errors.py.
    """

    def __init__(self, bounds: "Bounds", name: str, what: str):
        value = getattr(bounds, name)
        super().__init__(f"{what}: more than the bound {name}={value}; if the store is right to do so, raise the bound, for "
                         f"example {VARIABLE}={name}={10 * value}")


class Bounds(NamedTuple):
    """The bounds of a store."""

    reply_s: int = 30  # a request and its reply, beside the time that their bytes take at SLOWEST_BYTES a second
    reply_bytes: int = 1 << 24  # a reply other than an object: a page of a listing, an error; with its head, its parsed XML
    body_bytes: int = 1 << 28  # an object that is read whole, or a range of one
    listing_keys: int = 2_000_000  # of one listing; a page counts as LEAST_OF_PAGE at least
    listing_s: int = 900  # that one listing spends in its requests
    empty_pages: int = 1000  # in a row

    def check_body(self, size_bytes: int, key: str) -> None:
        """Check the size of an object, or of a range of one, before it is read. Raises BoundExceeded."""
        if size_bytes > self.body_bytes:
            raise BoundExceeded(self, "body_bytes", f"{key!r}: {size_bytes:,} bytes at once")


def bounds_of(text: str) -> Bounds:
    """Return the usual bounds, changed by "name=value ..". Raises ValueError, which names what is wrong."""
    found = Bounds()
    for word in text.replace(",", " ").split():
        name, _, value = word.partition("=")
        if name not in Bounds._fields:
            raise ValueError(f"{VARIABLE}: {name!r} is no bound: there are {', '.join(Bounds._fields)}")
        if not (value.isascii() and value.isdigit() and 0 < len(value) <= 18 and int(value)):
            raise ValueError(f"{VARIABLE}: {word!r}: write {name}=N, with N a number from 1 up")
        found = found._replace(**{name: int(value)})
    return found


def usual_bounds() -> Bounds:
    """Return the bounds that the environment sets. Raises ValueError."""
    return bounds_of(os.environ.get(VARIABLE, ""))


class Allowance:
    """The time and the bytes that a request and its reply may still take."""

    def __init__(self, bounds: Bounds):
        self.bounds, self.begun_s = bounds, time.monotonic()
        self.moved_bytes, self.received_bytes, self.marks = 0, 0, 0
        self.most_bytes, self.name = bounds.reply_bytes, "reply_bytes"

    @classmethod
    def of_object(cls, bounds: "Bounds") -> "Allowance":
        """Return the allowance of a reply that brings an object."""
        found = cls(bounds)
        found.brings_an_object()
        return found

    def brings_an_object(self) -> None:
        """Let the reply be as long as an object in chunks may be."""
        self.most_bytes = self.bounds.body_bytes + self.bounds.body_bytes // 8 + self.bounds.reply_bytes
        self.name = "body_bytes"

    @property
    def is_object(self) -> bool:
        return self.name == "body_bytes"

    def check_time(self) -> None:
        """Check the time so far. Raises BoundExceeded."""
        took_s = time.monotonic() - self.begun_s
        if took_s > self.bounds.reply_s + self.moved_bytes / SLOWEST_BYTES:
            raise BoundExceeded(self.bounds, "reply_s", f"a request and its reply are not over after {took_s:.0f} s and "
                                f"{self.moved_bytes:,} bytes")

    def check_size(self, size_bytes: int) -> None:
        """Check a size that a head declares, or that has come. Raises BoundExceeded."""
        if size_bytes > self.most_bytes:
            raise BoundExceeded(self.bounds, self.name, f"a reply has {size_bytes:,} bytes or more")

    def received(self, size_bytes: int) -> None:
        """Count bytes of the reply. Raises BoundExceeded."""
        self.moved_bytes += size_bytes
        self.received_bytes += size_bytes
        self.check_size(self.received_bytes)

    def received_marks(self, data: bytes) -> None:
        """Count the tags and attributes of XML in bytes of a reply that is no object. Raises BoundExceeded."""
        self.marks += data.count(b"<") + data.count(b"=")
        if BYTES_OF_A_MARK * self.marks > self.most_bytes:
            raise BoundExceeded(self.bounds, self.name, f"a reply has {self.marks:,} XML tags and attributes or more, of which "
                                f"each counts as {BYTES_OF_A_MARK} bytes")


class Listings:
    """Counts what the listings of one store have brought so far. A page that starts after the last key of the page before
    continues its listing."""

    def __init__(self, bounds: Bounds):
        self._bounds = bounds
        self._begun: dict[str, tuple[str, int, float]] = {}  # by prefix: the last key, the keys so far, the seconds so far

    def spent(self, prefix: str, after: str) -> float:
        """Return the seconds that the listing has spent so far."""
        last, _, spent_s = self._begun.get(prefix, ("", 0, 0.0))
        return spent_s if last == after else 0.0

    def check_time(self, prefix: str, spent_s: float) -> None:
        """Check the seconds of a listing so far. Raises BoundExceeded."""
        if spent_s > self._bounds.listing_s:
            raise BoundExceeded(self._bounds, "listing_s", f"the listing of {prefix!r} has taken {spent_s:.0f} s")

    def add(self, prefix: str, after: str, page: Page, spent_s: float) -> Page:
        """Return the page, after it is counted. `spent_s`: the seconds of the listing so far. Raises BoundExceeded."""
        last, keys, _ = self._begun.pop(prefix, ("", 0, 0.0))
        keys = (keys if last == after else 0) + max(len(page.entries), LEAST_OF_PAGE)
        self.check_time(prefix, spent_s)
        if keys > self._bounds.listing_keys and page.truncated:
            raise BoundExceeded(self._bounds, "listing_keys", f"the listing of {prefix!r} goes on after {keys:,} keys")
        if page.truncated and page.entries:
            self._begun[prefix] = page.entries[-1].key, keys, spent_s
            for oldest in list(self._begun)[:-LISTINGS]:
                self._begun.pop(oldest, None)
        return page
