"""Safety: the proof, the unrolling and the comparison with the model use one text, a `System`.

A system is a transition relation and clauses over it, plain functions of `View`s. They have three readings: over Z3 terms
without bounds (symbolic.py), over few values under conditions (finite.py), over the model's own states (plain.py).

    def advance(c, s, g, d: Id):                # constants, shared state, own local state; a choice, with its sort
        yield And(...), (d,), s.but(...), g.but(...)            # guard, choices of the label, shared', local'

    def known_is_durable(c, s, g: Collector):   # a clause holds for all values of its parameters
        return Implies(...)

Only choices are annotated. Nothing here depends on a protocol.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

Sort = Any  # bool, a Literal of words, or a NewType: of int (unbounded), of View (a process), of object (anything)
Signature = tuple[Sort, ...]  # the sorts of a field's arguments and of its result
Tables = dict[str, Any]  # field -> value | frozenset of the arguments for which it is true | {argument: value}
Scope = dict[Sort, list]  # the elements of each sort in a finite reading; a process is a number


def as_chosen(action: str, chosen: tuple, shared: Tables) -> tuple:
    return chosen


class System(NamedTuple):
    """The text of a proof. A role is named as in the model; "" is the shared state, and the store, which has no local state."""

    fields: dict[str, dict[str, Signature]]  # role -> its fields
    roles: dict[str, Sort]  # without ""
    rigid: dict[str, Signature]  # more fields of the shared state, which never change: uninterpreted when proving
    meaning: Callable[..., dict[str, Callable]]  # c -> rigid field -> its value in a finite reading
    initial: Callable[..., dict[str, dict[str, Any]]]  # c -> role -> field -> value | function
    actions: dict[str, dict[str, Callable]]  # role -> action -> relation
    clauses: dict[str, Callable]  # together the invariant
    properties: dict[str, Callable]  # which the clauses imply
    scope: Scope  # for counterexamples
    read: Callable[..., Tables]  # (role, the model's value) -> its tables
    write: Callable[..., Any]  # (role, tables) -> the model's value
    choices: Callable[..., tuple] = as_chosen  # (action, choices, tables of shared) -> the choices of the model's label
    axioms: dict[str, Callable] = {}  # noqa: RUF012  # what is assumed of rigid fields; a finite reading checks it
    lemmas: dict[str, dict[str, Callable]] = {}  # noqa: RUF012  # "Role.Action" -> what holds whenever it is enabled: f(c, s, own,
    #                                              choices), proved from the invariant and then used
    needs: dict[tuple[str, str], tuple[str, ...]] = {}  # noqa: RUF012  # (action, clause) -> all that its query may use but that clause


class Misnamed(AttributeError):
    """A relation, a clause or a model names a variable that does not exist."""


class View:
    """A process's view of the shared state or of its own: the fields, and quantifiers over the elements of a sort."""

    def __init__(self, reading: Any, me: Any, fields: dict[str, Any], role: str = ""):
        self.reading, self.me, self.fields, self.role = reading, me, fields, role
        self.every, self.some, self.count, self.greatest = reading.every, reading.some, reading.count, reading.greatest
        self.defined: dict[str, Callable] = {}
        self.__dict__.update(fields)

    def __getattr__(self, name: str) -> Any:  # called for names that are not in __dict__
        fields = self.__dict__.get("fields", {})
        raise Misnamed(f"there is no variable {title(self.role, name)}; there are {', '.join(fields)}")

    def define(self, name: str, sorts: tuple[Sort, ...], f: Callable) -> Callable:
        """Return a condition on values of these sorts, under a name of its own where a reading has names."""
        if name not in self.defined:
            self.defined[name] = self.reading.define(sorts, f)
        return self.defined[name]

    def but(self, **changes: Any) -> "View":
        for name in changes.keys() - self.fields.keys():
            self.__getattr__(name)
        return View(self.reading, self.me, {**self.fields, **changes}, self.role)


class Whole(NamedTuple):
    shared: View
    local: Callable[[Sort, Any], View]  # (role, process) -> its view


def base(sort: Sort) -> Any:
    return getattr(sort, "__supertype__", sort)


def parameters(f: Callable) -> tuple[Sort, ...]:
    return tuple(f.__annotations__.values())


def of_roles(clause: Callable) -> tuple[str, ...]:
    """Return the roles of the parameters that are processes."""
    return tuple(sort.__name__ for sort in parameters(clause) if base(sort) is View)


def title(role: str, name: str) -> str:
    return f"{role}.{name}" if role else name
