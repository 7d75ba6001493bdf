"""Bytes that a crash leaves of one file. Safety: those that a sync covered are there after every crash.

A crash keeps any subset of the 4 KiB pages that were written since the last sync. A page that is lost reads as it was at that
sync, and as zeros beyond it. The file may also end earlier: at the end of any page, or of any write since that sync.
"""

from collections.abc import Callable
from typing import NamedTuple

PAGE_BYTES = 4096
Choose = Callable[[str, int], int]  # choose(site, bound) -> 0..bound-1; 0 is the mildest


class Covered(NamedTuple):
    """Content that a sync makes durable: the file as it was when the sync began."""

    content: bytes
    changes: int


class File:
    """One file. `content`: what a read returns now. `durable`: what a crash leaves in which all else is lost."""

    __slots__ = ("changes", "content", "durable", "forgotten", "sizes")

    def __init__(self, content: bytes = b"") -> None:
        self.content, self.durable = content, content
        self.forgotten: frozenset[int] = frozenset()  # pages that a failed sync dropped: no later sync writes them
        self.changes = 0  # of the size, since the beginning
        self.sizes: list[tuple[int, int]] = []  # number of the change, and the size after it, since the last sync

    def append(self, body: bytes) -> None:
        self._resized(self.content + body, len(self.content))

    def truncate(self, size_bytes: int) -> None:
        """Cut the file, or fill it with zeros, up to this size."""
        self._resized(self.content[:size_bytes].ljust(size_bytes, b"\0"), min(size_bytes, len(self.content)))

    def _resized(self, content: bytes, from_byte: int) -> None:
        self.content, first = content, from_byte // PAGE_BYTES
        self.forgotten = frozenset([page for page in sorted(self.forgotten) if page < first])
        self.changes += 1
        self.sizes.append((self.changes, len(content)))

    def covered(self) -> Covered:
        """Begin a sync."""
        return Covered(self.content, self.changes)

    def sync(self, covered: Covered) -> None:
        """End a sync: what it covered is durable, but the pages that an earlier sync has dropped."""
        content = covered.content
        self.durable = b"".join([page_of(self.durable if page in self.forgotten else content, page)
                                 for page in pages_of(content)])[:len(content)]
        self.sizes = [one for one in self.sizes if one[0] > covered.changes]

    def fail_sync(self, choose: Choose, site: str) -> None:
        """Fail a sync as Linux does: some pages are durable now, and the others look as if they were."""
        for page in self.unsynced():
            if choose(f"{site}.page", 2):
                self.forgotten |= {page}
            else:
                size = max(len(self.durable), min(len(self.content), (page + 1) * PAGE_BYTES))
                self.durable = replaced(self.durable.ljust(size, b"\0"), page, self.content)

    def unsynced(self) -> list[int]:
        """Return the numbers of the pages that a crash may lose."""
        return [page for page in pages_of(self.content) if page_of(self.content, page) != page_of(self.durable, page)]

    def crash(self, choose: Choose, site: str) -> list[str]:
        """Keep what the choices say, and return in words what is lost."""
        content, durable = self.content, self.durable
        if content == durable and not self.sizes:
            return []
        said = []
        if len(content) < len(durable) and choose(f"{site}.uncut", 2):
            kept, said = durable, ["it is not cut"]
        else:
            kept = content
            for page in self.unsynced():
                if choose(f"{site}.page", 2):
                    kept = replaced(kept, page, durable)
                    said.append(f"page {page} is lost")
            kept = self._ended(kept, choose, site)
            said += [f"it ends at byte {len(kept)} of {len(content)}"] * (len(kept) < len(content))
        self.content = self.durable = kept
        self.forgotten, self.sizes = frozenset(), []
        return said

    def _ended(self, kept: bytes, choose: Choose, site: str) -> bytes:
        """Cut the file at one of the places where it may end."""
        sizes = [size for _, size in self.sizes]
        least = min([len(self.durable), *sizes])
        ends = sorted({len(self.durable), *sizes, *range(PAGE_BYTES, len(kept), PAGE_BYTES)}, reverse=True)
        ends = [len(kept), *[end for end in ends if least <= end < len(kept)]]
        return kept[:ends[choose(f"{site}.size", len(ends))]]


def pages_of(content: bytes) -> range:
    return range(-(-len(content) // PAGE_BYTES))


def page_of(content: bytes, page: int) -> bytes:
    """Return one page, with zeros beyond the content's end."""
    return content[page * PAGE_BYTES:(page + 1) * PAGE_BYTES].ljust(PAGE_BYTES, b"\0")


def replaced(content: bytes, page: int, other: bytes) -> bytes:
    """Return the content, of the same length, with one page of another content."""
    start, end = page * PAGE_BYTES, (page + 1) * PAGE_BYTES
    return (content[:start] + page_of(other, page) + content[end:])[:len(content)]
