"""Safety: a function of the shared state is asked again only if a field differs that it read: its answer is otherwise the same.

An action, or a property, is given a `Recorder` for the shared state, which looks like it and notes which fields are read
and written. An answer is then kept under the values of the fields that were read. A field that the recorder can't see
read (the state compared, hashed or walked through as a whole) counts as read.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import Any

UNKNOWN = object()


class Recorder:
    """A named tuple whose reads and writes are noted. To replace fields makes another one with the same notes."""

    __slots__ = ("__first", "__reads", "__values", "__writes")

    def __init__(self, values: Any, reads: set[int], writes: dict[str, Any], first: int = 0):
        self.__values, self.__reads, self.__writes, self.__first = values, reads, writes, first

    def __getattr__(self, name: str) -> Any:
        if name in self.__writes:
            return self.__writes[name]
        values = self.__values
        if name not in values._fields:
            return getattr(self.__whole(), name)
        self.__reads.add(self.__first + values._fields.index(name))
        return getattr(values, name)

    def _replace(self, **changes: Any) -> "Recorder":
        return Recorder(self.__values, self.__reads, {**self.__writes, **changes}, self.__first)

    def __whole(self) -> Any:
        self.__reads.update(range(self.__first, self.__first + len(self.__values)))
        return self.__values._replace(**self.__writes)

    def written(self) -> dict[str, Any]:
        return self.__writes

    def __iter__(self) -> Any:
        return iter(self.__whole())

    def __len__(self) -> int:
        return len(self.__values)

    def __getitem__(self, index: Any) -> Any:
        return self.__whole()[index]

    def __contains__(self, value: Any) -> bool:
        return value in self.__whole()

    def __eq__(self, other: Any) -> bool:
        return self.__whole() == (other.__whole() if isinstance(other, Recorder) else other)

    def __hash__(self) -> int:
        return hash(self.__whole())

    def __lt__(self, other: Any) -> bool:
        return self.__whole() < other

    def __add__(self, other: Any) -> Any:
        return self.__whole() + other

    def __repr__(self) -> str:
        return repr(self.__whole())


class Answers:
    """What a function of some records answered, which is never None. `fields` are the numbers of all their fields, one
    record's after another's."""

    __slots__ = ("ask", "constant", "known", "others", "read")

    def __init__(self, ask: Callable):
        self.ask = ask  # given a Recorder for each record
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
        answer = self.ask(Recorder(shared, reads, {}), *[Recorder(local, reads, {}, len(shared)) for local in own])
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
