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
        if name not in self.__values._fields:
            return getattr(self.__whole(), name)
        self.__reads.add(self.__first + self.__values._fields.index(name))
        return getattr(self.__values, name)

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
    """What a function of some records answered. `fields` are the numbers of all their fields, one record's after another's."""

    __slots__ = ("answers", "ask", "constant", "others", "read")

    def __init__(self, ask: Callable):
        self.ask = ask  # given a Recorder for each record
        self.constant: Any = UNKNOWN  # the answer, if nothing was read
        self.read: Callable = nothing  # those of the fields that were read,
        self.answers: dict[Any, Any] = {}  # and the answers by them
        self.others: dict[tuple[int, ...], tuple[Callable, dict]] = {}  # the same for all sets of fields: places -> both

    def of(self, records: tuple, fields: tuple[int, ...]) -> Any:
        if self.constant is not UNKNOWN:
            return self.constant
        answer = self.answers.get(self.read(fields), UNKNOWN)
        return answer if answer is not UNKNOWN else self.anew(records, fields)

    def anew(self, records: tuple, fields: tuple[int, ...]) -> Any:
        for read, answers in self.others.values():
            answer = answers.get(read(fields), UNKNOWN)
            if answer is not UNKNOWN:
                return answer
        reads: set[int] = set()
        recorders, first = [], 0
        for record in records:
            recorders.append(Recorder(record, reads, {}, first))
            first += len(record)
        answer = self.ask(*recorders)
        if not reads:
            self.constant = answer
            return answer
        places = tuple(sorted(reads))
        read, answers = self.others.setdefault(places, (itemgetter(*places), {}))
        if len(self.others) == 1:
            self.read, self.answers = read, answers
        answers[read(fields)] = answer
        return answer


def nothing(fields: tuple[int, ...]) -> None:
    return None
