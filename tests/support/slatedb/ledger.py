"""Safety: a read is accepted only if it shows, for each key, a value that was tried, and none older than what was acknowledged
before the read began.

The ledger of a soak: what writers have tried and what they were told. Each key has one writer at a time, so its changes have an
order. A change whose outcome is not known may be shown or not.

    values       the key shows the latest acknowledged change, or a later one. None: it was deleted
    merged keys  the key shows the acknowledged operands in their order, and any others that were tried between them
"""

from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple

MERGED = "merged "  # how the names of merged keys begin; each operand ends with END, and occurs once
END = ";"


class Known(NamedTuple):
    """The least that a read must show: for each key the position of a change, and how many acknowledged operands."""

    changes: dict[str, int]
    operands: dict[str, int]

    def newer(self, other: "Known") -> "Known":
        """Return the later position for each key."""
        return Known(*({**one, **{key: max(place, one.get(key, -1)) for key, place in two.items()}}
                       for one, two in zip(self, other)))


NOTHING = Known({}, {})


class Ledger:
    """Any thread may use it."""

    def __init__(self):
        self._lock = Lock()
        self._tried: dict[str, list[str | None]] = {}
        self._acknowledged: dict[str, int] = {}  # key -> position of the latest acknowledged change
        self._operands: dict[str, list[str]] = {}
        self._applied: dict[str, list[int]] = {}  # the positions of the operands that were acknowledged

    def tried(self, changes: Mapping[str, str | None]) -> dict[str, int]:
        """Note a batch before it is sent; return the positions of its changes."""
        with self._lock:
            places: dict[str, int] = {}
            for key, value in changes.items():
                if key.startswith(MERGED):
                    self._operands.setdefault(key, []).append(value or "")
                    places[key] = len(self._operands[key]) - 1
                else:
                    self._tried.setdefault(key, []).append(value)
                    places[key] = len(self._tried[key]) - 1
            return places

    def acknowledged(self, places: Mapping[str, int]) -> None:
        """Note that a batch is durable."""
        with self._lock:
            for key, place in places.items():
                if key.startswith(MERGED):
                    self._applied.setdefault(key, []).append(place)
                else:
                    self._acknowledged[key] = max(place, self._acknowledged.get(key, -1))

    def known(self) -> Known:
        """Return what a read that begins now must show."""
        with self._lock:
            return Known(dict(self._acknowledged), {key: len(of) for key, of in self._applied.items()})

    def of(self, places: Mapping[str, int]) -> Known:
        """Return what a read must show that begins after these changes are acknowledged, for their keys."""
        with self._lock:
            return Known({key: place for key, place in places.items() if not key.startswith(MERGED)},
                         {key: len(self._applied.get(key, ())) for key in places if key.startswith(MERGED)})

    def shown(self, found: Mapping[str, str], since: Known, others: str = "") -> Known:
        """Check what a read has shown; return what a later read of the same reader must show.

        `others`: how keys begin that are not of this ledger. Raises AssertionError."""
        with self._lock:
            own = {key: value for key, value in found.items() if not (others and key.startswith(others))}
            wrong = [*self._wrong_values(own, since), *self._wrong_merges(own, since)]
            assert not wrong, f"{len(wrong)} keys are wrong: {wrong[:5]}"
            return Known({key: self._place(key, own.get(key), since) for key in since.changes.keys() | own.keys()
                          if not key.startswith(MERGED)}, since.operands)

    def _wrong_values(self, found: Mapping[str, str], since: Known) -> list[str]:
        wrong = []
        for key in since.changes.keys() | found.keys():
            if key.startswith(MERGED):
                continue
            if self._place(key, found.get(key), since) == -2:
                wrong.append(f"{key} shows {found.get(key)!r}, and must show one of "
                             f"{self._tried.get(key, [])[max(since.changes.get(key, -1), 0):][:3]}")
        return wrong

    def _place(self, key: str, value: str | None, since: Known) -> int:
        """Return the first position of a value that a read may show; -1: nothing was there yet; -2: it must not show it."""
        least = since.changes.get(key, -1)
        if least == -1 and value is None:
            return -1
        of = self._tried.get(key, [])
        return next((place for place in range(max(least, 0), len(of)) if of[place] == value), -2)

    def _wrong_merges(self, found: Mapping[str, str], since: Known) -> list[str]:
        wrong = []
        for key in since.operands.keys() | {key for key in found if key.startswith(MERGED)}:
            shown = found.get(key, "").split(END)[:-1]
            tried = self._operands.get(key, [])
            least = [tried[place] for place in sorted(self._applied.get(key, [])[:max(since.operands.get(key, 0), 0)])]
            if not (is_part(least, shown) and is_part(shown, tried)):
                missing = [one for one in least if one not in shown]
                wrong.append(f"{key} shows the operands {shown[-3:]} ({len(shown)}), and {missing[:3]} are missing or "
                             "out of order")
        return wrong


def is_part(some: list[str], every: list[str]) -> bool:
    """Return whether all of `some` are in `every`, in this order."""
    left = iter(every)
    return all(one in left for one in some)
