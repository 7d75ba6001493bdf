"""Safety: a function of the shared state is called again only if a field that it read differs; otherwise its answer is the
same.

An action or a property gets a recorder in place of the shared state: a record of the same type, or a good imitation, that notes
which fields are read and written. The answer is stored under the values of the fields that were read. Comparing, hashing,
unpacking or iterating over a record reads all of it.

Two kinds of access are not noticed: a test of the exact type (`type(state) is State`), and reads by the interpreter in C (`"%s"
% state`). So a model that uses `type` is refused. Also, for each new set of fields the function is called with the plain record
as well, and a model whose answers differ is refused.
"""

from collections.abc import Callable
from functools import cache
from operator import itemgetter
from typing import Any

RECORDED: dict[type, type] = {}  # the type of recorders -> that of what they record
item, values_of = tuple.__getitem__, tuple.__iter__
WHOLE = ("__iter__", "__contains__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__hash__", "__add__",
         "__mul__", "__rmul__", "__repr__", "__format__", "__str__", "count", "index", "_asdict")


class NotPlain(ValueError):
    """A function of the model answers another thing about a state than about a recorder of it."""


def asks_for_type(function: Callable, seen: set[int]) -> bool:
    """Whether a function, or one that it names, names `type`."""
    code, named = getattr(function, "__code__", None), getattr(function, "__globals__", {})
    if code is None or id(code) in seen:
        return False
    seen.add(id(code))
    codes = [code]
    for inner in codes:
        codes += [constant for constant in inner.co_consts if hasattr(constant, "co_names")]
    names = {name for inner in codes for name in inner.co_names}
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return ("type" in names and "type" not in named) or any(
        asks_for_type(other, seen) for other in (*cells, *[named[name] for name in sorted(names & named.keys())]))


def recording(record: Any, reads: set[int], first: int = 0) -> Any:
    """A record like this one whose reads are noted: of its field at a place, as first + place."""
    made = tuple.__new__(recorder(type(record)), values_of(record))
    made.__dict__.update(_reads=reads, _first=first, _written=())
    return made


def writes_of(record: Any, reads: set[int]) -> list[tuple[int, Any]] | None:
    """(place, value) of each field that is another than in the record that `reads` are noted of; None if this is no
    recorder of that one, and so a state of its own."""
    notes = getattr(record, "__dict__", {})
    return [(place, item(record, place)) for place in notes["_written"]] if notes.get("_reads") is reads else None


def plain(value: Any) -> Any:
    """The value, or, of a recorder, the record, all of which is then read."""
    of = RECORDED.get(type(value))
    return tuple.__new__(of, iter(value)) if of else value


class Field:
    """A field of a recorder. The first read notes it and leaves the value in the instance, where later reads find it."""

    __slots__ = ("name", "place")

    def __init__(self, name: str, place: int) -> None:
        self.name, self.place = name, place

    def __get__(self, record: Any, owner: type) -> Any:
        if record is None:
            return self
        notes, place = record.__dict__, self.place
        if place not in notes["_written"]:
            notes["_reads"].add(notes["_first"] + place)
        value = notes[self.name] = item(record, place)
        return value


@cache
def recorder(of: type) -> type:
    """The type of the recorders of a named tuple's type."""

    def note(self: Any) -> None:
        notes = self.__dict__
        notes["_reads"].update([notes["_first"] + place for place in places if place not in notes["_written"]])

    def whole(name: str) -> Callable:
        method = getattr(of, name)

        def call(self: Any, *arguments: Any) -> Any:
            note(self)
            return method(recorded(self), *map(plain, arguments))
        return call

    def replace(self: Any, **changes: Any) -> Any:
        unknown = changes.keys() - set(of._fields)
        if unknown:
            raise ValueError(f"{of.__name__} has no field {', '.join(sorted(unknown))}")
        values = list(values_of(self))
        for name, value in changes.items():
            values[index[name]] = value
        made = tuple.__new__(made_of, values)
        notes = self.__dict__  # with the values of fields that were read, and that may be others now
        made.__dict__.update(_reads=notes["_reads"], _first=notes["_first"],
                             _written=tuple({*notes["_written"], *[index[name] for name in changes]}))
        return made

    def recorded(self: Any) -> Any:
        return tuple.__new__(of, values_of(self))

    def get(self: Any, index: Any) -> Any:
        note(self)
        return item(self, index)

    def added_to(self: Any, other: Any) -> Any:
        note(self)
        return other + recorded(self)

    def reduced(self: Any, protocol: int) -> Any:
        note(self)
        return recorded(self).__reduce_ex__(protocol)

    places = range(len(of._fields))
    index = {name: place for place, name in enumerate(of._fields)}
    made_of: type = type(of.__name__, (of,), {
        **{name: whole(name) for name in WHOLE}, **{name: Field(name, place) for name, place in index.items()},
        "_replace": replace, "__getitem__": get, "__radd__": added_to, "__reduce_ex__": reduced,
        "_make": classmethod(lambda cls, values: of._make(values)), "__new__": lambda cls, *a, **k: of(*a, **k),
        "__class__": property(lambda self: of), "__module__": of.__module__, "__qualname__": of.__qualname__})
    RECORDED[made_of] = of
    return made_of


class Answers:
    """The stored answers of a function of some records; no answer is None. `fields` are the numbers of all their fields, record
    by record."""

    __slots__ = ("ask", "constant", "known", "others", "read")

    def __init__(self, ask: Callable):
        self.ask = ask  # given what reads are noted in, and a recorder for each record
        self.constant = False  # whether nothing is read
        self.read: Callable = nothing  # those of the fields that were read,
        self.known: dict[Any, Any] = {}  # and the answers by them
        self.others: dict[tuple[int, ...], tuple[Callable, dict]] = {}  # the same for all sets of fields: places -> both

    def of(self, records: tuple, fields: tuple[int, ...]) -> Any:
        answer = self.known.get(self.read(fields))
        return answer if answer is not None else self.anew(records, fields)

    def anew(self, records: tuple, fields: tuple[int, ...]) -> Any:
        for read, known in self.others.values():
            answer = known.get(read(fields))
            if answer is not None:
                return answer
        reads: set[int] = set()
        shared, *own = records
        answer = self.ask(reads, recording(shared, reads), *[recording(local, reads, len(shared)) for local in own])
        places = tuple(sorted(reads))
        if places not in self.others:
            self.others[places] = itemgetter(*places) if places else nothing, {}
            if len(self.others) == 1:
                (self.read, self.known), self.constant = self.others[places], not places
        read, known = self.others[places]
        known[read(fields)] = answer
        return answer


def nothing(fields: tuple[int, ...]) -> None:
    return None
