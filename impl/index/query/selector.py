"""Safety: a query is read as Prometheus reads a metric selector, or refused. tests/interop asks Prometheus's own parser.

A selector is a metric's name, or matchers of labels in braces, or both:

    {service_name="api", pod=~"web-.*"}        requests{code!="200"}        {"a.b"='x', c!~`\\d+`,}

It has no range, offset or operator. A text in backticks stands as it is; in other quotes it has Go's escapes. A `#` begins a
comment, which ends with the line.
"""

import re
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from highwater.impl.codecs.index.regexes import InvalidRegex, matcher_of
from highwater.impl.errors import Definite

METRIC = "__name__"
EQUAL, NOT_EQUAL, MATCH, NOT_MATCH = OPERATORS = ("=", "!=", "=~", "!~")
NEGATIVE = (NOT_EQUAL, NOT_MATCH)
# Words that are no metric's name outside of braces, in capitals or not; other keywords of queries are.
RESERVED = frozenset(("atan2", "bool", "group_left", "group_right", "ignoring", "inf", "nan", "on"))
SPACE = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OPERATOR = re.compile(r"=~|!~|!=|=")
ESCAPE = re.compile(r"[0-7]{3}|x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}")
SIMPLE = {"a": b"\a", "b": b"\b", "f": b"\f", "n": b"\n", "r": b"\r", "t": b"\t", "v": b"\v", "\\": b"\\"}
REPLACEMENT = "\ufffd"  # what invalid UTF-8 is read as, so that Prometheus refuses it in a text


class InvalidSelector(Definite):
    """A query that is no metric selector. The message says where and why."""


class Matcher(NamedTuple):
    """A condition on one label. A value that is not UTF-8, because of its escapes, has surrogates and equals no label's."""

    name: str
    op: str
    value: str

    def __str__(self) -> str:
        return f"{quoted(self.name)} {self.op} {quoted(self.value)}"

    def predicate(self) -> Callable[[str], bool]:
        """Return the function that says whether a label with this text satisfies the condition. Raises InvalidRegex."""
        if self.op in (EQUAL, NOT_EQUAL):
            return self.value.__eq__ if self.op == EQUAL else self.value.__ne__
        matches = matcher_of(self.value)
        return matches if self.op == MATCH else lambda text: not matches(text)


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def parse(text: str) -> tuple[Matcher, ...]:
    """Return the matchers of a selector in their order, a metric's name before the braces last. Raises InvalidSelector."""
    return Parser(text).selector()


class Parser:
    """Reads one selector from its beginning."""

    def __init__(self, text: str):
        self.text, self.at = text, 0
        self.space()

    def refuse(self, wanted: str) -> NoReturn:
        found = repr(self.text[self.at]) if self.at < len(self.text) else "the end"
        raise InvalidSelector(f"the query {self.text!r} has {found} at position {self.at}, where {wanted} has to be")

    def space(self) -> None:
        found = SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def take(self, form: re.Pattern[str]) -> str:
        """Return what stands here in this form, and go on behind it; "" if nothing does."""
        found = form.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        self.space()
        return found[0]

    def next_is(self, sign: str) -> bool:
        """Return whether a sign stands here, and go on behind it."""
        if not self.text.startswith(sign, self.at):
            return False
        self.at += 1
        self.space()
        return True

    def selector(self) -> tuple[Matcher, ...]:
        start = self.at
        name = self.take(NAME)
        if name.lower() in RESERVED:
            self.at = start
            self.refuse(f"a metric's name or an opening brace, and {name!r} is a word of queries,")
        matchers = self.braces() if self.next_is("{") else None
        if not name and matchers is None:
            self.refuse("a metric's name or an opening brace")
        if self.at < len(self.text):
            self.refuse("the end of the selector")
        return (*(matchers or ()), *([Matcher(METRIC, EQUAL, name)] if name else ()))

    def braces(self) -> list[Matcher]:
        found: list[Matcher] = []
        while not self.next_is("}"):
            found.append(self.matcher())
            if not self.next_is(","):
                if not self.next_is("}"):
                    self.refuse("a comma or a closing brace")
                return found
        return found

    def matcher(self) -> Matcher:
        """Return the next matcher; a quoted text alone is the metric's name."""
        is_quoted = self.text[self.at:self.at + 1] in ("'", '"', "`") and self.at < len(self.text)
        name = self.string() if is_quoted else self.take(LABEL)
        if not is_quoted and not name:
            self.refuse("a label's name or a closing brace")
        op = self.take(OPERATOR)
        if not op:
            if not is_quoted:
                self.refuse("one of = != =~ !~")
            return Matcher(METRIC, EQUAL, name)
        found = Matcher(name, op, self.string())
        try:
            found.predicate()
        except InvalidRegex as error:
            raise InvalidSelector(f"the query {self.text!r}: {error}") from None
        return found

    def string(self) -> str:
        """Return the text in quotes that stands here."""
        quote = self.text[self.at:self.at + 1]
        if quote not in ("'", '"', "`") or not quote:
            self.refuse("a text in quotes")
        self.at += 1
        found = bytearray()
        while not self.text.startswith(quote, self.at):
            sign = self.text[self.at:self.at + 1]
            if not sign or sign == REPLACEMENT or (sign == "\n" and quote != "`"):
                self.refuse("the end of the text in quotes" if sign != REPLACEMENT else "a character")
            self.at += 1
            found += self.escaped(quote) if sign == "\\" and quote != "`" else sign.encode()
        self.at += 1
        self.space()
        return found.decode(errors="surrogateescape")

    def escaped(self, quote: str) -> bytes:
        """Return the bytes of the escape whose backslash was just read: octal and \\x are bytes, \\u and \\U characters."""
        sign = self.text[self.at:self.at + 1]
        if sign and (sign == quote or sign in SIMPLE):
            self.at += 1
            return SIMPLE.get(sign, sign.encode())
        form = ESCAPE.match(self.text, self.at)
        if form is None:
            self.refuse("an escape of Go")
        number = int(form[0], 8) if sign.isdigit() else int(form[0][1:], 16)
        is_byte = sign.isdigit() or sign == "x"
        if number > (255 if is_byte else 0x10FFFF) or 0xD800 <= number < 0xE000:
            self.refuse("the escape of a byte or of a character")
        self.at = form.end()
        return bytes([number]) if is_byte else chr(number).encode()
