"""Read text that others wrote: JSON, TOML, and lines of a file.

Safety: a text that is not well formed, or is beyond a bound, raises ValueError with one line of text. Time and memory are in
proportion to the size of the text.
"""

import json
import re
import tomllib
from collections.abc import Iterator
from math import isinf
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

DEPTH = 64  # of arrays and objects within each other; no format that is read here has more than ten
LINE_MIB = 64  # of a line. A line of a trace holds one object's content, and those of clients of an object store are smaller
DOCUMENT_MIB = 64  # of a JSON or TOML document, which is read whole. The largest are bundles' tapes, of less than 1 MiB
PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}  # first bytes of a compressed file: no text in UTF-8 has them
LONGEST_QUOTE = 80  # characters of a line in a message


def json_of(text: str | bytes) -> Any:
    """Return the value of one JSON document. Raises ValueError if it is none, if a name is twice in an object, if it has NaN or
    Infinity or a float beyond 64 bits, or if it is nested deeper than DEPTH."""
    if isinstance(text, bytes):
        text = text.decode()
    try:
        found = DECODER.decode(text)
    except RecursionError:
        raise ValueError(NESTED) from None
    except ValueError as error:
        if str(error).startswith("Exceeds the limit"):
            raise ValueError("it has a number of more than 4,300 digits") from None
        raise
    if text.count("[") + text.count("{") > DEPTH:
        check_depth(found)
    return found


def toml_of(text: str | bytes) -> dict[str, Any]:
    """Return the content of a TOML document. Raises ValueError if it is none, or is nested deeper than DEPTH."""
    try:
        found = tomllib.loads(text if isinstance(text, str) else text.decode())
    except RecursionError:
        raise ValueError(NESTED) from None
    check_depth(found)
    return found


def document_of(path: Path) -> bytes:
    """Return the content of a file that is read whole. Raises OSError, and ValueError for more than DOCUMENT_MIB MiB, of which
    no more is read."""
    with open(path, "rb") as stream:
        found = stream.read((DOCUMENT_MIB << 20) + 1)
    if len(found) > DOCUMENT_MIB << 20:
        raise ValueError(f"the file is larger than {DOCUMENT_MIB} MiB, and no such document is")
    return found


def codec_of(path: str | Path) -> str:
    """Return how a file is compressed, by its first bytes; "" if it is not. Raises OSError."""
    with open(path, "rb") as stream:
        first = stream.read(4)
    return next((codec for magic, codec in PACKED.items() if first.startswith(magic)), "")


def lines_of(stream: BinaryIO, most_mib: int = LINE_MIB) -> Iterator[bytes]:
    """Yield the lines of a file, with their ends. Raises ValueError for one of more than `most_mib` MiB, which is not read to
    its end."""
    most = most_mib << 20
    while line := stream.readline(most + 1):
        if len(line) > most:
            raise ValueError(too_long(most_mib))
        yield line


def too_long(most_mib: int) -> str:
    return f"the line is longer than {most_mib} MiB; --line-mib raises this bound"


def texts_of(stream: BinaryIO, most_mib: int = LINE_MIB, errors: str = "strict") -> Iterator[str]:
    """Yield the text of each line, with its end. `errors`: as bytes.decode has it. Raises ValueError, with the number of the
    line, for one that is not UTF-8 or too long."""
    number = 0
    try:
        for line in lines_of(stream, most_mib):
            number += 1
            yield line.decode(errors=errors)
    except UnicodeDecodeError as error:
        raise ValueError(f"line {number}: {not_utf_8(error)}") from None
    except ValueError as error:
        raise ValueError(f"line {number + 1}: {error}") from None


def first_line(path: Path) -> str:
    """Return the first line of a file that is not blank, among the first 100, and of that at most 1 MiB. Raises OSError."""
    with open(path, "rb") as stream:
        return first_line_of(stream)


def first_line_of(stream: BinaryIO) -> str:
    """Return the first line as `first_line` does."""
    lines = (stream.readline(1 << 20) for _ in range(100))
    return next((line for line in lines if line.strip()), b"").decode(errors="surrogateescape")


def quoted(value: Any) -> str:
    """Return the beginning of a line, or of another value, for a message."""
    return repr(value[:LONGEST_QUOTE] if isinstance(value, str) else value)[:2 * LONGEST_QUOTE]


def not_utf_8(error: UnicodeDecodeError) -> str:
    gzip = "; it is compressed with gzip: unpack it" if error.object[:2] == b"\x1f\x8b" else ""
    return f"byte {error.start + 1} is not UTF-8{gzip}"


def check_text(text: str) -> None:
    """Raises ValueError for a text that cannot be written as UTF-8: JSON's escapes can make half of a surrogate pair."""
    if not text.isascii() and (half := SURROGATE.search(text)):
        raise ValueError(f"{text[:LONGEST_QUOTE]!r} has half of a surrogate pair, {half[0]!r}")


# --- the bounds

NESTED = f"it is nested deeper than {DEPTH} arrays and objects"
SURROGATE = re.compile("[\ud800-\udfff]")


def check_depth(value: Any) -> None:
    """Raises ValueError if a value is nested deeper than DEPTH."""
    level = [value]
    for _ in range(DEPTH):
        level = [inner for outer in level if isinstance(outer, (dict, list))
                 for inner in (outer.values() if isinstance(outer, dict) else outer)]
        if not level:
            return
    if any(isinstance(inner, (dict, list)) for inner in level):
        raise ValueError(NESTED)


def without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


def float_of(text: str) -> float:
    if isinf(found := float(text)):
        no_number(f"{text[:LONGEST_QUOTE]}, which is beyond 64 bits,")
    return found


DECODER = json.JSONDecoder(object_pairs_hook=without_twins, parse_constant=no_number, parse_float=float_of)
