"""Draw mutants of files by a seed, so many of each file as it has lines of code.

Line numbers do not matter to the draw: an edit of one function redraws nothing of another.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from hashlib import blake2b
from itertools import islice
from pathlib import Path

from highwater.mutate.operators import Mutant, compiles, mutants


def drawn(files: dict[str, Path], count: int, seed: int, wanted: Callable[[Mutant], bool] | None = None) -> list[Mutant]:
    """Draw about `count` mutants of these files (name -> path), in the order of files and lines. `wanted`: only such mutants.

    The same seed draws the same, and a larger count draws these and more. Raises SyntaxError."""
    found = {name: [mutant for mutant in mutants(name, path.read_text()) if wanted is None or wanted(mutant)]
             for name, path in sorted(files.items())}
    whole = sum(lines_of(path) for path in files.values())
    chosen: list[Mutant] = []
    for name, those in found.items():
        some = -(-count * lines_of(files[name]) // whole) if whole else 0
        ordered = shuffled(those, seed)
        chosen += sorted(islice((mutant for mutant in ordered if compiles(mutant.source)), some),
                         key=lambda mutant: (mutant.first, mutant.name))
    return chosen


def shuffled(mutants: Iterable[Mutant], seed: int) -> list[Mutant]:
    """Order the mutants of a file by a seed and by their texts, whatever the file's name. Equal texts are counted."""
    met, orders = Counter[tuple[str, ...]](), list[tuple[bytes, Mutant]]()
    for mutant in mutants:
        text = mutant.operator, mutant.before, mutant.after
        orders.append((blake2b(f"{seed} {text} {met[text]}".encode()).digest(), mutant))
        met[text] += 1
    return [mutant for _, mutant in sorted(orders, key=lambda order: order[0])]


def lines_of(path: Path) -> int:
    """Return the number of lines that are neither blank nor comments."""
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in path.read_text().splitlines())
