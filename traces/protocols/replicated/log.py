"""Safety: a save counts as durable only if its entries, its term and its vote went into the log, and a sync returned after.

The bytes that a Raft server appends to its log are read here, and not by the server's code (impl/raft/records.py says what they
mean). What a step asks to make durable must be written in that order, and nothing else may be.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from struct import Struct
from typing import NamedTuple

from highwater.impl.codecs.crc32c import crc32c
from highwater.traces.event import Event
from highwater.traces.protocols.replicated.servers import Save

RECORD = Struct(">IIBQQQ")  # length, checksum of what follows, type, index, term, batch; the body follows
PREFIX_BYTES = 8  # length and checksum, which the length does not count
HEAD_BYTES = 19  # of a segment's head before the node's name: magic, version, its number, whether the log begins anew
HEAD, HARD, CUT, ENTRY, SUMMED, LAST = 1, 2, 3, 4, 5, 0x80  # types of records; the bit of a batch's last one
SUMMED_BODY, SUM_OF = Struct(">BI"), Struct(">QB")  # of an entry with its checksum: kind and checksum; what it begins with


class Record(NamedTuple):
    type: int
    index: int
    term: int
    body: bytes


class Due(NamedTuple):
    """A record that a save asks for. Of a hard state `vote`; of an entry, or of the snapshot after which the log begins anew,
    `index`."""

    number: int  # of the save
    type: int
    term: int
    index: int = 0
    vote: str = ""


class Written(NamedTuple):
    """The log of one server, as far as its appends show it."""

    term: int = 0
    vote: str = ""
    last: int = 0
    due: tuple[Due, ...] = ()  # not written yet


SINK = "snapshot.tmp"
SNAPSHOT = re.compile("snapshot-([0-9]+)-([0-9]+)")
REWRITTEN = "rewritten"  # the newest segment, while it is written again


def is_segment(name: str) -> bool:
    return name.startswith("log-")


def snapshot_of(name: str) -> tuple[int, int] | None:
    """Return (index, term) of the entry up to which a snapshot of this name goes; None of another file."""
    found = SNAPSHOT.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


def records_in(data: bytes) -> Iterator[Record]:
    """Yield the records that are written together. Raises ValueError for other bytes."""
    at = 0
    while at < len(data):
        end = end_of(data, at)
        if not end:
            raise ValueError(f"bytes of the log that are none of its records: {data[at:at + 40]!r}")
        _, _, type_, index, term, _ = RECORD.unpack_from(data, at)
        yield plain(Record(type_ & ~LAST, index, term, data[at + RECORD.size:end]))
        at = end


def plain(record: Record) -> Record:
    """Return an entry that has its checksum in the form without it, and any other record as it is."""
    if record.type != SUMMED or len(record.body) < SUMMED_BODY.size:
        return record
    kind, checksum = SUMMED_BODY.unpack_from(record.body)
    content = record.body[SUMMED_BODY.size:]
    if checksum_of(record.term, kind, content) != checksum:
        return record
    return record._replace(type=ENTRY, body=bytes([kind]) + content)


def checksum_of(term: int, kind: int, content: bytes) -> int:
    """Return the checksum that the leader gives an entry."""
    return crc32c(SUM_OF.pack(term, kind) + content)


def end_of(data: bytes, at: int) -> int:
    """Return where the record that begins at `at` ends; 0 if there is none, or it does not fit its checksum."""
    if len(data) < at + RECORD.size:
        return 0
    length, checksum, *_ = RECORD.unpack_from(data, at)
    end = at + PREFIX_BYTES + length
    fits = length >= RECORD.size - PREFIX_BYTES and end <= len(data) and crc32c(data[at + PREFIX_BYTES:end]) == checksum
    return end if fits else 0


def asked(log: Written, save: Save) -> Written:
    """Return the log after a step that asks for a save."""
    due, known = list(log.due), hard_state(log)
    if save.base:
        due.append(Due(save.number, HEAD, save.base[1], save.base[0]))
    if (save.term, save.vote) != known:
        due.append(Due(save.number, HARD, save.term, 0, save.vote))
    due += [Due(save.number, ENTRY, term, index) for index, term in enumerate(save.terms, save.first)]
    return log._replace(due=tuple(due))


def why_not_done(e: Event, files: Mapping[str, bytes | None], runs: bool) -> str:
    """Return why a server does not do this to a file; "" if it may. `files`: before that. `runs`: it has made a step."""
    op, name = e.op, e.key
    if op == "create" and (name in files if is_segment(name) else name not in (REWRITTEN, SINK)):
        return f"it makes {name}"
    if op == "append" and not (is_segment(name) or name in (REWRITTEN, SINK)):
        return f"it appends to {name}"
    if op == "remove" and runs:
        alike = sorted(of for of in files if of.startswith(name[:4]) and of != SINK)
        if alike[-1:] == [name] or (is_segment(name) and alike[:1] != [name]):
            return f"it removes {name}, of {', '.join(alike)}: the newest stays, and segments go in order"
    return "" if op != "truncate" else f"it cuts {name}"


def why_needed(name: str, files: Mapping[str, bytes | None], unnamed: Iterable[str]) -> str:
    """Return why a crash may need a file that a server removes; "" if a snapshot that the crash leaves is in its place.

    `files`: before that. `unnamed`: names that no sync covers."""
    kept = max((of for other in files if other != name and other not in unnamed and (of := snapshot_of(other))), default=(0, 0))
    if is_segment(name):
        following = sorted(filter(is_segment, files))[1]
        data = files[following] or b""
        upto = next((head.index for head in records_in(data[:end_of(data, 0)])), 0)
        return "" if upto <= kept[0] else (f"it removes {name}, which has entries up to {upto}, and no sync covers the name of "
                                           "a snapshot that has them all")
    of = snapshot_of(name)
    return f"it removes {name}, and no later snapshot has a name that a sync covers" if of and of > kept else ""


def whole_bytes(data: bytes) -> int:
    """Return how many bytes at the beginning of a segment are whole records."""
    at = 0
    while end := end_of(data, at):
        at = end
    return at


def why_not_recovered(me: str, key: str, body: bytes, files: Mapping[str, bytes | None]) -> str:
    """Return why a server cannot append this before its first step; "" if it can. `files`: after the append."""
    if key == REWRITTEN:
        newest = files[max(filter(is_segment, files))]
        same = files.get(key) in (None, body) and (newest is None or newest[:whole_bytes(newest)] == body)
        return "" if same else "it does not write its newest segment again as it is"
    records = list(records_in(body)) if is_segment(key) else []
    types = [record.type for record in records]
    return why_misplaced(me, key, body, files, records) if types in ([], [HEAD, HARD]) else f"it begins a segment with {types}"


def why_misplaced(me: str, key: str, body: bytes, files: Mapping[str, bytes | None], records: list[Record]) -> str:
    """Return why records are at a wrong place of their segment, or in a wrong one; "" if they are not."""
    content, begins = files.get(key), bool(records) and records[0].type == HEAD
    if begins and records[0].body[HEAD_BYTES:].decode() != me:
        return f"it begins {key} in the name of {records[0].body[HEAD_BYTES:].decode()}"
    if content is None or not records or (content == body) == begins:
        return ""
    return f"its first append to {key} has no head" if content == body else f"it begins {key} again"


def hard_state(log: Written) -> tuple[int, str]:
    """Return the term and vote that the log has once all that is due is written."""
    return next(((due.term, due.vote) for due in reversed(log.due) if due.type == HARD), (log.term, log.vote))


def written(log: Written, records: list[Record]) -> Written | str:
    """Return the log after an append, or why it is not one that the saves ask for."""
    term, vote, last, due, begins = log.term, log.vote, log.last, list(log.due), records[0].type == HEAD
    anew = begins and bool(due) and (due[0].type, due[0].index, due[0].term) == (HEAD, records[0].index, records[0].term)
    if anew:
        last = due.pop(0).index
    for record in records[begins:]:
        following = due[0] if due else None
        if record.type == HARD and (record.term, record.body.decode()) == (term, vote) and begins:
            continue  # a segment repeats what the one before has
        if record.type == CUT:
            if following is None or following.type != ENTRY or not record.index == following.index - 1 < last:
                return f"it cuts its log of {last} entries after {record.index}"
            last = record.index
            continue
        if following is None or following.type != record.type or following.term != record.term or (
                following.vote != record.body.decode() if record.type == HARD else following.index != record.index):
            return f"it writes {record}, and is to write {following or 'nothing'}"
        if record.type == HARD:
            term, vote = following.term, following.vote
        elif record.index != last + 1:
            return f"it writes entry {record.index} after {last}"
        else:
            last = record.index
        due.pop(0)
    if begins and not anew and records[0].index != last:
        return f"it begins a segment after entry {records[0].index}, and has {last}"
    return Written(term, vote, last, tuple(due))


def why_not_durable(log: Written, number: int, unsynced: Iterable[str]) -> str:
    """Return why saves up to this number are not durable; "" if they are. `unsynced`: the files, and the names, that no sync
    has covered since they were written."""
    if log.due and log.due[0].number <= number:
        return f"it has not written {log.due[0]}"
    return next((f"no sync covers what is written to {name}" for name in sorted(unsynced) if is_segment(name)), "")
