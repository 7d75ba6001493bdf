"""Sketch which model states and steps a run reached, for its row.

A sketch is a sample by hash: it keeps the 64-bit hashes whose lowest bits are zero. So the sketches of a campaign merge by set
union in any order, and SAMPLE times the size of the union estimates the number of states or steps. A hash covers the values and
the model's constants. It is the same in every process and Python version.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from highwater.model.explore.tabulated import BITS, FIELD
from highwater.traces.refine import LIMIT, Refiner

SAMPLE = 8  # one of this many hashes is kept
WORD = (1 << 64) - 1


def canonical(value: Any) -> Any:
    """Return a value whose repr is the same in every process."""
    if isinstance(value, tuple):
        return tuple(map(canonical, value))
    if isinstance(value, frozenset):
        return ("set", *sorted(map(canonical, value), key=repr))
    if isinstance(value, dict):
        return ("map", *sorted(((canonical(k), canonical(v)) for k, v in value.items()), key=repr))
    return int(value) if isinstance(value, bool) else value  # the two are equal


def hash_of(*values: Any) -> int:
    return int.from_bytes(blake2b(repr(canonical(values)).encode(), digest_size=8).digest(), "little")


class Sketcher:
    """Makes sketches for one refiner after another, with a cache that all runs share."""

    def __init__(self) -> None:
        self.known: dict[int, tuple] = {}  # refiner -> its tables; hashes of fields, of values, of states

    def sketch(self, refiner: Refiner, states: Iterable[int], steps: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
        """Return the sketches of states and of steps (from state to state): signed numbers, ascending."""
        explorer, salt, of_fields, of_values, of_states = self._tables(refiner)

        def of_value(part: int, number: int) -> int:
            """Return the sum of its fields' hashes, most of which other values share."""
            value, found = explorer.values[part][number], 0
            for place, field in enumerate(value if isinstance(value, tuple) else (value,)):
                key = part, place, field
                known = of_fields.get(key)
                if known is None:
                    known = of_fields[key] = hash_of(salt, *key)
                found += known
            return found

        def of(state: int) -> int:
            found = of_states.get(state)
            if found is None:
                found = 0
                for part, known in enumerate(of_values):
                    number = state >> BITS * part & FIELD
                    if number not in known:
                        known[number] = of_value(part, number)
                    found += known[number]
                of_states[state] = found
            return found

        if max(map(len, (of_states, of_fields))) > LIMIT:
            self.known.clear()
        return sampled(map(of, states)), sampled(3 * of(before) + of(after) for before, after in steps)

    def _tables(self, refiner: Refiner) -> tuple:
        found = self.known.get(id(refiner))
        if found is None or found[0] is not refiner.explorer:  # the numbers have another meaning now
            explorer, salt = refiner.explorer, hash_of(*refiner.model.constants)
            found = explorer, salt, {}, [{} for _ in explorer.values], {}
            self.known[id(refiner)] = found
        return found


def sampled(hashes: Iterable[int]) -> list[int]:
    return sorted({(h ^ 1 << 63) - (1 << 63) for h in (h & WORD for h in hashes) if not h % SAMPLE})
