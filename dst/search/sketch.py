"""Safety: none; a row's sketch of which states and steps of the model its run has reached.

A sketch is a sample by hash: of 64-bit hashes of what was reached, those whose lowest bits are zero. So sketches of one
campaign are united by set union, in any order, and SAMPLE times the size of the union estimates how much there is. A hash is of
the values and the model's constants, so it is the same in every process, and in every version of Python.
"""

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

from highwater.model.explore.tabulated import BITS, FIELD
from highwater.traces.refine import LIMIT, Refiner

SAMPLE = 8  # one hash of so many is kept
WORD = (1 << 64) - 1


def canonical(value: Any) -> Any:
    """Its repr is the same in every process."""
    if isinstance(value, tuple):
        return tuple(map(canonical, value))
    if isinstance(value, frozenset):
        return ("set", *sorted(map(canonical, value), key=repr))
    if isinstance(value, dict):
        return ("map", *sorted(((canonical(k), canonical(v)) for k, v in value.items()), key=repr))
    return int(value) if isinstance(value, bool) else value  # which are equal


def hash_of(*values: Any) -> int:
    return int.from_bytes(blake2b(repr(canonical(values)).encode(), digest_size=8).digest(), "little")


class Sketcher:
    """Of one refiner after another; what it has worked out of their values serves every run."""

    def __init__(self) -> None:
        self.known: dict[int, tuple] = {}  # refiner -> its tables; hashes of its values' parts, of its values, of its states

    def sketch(self, refiner: Refiner, states: Iterable[int], steps: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
        """Of states and of steps (from a state to the next): signed, ascending."""
        explorer, salt, of_fields, of_values, of_states = self._tables(refiner)

        def of_value(part: int, number: int) -> int:
            """The sum of its fields' hashes, most of which are known of other values."""
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
        if found is None or found[0] is not refiner.explorer:  # its numbers mean something else now
            explorer, salt = refiner.explorer, hash_of(*refiner.model.constants)
            found = explorer, salt, {}, [{} for _ in explorer.values], {}
            self.known[id(refiner)] = found
        return found


def sampled(hashes: Iterable[int]) -> list[int]:
    return sorted({(h ^ 1 << 63) - (1 << 63) for h in (h & WORD for h in hashes) if not h % SAMPLE})
