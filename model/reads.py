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

    __slots__ = ("__reads", "__values", "__writes")

    def __init__(self, values: Any, reads: set[str], writes: dict[str, Any]):
        self.__values, self.__reads, self.__writes = values, reads, writes

    def __getattr__(self, name: str) -> Any:
        if name in self.__writes:
            return self.__writes[name]
        if name not in self.__values._fields:
            return getattr(self.__whole(), name)
        self.__reads.add(name)
        return getattr(self.__values, name)

    def _replace(self, **changes: Any) -> "Recorder":
        return Recorder(self.__values, self.__reads, {**self.__writes, **changes})

    def __whole(self) -> Any:
        self.__reads.update(self.__values._fields)
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
    """What one function answered. `fields` below are the numbers of a shared state's fields, in their order."""

    __slots__ = ("ask", "constant", "known")

    def __init__(self, ask: Callable[[Recorder], Any]):
        self.ask = ask  # given a Recorder
        self.known: dict[tuple[int, ...], tuple[Callable, dict]] = {}  # places read -> (those of fields, answers by them)
        self.constant: Any = UNKNOWN  # the answer, if nothing was read

    def of(self, shared: Any, fields: tuple[int, ...]) -> Any:
        if self.constant is not UNKNOWN:
            return self.constant
        for read, answers in self.known.values():
            answer = answers.get(read(fields), UNKNOWN)
            if answer is not UNKNOWN:
                return answer
        reads: set[str] = set()
        answer = self.ask(Recorder(shared, reads, {}))
        if not reads:
            self.constant = answer
            return answer
        places = tuple(sorted(map(shared._fields.index, reads)))
        read, answers = self.known.setdefault(places, (itemgetter(*places), {}))
        answers[read(fields)] = answer
        return answer
