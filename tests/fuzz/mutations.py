"""Mutates valid inputs: bytes, JSON, XML, heads of HTTP and keys. Equal states of `chance` give equal results."""

import json
import re
from collections.abc import Sequence
from random import Random
from typing import Any

WIDTHS = (7, 8, 15, 16, 20, 31, 32, 53, 62, 63)
BOUNDS = tuple(sorted({0, 1, 2, 9, *((1 << bits) + delta for bits in WIDTHS for delta in (-1, 0, 1)), (1 << 64) - 1}))
SIGNED = tuple(number for number in (*BOUNDS, *(-number for number in BOUNDS)) if -(1 << 63) <= number < 1 << 63)
TEXTS = ("", " ", "a", "é" * 300, "x" * 70_000, "\0", "\x1b[2J\n", "..", "a/../b", "'\"\\", "\ud800", "%s{0}", "\u202e",
         "9" * 5_000, "-1", "1e999", "NaN", "*", "null")
DEPTHS = (1, 10, 900, 1_100, 100_000)  # the usual limit of Python's recursion is 1,000


def some_bytes(chance: Random) -> bytes:
    kind = chance.randrange(4)
    if kind == 0:
        return chance.randbytes(chance.choice((1, 3, 8, 40)))
    if kind == 1:
        return chance.choice((b"\xff", b"\0", b"\x80", b"\xc3\x28", b"\xed\xa0\x80")) * chance.choice((1, 4, 300))
    if kind == 2:
        return chance.choice(BOUNDS).to_bytes(9)[-chance.choice((1, 2, 4, 8)):]
    return chance.choice(TEXTS).encode(errors="surrogatepass")


def mutated(data: bytes, chance: Random, others: Sequence[bytes] = ()) -> bytes:
    """Return bytes with flips, cuts, splices with another valid input, and numbers and lengths at their bounds."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at, kind = chance.randrange(len(changed) + 1), chance.randrange(8)
        if kind == 0 and at < len(changed):
            changed[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del changed[at:at + chance.choice((1, 2, 8, 1 << 30))]
        elif kind == 2:
            changed[at:at] = some_bytes(chance)
        elif kind in (3, 4):  # a number of usual width, big-endian as in frames and messages or little-endian
            width = chance.choice((1, 2, 4, 8))
            number = chance.choice(BOUNDS) % (1 << 8 * width)
            changed[at:at + width] = number.to_bytes(width, chance.choice(("big", "big", "little")))
        elif kind == 5 and others:
            other = chance.choice(others)
            changed[at:] = other[chance.randrange(len(other) + 1):]
        elif kind == 6:
            changed[at:at] = changed[at:at + chance.choice((1, 4, 20, 200))]
        elif at < len(changed):
            changed[at] = chance.randrange(256)
    return bytes(changed)


def nested(value: Any, chance: Random) -> str:
    """Return JSON with `value` in deep nesting."""
    depth, (begin, end) = chance.choice(DEPTHS), chance.choice((("[", "]"), ('{"a":', "}")))
    return begin * depth + json.dumps(value) + end * depth


def odd_json(value: Any, chance: Random) -> str:
    """Return JSON of another type or form in the place of a value."""
    kind = chance.randrange(6)
    if kind == 0:
        return nested(value, chance)
    if kind == 1:
        return str(chance.choice(SIGNED))
    if kind == 2:
        return json.dumps(chance.choice(TEXTS))
    if kind == 3:
        return chance.choice(("NaN", "Infinity", "1e400", "-0", "0.1", "9" * 5_000, '"\\ud800"', '"\\u0000"'))
    return chance.choice(("null", "true", "[]", "{}", "[[]]", '{"a": [1]}', "[1, null]"))


def mutated_json(given: dict[str, Any], chance: Random) -> bytes:
    """Return a JSON object with parts that are gone, there twice, or odd; sometimes other bytes."""
    parts = [[json.dumps(name), json.dumps(value)] for name, value in given.items()]
    for _ in range(chance.choice((0, 1, 1, 2))):
        if not parts:
            break
        part, kind = chance.choice(parts), chance.randrange(5)
        if kind == 0:
            parts.remove(part)
        elif kind == 1:
            parts.append([part[0], odd_json(given, chance)])
        elif kind == 2:
            part[0] = json.dumps(chance.choice((*given, *TEXTS)))
        else:
            part[1] = odd_json(chance.choice((*given.values(),)), chance)
    data = ("{" + ", ".join(": ".join(part) for part in parts) + "}").encode()
    if chance.random() < 0.1:
        data = nested(given, chance).encode()
    return mutated(data, chance) if chance.random() < 0.2 else data


TAG = re.compile(rb"<([A-Za-z]+)>([^<]*)</\1>")
NUMBERS = ("-1", "01", "+1", " 1 ", "1_0", "1.5", "0x10", "1e3", "", "x", "9" * 25, "9" * 5_000, "٣", str(1 << 63), "NaN")
PAGES = (b"", b"<html><body>Sign in</body></html>", b"<!DOCTYPE html><html><p>502", b"{}", b"\x1f\x8b\x08junk", b"<", b"OK",
         b"<?xml version='1.0'?><ListBucketResult/>", b"<Error><Code>SlowDown</Code></Error>", b"<a>" * 2_000,
         b"\xff\xfe<\0a\0")


def mutated_xml(page: bytes, chance: Random) -> bytes:
    """Return a page with elements that are gone, there twice, moved, renamed, nested or odd; sometimes another page."""
    if chance.random() < 0.1:
        return chance.choice(PAGES)
    for _ in range(chance.choice((0, 1, 1, 2, 4))):
        elements = list(TAG.finditer(page))
        if not elements:
            break
        element = chance.choice(elements)
        name, content = element[1], element[2]
        made = chance.choice((
            b"", element[0] * 2, b"<%b/>" % name, b"<%b>%b" % (name, content), b"<X>%b</X>" % content,
            b"<%b><%b>%b</%b></%b>" % (name, name, content, name, name), b"<%b>%b</%b>" % (name.lower(), content, name.lower()),
            chance.choice(elements)[0], b"<%b>%b</%b>" % (name, chance.choice(NUMBERS).encode(), name),
            b"<%b>%b</%b>" % (name, chance.choice(TEXTS).encode(errors="surrogatepass"), name),
            b"<%b>%b</%b>" % (name, chance.choice((b"true", b"false", b"True", b"maybe")), name)))
        page = page[:element.start()] + made + page[element.end():]
    return mutated(page, chance) if chance.random() < 0.1 else page


STATUSES = ("200 OK", "200 OK", "200 OK", "200", "204 No Content", "206 Partial Content", "301 Moved Permanently",
            "304 Not Modified", "307 Temporary Redirect", "400 Bad Request", "403 Forbidden", "404 Not Found", "409 Conflict",
            "412 Precondition Failed", "416 Bad Range", "429 Slow", "500 Bad", "503 Slow Down", "999 x", "099 x", "abc def", "")
HEADS = ("ETag", "Last-Modified", "Content-Length", "Content-Range", "Transfer-Encoding", "Content-Encoding", "x-amz-meta-a",
         "Location",
         "x-amz-error-code", "x-amz-checksum-crc32", "x-amz-bucket-region", "Date", "Retry-After", "x-amz-version-id",
         "Connection")
VALUES = ("", '"1"', "1", "W/\"1\"", "Sun, 29 Nov 2026 07:00:00 GMT", "Sun, 32 Nov 99999 07:00:00 GMT", "yesterday",
          "gzip", "chunked",
          "bytes 0-3/100", "bytes */0", "bytes 5-1/x", "é", "\x7f", "a\tb", "x" * 9_000, "AAAA", "close", "eu-west-1", *NUMBERS)


def mutated_head(head: dict[str, str], chance: Random) -> dict[str, str]:
    """Return the fields of a response with some gone, added, or odd."""
    changed = dict(head)
    for _ in range(chance.choice((0, 1, 1, 2))):
        if changed and chance.random() < 0.4:
            del changed[chance.choice(list(changed))]
        else:
            changed[chance.choice((*head, *HEADS))] = chance.choice(VALUES)
    return changed


SIGNS = ("a", "-", ".", " ", "\n", "\x01", "\x7f", "é", "\u2028", "😀", "%", "+", "\\", "'", "\x1b[2J", "*", "?")


def odd_key(prefix: str, valid: Sequence[str], chance: Random) -> str:
    """Return a key below a prefix: of odd signs, or as long as a key may be, or a valid one with damage."""
    kind = chance.randrange(5)
    if kind == 0:
        size = chance.choice((1_000, 1_015, 1_016, 1_017, 1_020, 1_023, 1_024)) - len(prefix)
        return prefix + "/".join(["s" * chance.choice((100, 200, 255))] * 12)[:size].rstrip("/")
    if kind == 1:
        parts = ("".join(chance.choices(SIGNS, k=chance.randrange(1, 9))) for _ in range(chance.randrange(1, 6)))
        return prefix + "/".join(parts)
    if kind == 2:
        return prefix + chance.choice("éa") * chance.choice((126, 127, 128, 250, 255))
    parts = chance.choice(valid).split("/")
    at = chance.randrange(1, len(parts))
    parts[at:at + 1] = chance.choice(((), (parts[at], parts[at]), (chance.choice(SIGNS),),
                                      (chance.choice(NUMBERS)[:200] or "x",), (parts[at] + "x",),
                                      (parts[at][::-1],), (parts[at].lower(),)))
    return "/".join(parts)
