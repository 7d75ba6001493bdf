"""Defines the entries of a log, and a log in memory: a tuple of entries after a base. All functions are pure."""

from struct import Struct
from typing import NamedTuple

from highwater.impl.codecs.crc32c import crc32c

NOOP, COMMAND, MEMBERS, LEVEL = 0, 1, 2, 3  # kinds of entries. A leader opens its term with a NOOP; MEMBERS changes who belongs
# to the group (members.py); LEVEL lets it use further forms (levels.py).
KINDS = (NOOP, COMMAND, MEMBERS, LEVEL)
TERM_AND_KIND = Struct(">QB")


class Entry(NamedTuple):
    """An entry. Its index is its place in the log; index and term together name it in all logs."""

    term: int
    kind: int  # one of KINDS
    body: bytes
    checksum: int | None = None  # CRC-32C by the leader that made the entry; None: it came in a form without checksums


def made(term: int, kind: int, body: bytes) -> Entry:
    """Return a new entry, with its checksum."""
    return Entry(term, kind, body, checksum_of(term, kind, body))


def checksum_of(term: int, kind: int, body: bytes) -> int:
    """Return the CRC-32C of u64 term, u8 kind and the body."""
    return crc32c(TERM_AND_KIND.pack(term, kind) + body)


def with_checksum(entry: Entry) -> Entry:
    """Return the entry with a checksum: its own, if it has one."""
    return made(*entry[:3]) if entry.checksum is None else entry


def is_intact(entry: Entry) -> bool:
    """Tell whether the entry is as its leader made it, as far as it has a checksum."""
    return entry.checksum is None or entry.checksum == checksum_of(*entry[:3])


class Log(NamedTuple):
    """A log without its beginning: `entries[0]` has index `base_index` + 1. An empty log has base (0, 0)."""

    base_index: int = 0
    base_term: int = 0  # the term of the entry at `base_index`
    entries: tuple[Entry, ...] = ()


def last_index(log: Log) -> int:
    return log.base_index + len(log.entries)


def last_term(log: Log) -> int:
    return log.entries[-1].term if log.entries else log.base_term


def term_at(log: Log, index: int) -> int | None:
    """Return the term of the entry at `index`; None if the log does not have that entry, or not any more."""
    place = index - log.base_index
    if place == 0:
        return log.base_term
    return log.entries[place - 1].term if 0 < place <= len(log.entries) else None


def entry_at(log: Log, index: int) -> Entry:
    """Return the entry at `index`, which must be in the log."""
    assert log.base_index < index <= last_index(log)
    return log.entries[index - log.base_index - 1]


def entries_from(log: Log, first: int, size_bytes: int) -> tuple[Entry, ...]:
    """Return the entries from index `first` on, at most `size_bytes` of bodies, but at least one if there is one."""
    start = first - log.base_index - 1
    end = start
    for entry in log.entries[start:]:
        size_bytes -= len(entry.body)
        if size_bytes < 0 and end > start:
            break
        end += 1
    return log.entries[start:end]


def spliced(log: Log, first: int, entries: tuple[Entry, ...]) -> Log:
    """Return the log with `entries` from index `first` on, and nothing behind them."""
    return log._replace(entries=log.entries[: first - log.base_index - 1] + entries)


def without_before(log: Log, index: int) -> Log:
    """Return the log with base `index`: all entries up to there are dropped."""
    term = term_at(log, index)
    assert term is not None, f"no entry {index} in the log"
    return Log(index, term, log.entries[index - log.base_index:])


def is_up_to_date(log: Log, index: int, term: int) -> bool:
    """Tell whether a log that ends with entry (index, term) is at least as up to date as this one, as a vote demands."""
    return (term, index) >= (last_term(log), last_index(log))


def agreeing(log: Log, index: int, term: int) -> tuple[int, int]:
    """Return (index, term) of the last entry up to `index` with a term up to `term`: logs agree no later than there.

    It skips all entries of a term at once, so that a leader finds where a follower's log agrees in few round trips. Where the
    log begins later than `index`, its base is returned.
    """
    index = max(min(index, last_index(log)), log.base_index)
    while index > log.base_index and log.entries[index - log.base_index - 1].term > term:
        index -= 1
    found = term_at(log, index)
    assert found is not None
    return index, found
