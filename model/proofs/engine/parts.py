"""Terms that the relations of several protocols share: bounds, initial values, and records that are known by author and number.

These are the words of model/parts.py over Z3 terms. A relation must say each step itself: nothing here is an
action or a clause.
"""

from typing import Any

from highwater.model.proofs.engine.logic import And, If
from highwater.model.proofs.engine.system import View

# --- initial values of functions

def nothing(*_: Any) -> bool:
    return False


def zero(*_: Any) -> int:
    return 0


# --- bounds: None means unbounded and not counted

def room(used: Any, bound: int | None) -> Any:
    """Tell whether `used` is below the bound. A function that counts it is called only where there is a bound."""
    if not bound:
        return bound is None
    return (used() if callable(used) else used) < bound  # pyright: ignore[reportOperatorIssue]  # an int, or a z3 expression


def one_more(used: Any, bound: int | None) -> Any:
    return 0 if bound is None else used + 1


def larger(x: Any, y: Any) -> Any:
    return If(x > y, x, y)


# --- updates, entries and records, each known by its author and the author's number for it

def authored(_: Any) -> dict:
    """The meaning of the rigid fields `author` and `number` in a finite reading."""
    return {"author": lambda u: u[0], "number": lambda u: u[1]}


def own(s: View, w: View, u: Any) -> Any:
    """`u` is the update, entry or record that the process is at."""
    return And(s.author(u) == w.me, s.number(u) == w.k)


def same(s: View, u: Any, v: Any) -> Any:
    return And(s.author(u) == s.author(v), s.number(u) == s.number(v))
