"""Safety: a relation is written once and has one meaning for all kinds of values. This module has the words to write it in.

They evaluate to Python booleans in the plain reading, split `Cases` in the bounded one, and otherwise build Z3 terms. A word,
such as a program counter, is itself in Python and a number in Z3.
"""

import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import z3
from z3 import z3 as bindings

bindings.Z3_DEBUG = False  # the library itself checks what it is given; to check it in Python, too, takes a fifth of a proof

WORDS: dict[str, int] = {}


def term(x: Any) -> Any:
    return WORDS.setdefault(x, len(WORDS)) if isinstance(x, str) else x


def And(*xs: Any) -> Any:
    terms = []
    for x in xs:
        if x is False:
            return False
        if x is not True:
            terms.append(x)
    return (joined(z3.Z3_mk_and, terms) if len(terms) > 1 else terms[0]) if terms else True


def Or(*xs: Any) -> Any:
    terms = []
    for x in xs:
        if x is True:
            return True
        if x is not False:
            terms.append(x)
    return (joined(z3.Z3_mk_or, terms) if len(terms) > 1 else terms[0]) if terms else False


def joined(make: Callable, terms: list[Any]) -> z3.BoolRef:
    """The term that z3.And or z3.Or makes of conditions, without coercing each to the sort that it has already."""
    context = terms[0].ctx
    return z3.BoolRef(make(context.ref(), len(terms), (z3.Ast * len(terms))(*[x.ast for x in terms])), context)


def Not(x: Any) -> Any:
    return not x if isinstance(x, bool) else z3.Not(x)


def Implies(x: Any, y: Any) -> Any:
    return Or(Not(x), y)


def If(x: Any, y: Any, z: Any) -> Any:
    if isinstance(x, bool):
        return y if x else z
    if isinstance(y, Cases) or isinstance(z, Cases):
        return one_of([*((v, And(x, when)) for v, when in cases(y)), *((v, And(Not(x), when)) for v, when in cases(z))])
    return z3.If(x, term(y), term(z))


def at(x: Any, *words: str) -> Any:
    """Return whether the word `x` is one of `words`."""
    if isinstance(x, str):
        return x in words
    return Or(*(x == (word if isinstance(x, Cases) else term(word)) for word in words))


# --- what may be one of few values --------------------------------------------------------------------------------------

class Cases:
    """One of several values, each under a Z3 condition; exactly one of the conditions is true."""

    __slots__ = ("when",)

    def __init__(self, when: dict[Any, Any]):
        self.when = when

    def __bool__(self) -> bool:
        raise TypeError("what this is depends on conditions: write And, Or, Not, If, not Python's own")

    def __add__(self, other: Any) -> Any:
        return applied(operator.add, self, other)

    def __sub__(self, other: Any) -> Any:
        return applied(operator.sub, self, other)

    def __eq__(self, other: Any) -> Any:  # under a condition only, so nothing is hashed
        return Or(*(And(self.when[v], when) for v, when in cases(other) if v in self.when))

    def __ne__(self, other: Any) -> Any:
        return Not(self == other)

    def __lt__(self, other: Any) -> Any:
        return applied(operator.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return applied(operator.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return applied(operator.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return applied(operator.ge, self, other)


def cases(x: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(x, z3.ArithRef):
        raise TypeError(f"{x}: a number of Z3's where there are none")
    return x.when.items() if isinstance(x, Cases) else [(x, True)]


def one_of(values: Iterable[tuple[Any, Any]]) -> Any:
    """Return `Cases` of pairs (value, condition); values may repeat. If there is only one value, return it."""
    whens: dict[Any, list] = {}
    for value, when in values:
        for v, w in cases(value):
            if (both := And(w, when)) is not False:
                whens.setdefault(v, []).append(both)
    if len(whens) == 1:
        return next(iter(whens))
    return Cases({value: Or(*when) for value, when in whens.items()})


def applied(f: Callable, *xs: Any) -> Any:
    """Apply `f` to values that are `Cases`: a condition if `f` returns truth values, otherwise `Cases` again."""
    pairs = []
    for given in itertools.product(*map(cases, xs)):
        if (when := And(*(w for _, w in given))) is not False:
            pairs.append((f(*(v for v, _ in given)), when))
    if any(not isinstance(value, bool) and not isinstance(value, z3.BoolRef) for value, _ in pairs):
        return one_of(pairs)
    return Or(*(And(value, when) for value, when in pairs))
