"""Safety: a regular expression means what it means in RE2, and takes time in proportion to the text.

Queries of the index have the expressions of Go, whose syntax is RE2's. Python's `re` has others, and takes for ever for some.
A dot matches a line's end too, and an expression has to match the whole text.
"""

from collections.abc import Callable
from functools import lru_cache

import re2

from highwater.impl.errors import Definite

LATELY = 100  # expressions that are kept, of at most 8 MiB each
META = frozenset("\\.+*?()[]{}^$")  # signs with a meaning, beside the bar


class InvalidRegex(Definite):
    """An expression that RE2 refuses. The message says why."""


def options() -> re2.Options:
    found = re2.Options()
    found.dot_nl = True
    found.log_errors = False
    return found


OPTIONS = options()


@lru_cache(LATELY)
def matcher_of(expression: str) -> Callable[[str], bool]:
    """Return the function that says whether a text matches as a whole. Raises InvalidRegex."""
    try:
        body = expression.encode()
    except UnicodeEncodeError:  # it has bytes that are none; Go refuses these only where it compiles the expression
        if META.isdisjoint(expression):
            return frozenset(expression.split("|")).__contains__
        raise InvalidRegex(f"the expression {expression!r} is not UTF-8") from None
    if (at := single_byte(expression)) is not None:
        raise InvalidRegex(f"the expression {expression!r} has \\C at {at}, which is no character")
    try:
        compiled = re2.compile(body, OPTIONS)
    except re2.error as error:
        why = error.args[0] if error.args else "it is refused"
        text = why.decode(errors="replace") if isinstance(why, bytes) else str(why)
        raise InvalidRegex(f"the expression {expression!r}: {text}") from None
    return lambda text: compiled.fullmatch(text.encode(errors="surrogateescape")) is not None


def single_byte(expression: str) -> int | None:
    """Return where \\C stands, which matches a byte here, and which Go refuses; None if it does not."""
    at, quoted = 0, False
    while at < len(expression) - 1:
        two = expression[at:at + 2]
        if quoted:
            quoted = two != "\\E"
        elif two == "\\C":
            return at
        else:
            quoted = two == "\\Q"
        at += 2 if two[0] == "\\" else 1
    return None
