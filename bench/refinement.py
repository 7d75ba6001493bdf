"""Refinement: steps of a model that are checked against its abstract model, for each second of CPU.

Each instance is searched to its end by the wide engine. A step counts once for each state in which it is possible. Only pairs
(shared, local) are checked, each once.
"""

import time

from highwater import project
from highwater.model.explore import wide
from highwater.model.refine import Mapped, refining

INSTANCES = {
    "sequenced_metadata_boundary": {"WRITERS": 3, "COLLECTORS": 2, "READERS": 1, "COMMITS": 1, "MAX_ID": 4},
    "log_gc": {"READERS": 2},
    "wal_fencing": {"WRITERS": 3},  # the hardest: it has a pair for every second state
}
LEAST = 500_000


def main() -> bool:
    """Print the rates. Return True if one is less than the target."""
    rates = [measure(stem, constants) for stem, constants in INSTANCES.items()]
    return min(rates) < LEAST


def measure(stem: str, constants: dict[str, int]) -> float:
    protocol = project.load("model", stem)
    c = protocol.Constants(**constants)
    model = protocol.model(c)
    start_s = time.process_time()
    plain = wide.explore(model)
    explored_s = time.process_time() - start_s
    start_s = time.process_time()
    mapped = Mapped(model, project.load("refinement", stem).refinement(c))
    found = wide.explore(refining(mapped))
    checked_s = time.process_time() - start_s
    assert found.complete and found.transitions == plain.transitions
    rate = found.transitions / checked_s
    print(f"{stem}: {found.states:,} states, {found.transitions:,} steps; {rate:,.0f} steps/s of CPU checked, "
          f"{found.transitions / explored_s:,.0f} only explored")
    return rate


if __name__ == "__main__":
    main()
