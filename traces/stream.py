"""Read the events of a file as they are judged. Safety: the judge finds the same events as in a list of them.

A judge looks back at the events of a call, and rarely further. So only the latest events are kept. Of every other one its place
in the file is, which is 8 bytes, and its number in the list of its client's: it is read again if somebody asks for it. The file
must not change meanwhile.
"""

import re
from array import array
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, overload

from highwater.outside import LINE_MIB, lines_of, not_utf_8
from highwater.traces.event import Event, from_json

KEPT = 4_096  # the latest events, which are not read again
CLIENT = re.compile(rb'"client"\s*:\s*"([^"\\]*)"')  # within a string of JSON, its quotes would follow a backslash


class Streamed:
    """The events of a file up to the one that is judged; `read` goes on to the next. Its methods raise OSError, and ValueError
    with file and line for a line that is no event."""

    def __init__(self, file: Path, line_mib: int = LINE_MIB):
        self.file, self.line_mib = file, line_mib
        self.places = array("Q")  # by number of the event, where its line begins
        self.count = 0  # events that are judged, and the one that is being judged
        self.latest: dict[int, Event] = {}  # number modulo KEPT -> event
        self.reader: Any = None  # the file, open to read events again

    def read(self) -> Iterator[Event]:
        """Yield all events, in order. `append` follows each."""
        for number, place, line in self._lines():
            event = self._parsed(number, line)
            self.places.append(place)
            yield event

    def append(self, event: Event) -> None:
        """Advance by one. `event` is the last that `read` has yielded."""
        self.latest[self.count % KEPT] = event
        self.count += 1

    def firsts(self) -> list[Event]:
        """Return an event of each client of the whole file: most of the lines are not taken apart."""
        found: dict[bytes, Event] = {}
        for number, _, line in self._lines():
            client = CLIENT.search(line)
            if client is None:
                event = self._parsed(number, line)
                found.setdefault(event.client.encode(), event)
            elif client[1] not in found:
                found[client[1]] = self._parsed(number, line)
        return list(found.values())

    def whole(self) -> Iterator[Event]:
        """Yield all events of the file, also those that are not judged."""
        return (self._parsed(number, line) for number, _, line in self._lines())

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Event]:
        return islice(self.whole(), self.count)

    @overload
    def __getitem__(self, which: int) -> Event: ...

    @overload
    def __getitem__(self, which: slice) -> Iterator[Event]: ...

    def __getitem__(self, which: int | slice) -> Event | Iterator[Event]:
        """Return one event; for a slice an iterator, because a search for one event rarely goes far."""
        numbers = range(self.count)
        return map(self._at, numbers[which]) if isinstance(which, slice) else self._at(numbers[which])

    def _at(self, number: int) -> Event:
        if number >= self.count - KEPT:
            return self.latest[number % KEPT]
        if self.reader is None:
            self.reader = open(self.file, "rb")  # noqa: SIM115  # as long as the judge is there
        self.reader.seek(self.places[number])
        return from_json(self.reader.readline().decode())

    def _parsed(self, number: int, line: bytes) -> Event:
        try:
            return from_json(line.decode())
        except UnicodeDecodeError as error:
            raise ValueError(f"{self.file}:{number}: {not_utf_8(error)}") from None
        except ValueError as error:
            raise ValueError(f"{self.file}:{number}: {error}") from None

    def _lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the number, the place and the content of each line that is not blank."""
        place, number = 0, 0
        with open(self.file, "rb") as stream:
            try:
                for number, line in enumerate(lines_of(stream, self.line_mib), 1):
                    if not line.isspace():
                        yield number, place, line
                    place += len(line)
            except ValueError as error:
                raise ValueError(f"{self.file}:{number + 1}: {error}") from None


class ByClient(dict[str, "Own"]):
    """Client -> its events among those of a file, as traces/trace.py has them."""

    def __init__(self, events: Streamed):
        super().__init__()
        self.events = events

    def __missing__(self, client: str) -> "Own":
        found = self[client] = Own(self.events)
        return found


class Own:
    """The events of one client, in order."""

    def __init__(self, events: Streamed):
        self.events, self.numbers = events, array("Q")

    def append(self, event: Event) -> None:
        """Add the event that is being judged."""
        self.numbers.append(self.events.count - 1)

    def __reversed__(self) -> Iterator[Event]:
        return map(self.events.__getitem__, reversed(self.numbers))
