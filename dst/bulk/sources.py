"""Read events from Parquet and NDJSON. Safety: each event is read exactly once, or its input is refused or its run is damaged.

Parquet files have the columns COLUMNS and one event a row. NDJSON files have the lines that `trace check` reads, and may have
the further columns as fields of the same names. They may be compressed with gzip or zstd. Memory does not grow with a file.
"""

# pyarrow.compute makes its functions when it is imported
# pyright: reportAttributeAccessIssue=false

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from glob import glob, has_magic
from io import BufferedReader, FileIO
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from highwater import pages
from highwater.dst.bulk.packets import Group, Read, number_of
from highwater.dst.bulk.rows import BadInput
from highwater.outside import (
    LINE_MIB,
    check_text,
    codec_of,
    first_line_of,
    json_of,
    not_utf_8,
    quoted,
    texts_of,
    too_long,
)
from highwater.traces.event import EMPTY, Event, NewerVersion, check_version, from_fields, no_event
from highwater.traces.recorded import logs

PARQUET, LINES, PACKED = ".parquet", (".ndjson", ".jsonl"), (".gz", ".zst")
NAMES = (PARQUET, *LINES, *(line + packed for line in LINES for packed in PACKED))  # how the names of files in folders end
UNREAD = (".", "_")  # how names of files and folders begin that are not traces, such as those of Spark
SPLIT_EVENTS, SPLIT_BYTES = 250_000, 32 << 20  # for Parquet, for NDJSON
OPENING = 0.001  # of a split: what it costs to open a file
OFFSETS = 40  # low bits of a place in the input, for the offset in a file; the bits above hold the file's number
LINE_BYTES = 200  # about, of an event in NDJSON
GROUP = ("run", "namespace", "protocol", "options")
OURS = (*GROUP, "index")
EVENT_VERSION = b"highwater.event_version"  # in the metadata of a Parquet file; one without it is of version 1
TEXT, NUMBER, BYTES, TRUTH, TEXTS = "text", "a whole number", "bytes", "true or false", "a list of texts"
COLUMNS = {  # name -> its type
    **dict.fromkeys(GROUP, TEXT), "index": NUMBER,
    **{name: {str: TEXT, int: NUMBER, bytes: BYTES, bool: TRUTH, tuple: TEXTS}[type(value)]
       for name, value in EMPTY._asdict().items()},
}
NEEDED = ("index", *Event._fields[:10])
LARGEST = (1 << 63) - 1


class Split(NamedTuple):
    """A part of a file: the Parquet row groups `low` to `high - 1`, or the NDJSON lines that begin in bytes `low` to `high -
    1`. A compressed file is not split."""

    number: int  # the file's
    file: str
    parquet: bool
    low: int
    high: int
    log: str = ""  # the file is a log of another program, and read whole: traces/recorded/logs.py
    line_mib: int = LINE_MIB  # the longest line
    folder: str = ""  # the folder in which `file` is, unless it is a whole path: that of the command
    size: float = 0  # about: the work to read it, as part of that for a whole split

    @property
    def path(self) -> str:
        """Return the file's path for a process with another working folder."""
        return os.path.join(self.folder, self.file)


class Choice(NamedTuple):
    """The run and the namespace to read; "" for any."""

    run: str = ""
    namespace: str = ""


ALL = Choice()
NOTHING = Read([], [], np.zeros((5, 0), np.int64), [])

# --- which files, which splits

class Skipped(NamedTuple):
    """The files and folders in the given folders that are not read."""

    counts: Counter[str]  # why -> how many
    examples: dict[str, str]  # why -> the first of them

    def add(self, path: Path, why: str) -> None:
        self.counts[why] += 1
        self.examples.setdefault(why, str(path))

    def __str__(self) -> str:
        return "; ".join(f"{number:,} ({why}), such as {self.examples[why]}" for why, number in self.counts.items())


def files(inputs: Iterable[str], skipped: Skipped) -> list[str]:
    """Return the files to read: files as given, those in folders at any depth by their names, matches of globs. Raises
    BadInput."""
    found: list[str] = []
    for given in inputs:
        path = Path(given)
        if path.is_dir():
            try:
                inside = sorted(files_in(path, skipped))
            except OSError as error:
                raise BadInput(f"{error.filename}: {error.strerror}") from None
            if not inside:
                raise BadInput(f"{given}: there is no {', '.join(NAMES)} file in it; files with other names, such as Spark's "
                               f".json, are read if they are given: '{given}/*.json'")
            found += inside
        elif path.exists():
            found.append(given)
        elif has_magic(given):
            matched = sorted(glob(given, recursive=True))
            if not matched:
                raise BadInput(f"{given}: no file matches")
            found += files(matched, skipped)
        else:
            raise BadInput(f"{given}: there is no such file or folder")
    return list(dict.fromkeys(found))


def files_in(folder: Path, skipped: Skipped) -> Iterator[str]:
    """Yield the files of a folder, at any depth, whose names are those of traces."""
    for path in sorted(folder.iterdir()):
        if path.name.startswith(UNREAD):
            skipped.add(path, f"name begins with {' or '.join(UNREAD)}")
        elif path.is_dir() and path.is_symlink():
            skipped.add(path, "link to a folder")
        elif path.is_dir():
            yield from files_in(path, skipped)
        elif path.is_file() and path.name.endswith(NAMES):
            yield str(path)
        else:
            skipped.add(path, f"name does not end in {', '.join(NAMES)}")


class Plan(NamedTuple):
    splits: list[Split]
    events: int  # approximate number
    skipped: str = ""  # which files and folders, in words


def plan(inputs: Iterable[str], line_mib: int = LINE_MIB) -> Plan:
    """Cut the files into splits. Looks into each file, so that most faults are reported before the check begins. Raises
    BadInput."""
    splits, events, skipped = [], 0, Skipped(Counter(), {})
    for number, file in enumerate(files(inputs, skipped)):
        folder = "" if os.path.isabs(file) else os.getcwd()
        try:
            if is_parquet(file):
                meta = footer(file)
                rows = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
                splits += [Split(number, file, True, low, high, "", line_mib, folder,
                                 OPENING + sum(rows[low:high]) / SPLIT_EVENTS) for low, high in bundled(rows, SPLIT_EVENTS)]
                events += meta.num_rows
            else:
                packed = codec_of(file)
                size = unpacked_size(file) if packed else Path(file).stat().st_size
                log = log_in(file)
                end = 1 << OFFSETS if packed else size
                step = max(end, 1) if log or packed else SPLIT_BYTES
                splits += [Split(number, file, False, low, min(low + step, end), log, line_mib, folder,
                                 OPENING + min(step, size - low) / SPLIT_BYTES)
                           for low in range(0, end, step)]
                events += size // LINE_BYTES
        except (pa.ArrowException, OSError) as error:
            why = getattr(error, "strerror", "") or f"it cannot be read ({one_line(error)}): get a new copy"
            raise BadInput(f"{file}: {why}") from None
    return Plan(splits, events, str(skipped))


def opened(path: str) -> BinaryIO:
    """Open a file to be read. One that is compressed is a stream of its content, which cannot be sought. Raises OSError, also
    from methods of the stream."""
    if codec := codec_of(path):
        return BufferedReader(pa.CompressedInputStream(open(path, "rb"), codec), 1 << 20)
    return open(path, "rb")


class Sips(FileIO):
    """A file that is read by few bytes, so that its place tells what a decompressor has used."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(1 << 10) or b""


def unpacked_size(file: str) -> int:
    """Return about how many bytes a compressed file holds, judging by the first of them. Raises OSError, also if a file is
    damaged there."""
    count, total = 0, Path(file).stat().st_size
    with Sips(file) as packed, pa.CompressedInputStream(packed, codec_of(file)) as stream:
        while count < SPLIT_BYTES and (piece := stream.read(1 << 20)):
            count += len(piece)
        return count * total // packed.tell()


def groups(splits: list[Split], fewest: int) -> list[list[Split]]:
    """Group consecutive splits so that each group is as much work as a whole split, or less if there would be less than about
    `fewest` groups. Returns the largest groups first, so that nobody waits for them at the end."""
    most = min(1.0, sum(split.size for split in splits) / max(fewest, 1))
    found: list[list[Split]] = []
    held = most
    for split in splits:
        if held + split.size > most:
            found.append([])
            held = 0.0
        found[-1].append(split)
        held += split.size
    return sorted(found, key=lambda group: -sum(split.size for split in group))


def is_parquet(file: str) -> bool:
    with open(file, "rb") as stream:
        return file.endswith(PARQUET) or stream.read(4) == b"PAR1"


def footer(file: str) -> pq.FileMetaData:
    try:
        with pq.ParquetFile(file) as opened:
            check_metadata(file, opened.metadata)
            check_columns(file, opened.schema_arrow)
            return opened.metadata
    except pa.ArrowException as error:
        raise BadInput(f"{file}: not a complete Parquet file ({one_line(error)}): get a new copy") from None


def check_metadata(file: str, metadata: pq.FileMetaData) -> None:
    """Raises BadInput if the events of a file have a newer version."""
    said = (metadata.metadata or {}).get(EVENT_VERSION, b"1").decode(errors="replace")
    try:
        check_version(int(said) if said.isascii() and said.isdigit() else said)
    except ValueError as error:
        raise BadInput(f"{file}: {error}") from None


def log_in(file: str) -> str:
    """Return whose log it is, by the first line; "" if its lines are events. Raises BadInput if it begins with an event of a
    newer version. Other faults damage a run, and are reported when the file is read."""
    with opened(file) as stream:
        line = first_line_of(stream) or "{}"
    if log := logs.of_line(line):
        return log
    try:
        check_version(json_of(line).get("v", 1))
    except NewerVersion as error:
        raise BadInput(f"{file}: {error}") from None
    except (ValueError, AttributeError):
        pass
    return ""


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def check_columns(file: str, schema: pa.Schema) -> None:
    there = dict(zip(schema.names, schema.types))
    if len(there) < len(schema.names):
        twice = next(name for name in schema.names if schema.names.count(name) > 1)
        raise BadInput(f"{file}: two columns are named {twice!r}")
    lacking = [name for name in NEEDED if name not in there] + ["run or namespace"] * (not {"run", "namespace"} & there.keys())
    if lacking:
        raise BadInput(f"{file}: there is no column {', '.join(lacking)}; {pages.named('bulk-traces')} lists the columns; "
                       f"it has {', '.join(there) or 'none'}")
    strange = [name for name in there if name not in COLUMNS]
    if strange:
        raise BadInput(f"{file}: column {strange[0]!r} is not a trace's: rename it, or leave it out; there are "
                       f"{', '.join(COLUMNS)}")
    for name, type_ in there.items():
        if not is_a(COLUMNS[name], type_) and not (name == "run" and pa.types.is_integer(type_)):
            raise BadInput(f"{file}: column {name!r} is {type_}, and should be {COLUMNS[name]}")


def is_a(what: str, type_: pa.DataType) -> bool:
    if pa.types.is_dictionary(type_):
        type_ = type_.value_type
    text = pa.types.is_string(type_) or pa.types.is_large_string(type_) or type_ == pa.string_view()
    if what == TEXTS:
        return (pa.types.is_list(type_) or pa.types.is_large_list(type_)) and is_a(TEXT, type_.value_type)
    return {TEXT: text, NUMBER: pa.types.is_integer(type_), TRUTH: pa.types.is_boolean(type_),
            BYTES: text or pa.types.is_binary(type_) or pa.types.is_large_binary(type_)}[what]


def bundled(rows: list[int], most: int) -> Iterator[tuple[int, int]]:
    """Group consecutive row groups, given their numbers of rows, so that a group has at most `most` rows if possible."""
    low, held = 0, 0
    for i, number in enumerate(rows):
        if held and held + number > most:
            yield low, i
            low, held = i, 0
        held += number
    if rows:
        yield low, len(rows)


def reads(split: Split, choice: Choice = ALL) -> Iterator[Read]:
    """Read the events of a split, and yield them by SPLIT_EVENTS or SPLIT_BYTES, or less.

    Events without a run, and damage that cannot be attributed to a run, belong to a run named after the file."""
    try:
        if split.log:
            yield read_log(split, choice)
        elif split.parquet:
            yield read_parquet(split, choice)
        else:
            yield from read_lines(split, choice)
    except (pa.ArrowException, OSError, BadInput) as error:
        why = (f"{split.file}: cannot be read to its end ({one_line(error)}): get a new copy; runs with events there were "
               "judged without them")
        yield NOTHING._replace(damage=[((split.file, ""), split.number << OFFSETS, why)])


# --- Parquet

def read_parquet(split: Split, choice: Choice) -> Read:
    with pq.ParquetFile(split.path) as opened:
        metadata, there = opened.metadata, opened.schema_arrow
    check_metadata(split.file, metadata)
    check_columns(split.file, there)
    texts = [name for name in there.names if COLUMNS[name] in (TEXT, BYTES)]
    with pq.ParquetFile(split.path, metadata=metadata, read_dictionary=texts) as opened:
        table = opened.read_row_groups(range(split.low, split.high))
    for name, wanted in zip(("run", "namespace"), choice):
        if wanted:
            table = table.filter(pc.equal(text_of(table, name), wanted)) if name in table.column_names else table.slice(0, 0)
    groups = [column_of(table, name) for name in GROUP]
    rests = [column_of(table, name) for name in Event._fields[2:]]
    group, first = distinct(groups, len(table))
    rest, first_rest = distinct(rests, len(table))
    numbers = np.empty((5, len(table)), np.int64)
    numbers[0], numbers[4] = group, rest
    damage = []
    of_groups = [Group._make((*(values if any(values[:2]) else (split.file, *values[1:])), True))
                 for values in zip(*(column.at(first) for column in groups))]
    for row, name in ((1, "index"), (2, "t_ms"), (3, "request")):
        column = table[name]
        if column.null_count:
            bad = np.flatnonzero(column.is_null().to_numpy())
            damage += [(of_groups[i][:2], split.number << OFFSETS, f"{split.file}: one of its events has no {name}")
                       for i in np.unique(group[bad])]
            column = column.fill_null(0)
        numbers[row] = column.cast(pa.int64()).to_numpy()
    damage += [(of[:2], split.number << OFFSETS, f"{split.file}: events that are of no run, nor of a namespace")
               for of in of_groups if of[:2] == (split.file, "")]
    return Read(of_groups, list(zip(*(column.at(first_rest) for column in rests))), numbers, damage)


class Column(NamedTuple):
    """The values of a column, dictionary-encoded."""

    codes: np.ndarray
    values: Sequence[Any]

    def at(self, rows: np.ndarray) -> list:
        return [self.values[i] for i in self.codes[rows].tolist()]


def text_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    return table[name].cast(pa.string())


def column_of(table: pa.Table, name: str) -> Column:
    """Encode a column. Null means the same as a missing field in NDJSON: the empty value."""
    usual = getattr(EMPTY, name, "")
    if name not in table.column_names:
        return Column(np.zeros(len(table), np.int64), [usual])
    column, what = table[name], COLUMNS[name]
    if what == TEXTS:
        return of_lists(column)
    if name == "run" and pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    encoded = encoded.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # of no rows
        encoded = encoded.chunk(0) if encoded.num_chunks else pa.array([], encoded.type)
    values = encoded.dictionary.to_pylist()
    if what == BYTES:
        values = [value.encode() if isinstance(value, str) else value for value in values]
    codes = encoded.indices
    if codes.null_count or None in values:
        codes = codes.fill_null(len(values))
        values = [usual if value is None else value for value in values] + [usual]
    return Column(codes.to_numpy().astype(np.int64), values)


def of_lists(column: pa.ChunkedArray) -> Column:
    """Encode a column of lists, which Arrow cannot: by their joined texts if these are unambiguous. Most lists are empty."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy()
    there = np.flatnonzero(lengths)
    codes = np.zeros(len(column), np.int64)
    if not len(there):
        return Column(codes, [()])
    lists = pa.chunked_array([column.take(pa.array(there)).combine_chunks()])
    joined = pc.binary_join(lists, "\0").combine_chunks()
    if joined.null_count:
        raise BadInput("column 'keys' has a list with nothing in one of its places")
    encoded = joined.dictionary_encode()
    texts = Column(encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist())
    codes[there], first = distinct([texts, Column(lengths[there], range(int(lengths.max()) + 1))], len(there))
    values = [tuple(value) for value in lists.take(pa.array(first)).to_pylist()]
    if any(text.count("\0") >= len(value) for text, value in zip(texts.at(first), values)):  # a key contains the separator
        known: dict[tuple, int] = {}
        codes[there] = [known.setdefault(tuple(value), len(known)) for value in lists.to_pylist()]
        values = list(known)
    codes[there] += 1
    return Column(codes, [(), *values])


def distinct(columns: list[Column], rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Number the different rows in the order of first occurrence. Returns each row's number, and the place of each first
    occurrence."""
    mixed, size = np.zeros(rows, np.int64), 1
    for codes, values in columns:
        if size * len(values) > LARGEST:
            mixed, size = renumbered(mixed)
        mixed, size = mixed * len(values) + codes, size * max(len(values), 1)
    mixed, size = renumbered(mixed)
    first = np.empty(size, np.int64)
    first[mixed[::-1]] = np.arange(rows - 1, -1, -1)
    return mixed, first


def renumbered(mixed: np.ndarray) -> tuple[np.ndarray, int]:
    encoded = pa.array(mixed).dictionary_encode()
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


# --- NDJSON

RUN = re.compile(rb'"(run|namespace)"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d+)')


BEGINNING = 1 << 20  # of a line that is too long: in it, the name of its run is looked for
OWN = re.compile(rb'"(index|t_ms|request|run)"\s*:\s*(?:(?<!"run":)(-?(?:0|[1-9]\d{0,17}))(?=\s*[,}])'
                 rb'|(?<="run":)"([^"\\\x00-\x1f]*)")')  # a number, or the text of a run, without escapes


def read_lines(split: Split, choice: Choice) -> Iterator[Read]:
    """Read the lines that begin between `low` and `high`. Raises OSError."""
    found = lines(split)
    with closing(LineNumbers(split.path)) as places:
        while first := next(found, None):
            yield read_some(split, choice, chain([first], found), first[0] + SPLIT_BYTES, places)


def read_some(split: Split, choice: Choice, found: Iterable[tuple[int, bytes]], until: int, places: "LineNumbers") -> Read:
    """Read lines up to the first that begins at `until` or behind it, with it. Raises OSError.

    Lines that differ in nothing but run, index, time and number are parsed once."""
    groups: list[tuple] = []
    rests: list[tuple] = []
    known_groups, known = {}, {}
    numbers: list[tuple[int, ...]] = []
    damage = []
    alike: dict[tuple, tuple[tuple, int]] = {}  # rest of a line -> (group without the run, place of the event's rest)
    for offset, line in found:
        place = split.number << OFFSETS | offset
        try:
            if len(line) > split.line_mib << 20:
                line = line[:BEGINNING]
                raise ValueError(too_long(split.line_mib))
            parts = OWN.split(line)
            rest = *parts[::4], *parts[1::4]
            own = dict(zip(parts[1::4], map(either, parts[2::4], parts[3::4])))
            said = own.get(b"run", b"").decode(), *(int(own.get(name, usual)) for name, usual in (
                (b"index", place), (b"t_ms", 0), (b"request", 0)))
            of = alike.get(rest)
            if of is None:
                group, index, event = line_of(line, split.file, place)
                of = group[1:], number_of(event[2:], rests, known)
                if said == (group.run, index, *event[:2]):
                    alike[rest] = of
                said = group.run, index, *event[:2]
            group = said[0], *of[0]
            if all(not wanted or wanted == name for wanted, name in zip(choice, group)):
                numbers.append((number_of(group, groups, known_groups), *said[1:], of[1]))
        except ValueError as error:
            run = run_in(line, split.file)
            if not any(wanted and wanted != name for wanted, name in zip(choice, run)):
                damage.append((run, place, f"{split.file}:{places.at(offset)}: {error}"))
        if offset >= until:
            break
    return Read([Group(*group) for group in groups], rests, np.array(numbers, np.int64).reshape(-1, 5).T, damage)


def read_log(split: Split, choice: Choice) -> Read:
    """Read another program's log, which is one run with the name of its file. Raises OSError."""
    log = logs.named(split.log)
    if log is None or (any(choice) and choice != (split.file, "")):
        return NOTHING
    try:
        with opened(split.path) as stream:
            recording = log.read(texts_of(stream, split.line_mib, "surrogateescape"))
    except ValueError as error:
        return NOTHING._replace(damage=[((split.file, ""), split.number << OFFSETS, f"{split.file}: {error}")])
    rests: list[tuple] = []
    known: dict[tuple, int] = {}
    numbers = [(0, index, event.t_ms, event.request, number_of(event[2:], rests, known))
               for index, event in enumerate(recording.events)]
    group = Group(split.file, "", split.log, recording.options, False)
    return Read([group], rests, np.array(numbers, np.int64).reshape(-1, 5).T, [])


def either(number: Any, text: Any) -> bytes:
    return text if number is None else number


def lines(split: Split) -> Iterator[tuple[int, bytes]]:
    """Yield offset and content of each line that is not blank. Of a line that is longer than the bound, the beginning is
    yielded, which is longer than the bound, too. Raises OSError."""
    most = split.line_mib << 20
    with opened(split.path) as stream:
        offset = split.low
        if offset:
            stream.seek(offset - 1)
            offset += rest_of_line(stream, split.high - offset + 1) - 1  # of a line of another split
        while offset < split.high and (line := stream.readline(most + 1)):
            if not line.isspace():
                yield offset, line
            offset += len(line)
            if len(line) > most and not line.endswith(b"\n"):
                offset += rest_of_line(stream, split.high - offset)


def rest_of_line(stream: BinaryIO, most: int) -> int:
    """Read to the end of a line, or `most` bytes. Returns the number of bytes."""
    count = 0
    while count < most and (piece := stream.readline(min(most - count, 1 << 20))):
        count += len(piece)
        if piece.endswith(b"\n"):
            break
    return count


def line_of(line: bytes, file: str, place: int) -> tuple[Group, int, Event]:
    """Parse a line. Raises ValueError."""
    try:
        text = line.decode().strip()
    except UnicodeDecodeError as error:
        raise no_event(not_utf_8(error), line[:400].decode(errors="replace")) from None
    try:
        fields = json_of(text)
    except ValueError as error:
        raise no_event(error, text) from None
    ours = {name: fields.pop(name) for name in OURS if name in fields} if isinstance(fields, dict) else {}
    event, indexed = from_fields(fields, text), "index" in ours
    index = ours.pop("index", place)
    try:
        if type(index) is not int or max(abs(index), abs(event.t_ms), abs(event.request)) > LARGEST:
            raise ValueError(f"index {index!r}, t_ms {event.t_ms}, request {event.request}: not whole numbers of 64 bits")
        if type(ours.get("run")) is int:
            ours["run"] = str(ours["run"])
        for name, value in ours.items():
            if type(value) is not str:
                raise ValueError(f"{name} is {quoted(value)}")
            check_text(value)
    except ValueError as error:
        raise no_event(error, text) from None
    run, namespace, protocol, options = (ours.get(name, "") for name in GROUP)
    return Group(run if run or namespace else file, namespace, protocol, options, indexed), index, event


def run_in(line: bytes, file: str) -> tuple[str, str]:
    """Return the run that a malformed line names, if that can be read; else the run named after the file."""
    found = {}
    for name, value in RUN.findall(line):
        try:
            check_text(text := str(json_of(value)))
            found[name] = text
        except ValueError:
            pass
    return (found.get(b"run", ""), found.get(b"namespace", "")) if found else (file, "")


class LineNumbers:
    """Counts the lines of a file up to offsets that rise."""

    def __init__(self, path: str):
        self.path, self.number, self.offset = path, 1, 0
        self.stream: BinaryIO | None = None

    def at(self, offset: int) -> int:
        """Return the number of the line that begins there. Raises OSError."""
        self.stream = self.stream or opened(self.path)
        while piece := self.stream.read(min(offset - self.offset, 1 << 20)):
            self.number, self.offset = self.number + piece.count(b"\n"), self.offset + len(piece)
        return self.number

    def close(self) -> None:
        if self.stream:
            self.stream.close()
