"""Safety: the search has the states, counts and verdicts of model/explore/tabulated.py, and takes the wide engine
for a large instance.
"""

from highwater.model.core import Bounds, Exploration, Model, Progress
from highwater.model.explore import tabulated

SMALL = 50_000  # states: the wide engine is faster above


def explore(model: Model, bounds: Bounds | None = None, progress: Progress | None = None,
            symmetry: bool = False) -> Exploration:
    """Explore breadth-first, with the tabulated engine up to SMALL states, then with the wide one if a state fits 63 bits."""
    bounds = bounds or Bounds()
    first = tabulated.explore(model, progress=progress, symmetry=symmetry,
                              bounds=bounds._replace(states=min(SMALL, bounds.states or SMALL)))
    if not first.stopped or (bounds.states or SMALL + 1) <= SMALL or first.stopped != Bounds(states=SMALL).reached(SMALL, 0):
        return first
    from highwater.model.explore import wide  # numpy is loaded for large instances only

    try:
        return wide.explore(model, progress=progress, symmetry=symmetry, bounds=bounds)
    except wide.TooWide:
        return tabulated.explore(model, progress=progress, symmetry=symmetry, bounds=bounds)
