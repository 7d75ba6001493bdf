"""Yield every small database, the smallest first, so that the first counterexample is a shortest one."""

from collections.abc import Iterator
from itertools import combinations, pairwise, product

from highwater.model.functions.manifests import Database, Manifest, Objects, Run, Sst, View, effective
from highwater.model.functions.projection_union import Constants

PLACES = ("L0", 1, 0)  # L0, and the ids of two runs
World = tuple[Database, Objects]


def spans(keys: int) -> list[tuple[int, int]]:
    """Return every interval of keys, the shortest first."""
    return [(start, start + length) for length in range(1, keys + 1) for start in range(keys - length + 1)]


def databases(c: Constants, most: int | None = None, path: str = "p") -> Iterator[World]:
    """Yield every database with up to `most` SSTs, of which L0 and two runs show all. A number tells the age of an SST."""
    for number in range(1, (most or c.SSTS) + 1):
        for intervals in sorted(product(spans(c.KEYS), repeat=number), key=width):
            for places in product(PLACES, repeat=number):
                for last_is_known in (True, False) if {*places} != {"L0"} else (True,):
                    ssts = [Sst(age, *of, last_is_known) for age, of in enumerate(intervals)]
                    if manifest := arranged(ssts, places):
                        yield Database(path, manifest), {(path, sst.number): sst for sst in ssts}


def width(intervals: tuple[tuple[int, int], ...]) -> int:
    return sum(end - start for start, end in intervals)


def arranged(ssts: list[Sst], places: tuple) -> Manifest | None:
    """Return a fresh database with each SST in its place; None if two SSTs of one run have more than one key in common, or the
    second has the newer version of it."""
    views = {place: [View(sst.number, sst, sst.first, sst.end) for sst, at in zip(ssts, places) if at == place]
             for place in PLACES}
    runs = []
    for place in PLACES[1:]:
        those = sorted(views[place], key=lambda view: (view.start, view.end, -view.sst.number))
        if any(a.end > b.start + (a.sst.number > b.sst.number) for a, b in pairwise(those)):
            return None
        if those:
            opened = (view if view.sst.last_is_known else view._replace(end=KEYS_END) for view in those)
            runs.append(Run(place, tuple(opened)))
    return Manifest(tuple(reversed(views["L0"])), tuple(runs), last_seq=len(ssts) - 1)


KEYS_END = 1 << 16  # no visible range at the end


def with_logs(c: Constants, most: int) -> Iterator[World]:
    """Yield databases, each without a log and with a row in it."""
    for database, objects in databases(c, most):
        for log in (frozenset(), *(frozenset({key}) for key in range(c.KEYS))):
            yield database._replace(manifest=database.manifest._replace(log=log)), objects


def pairs(c: Constants) -> Iterator[tuple[Database, Database, Objects]]:
    """Yield two databases of one SST each, which may have the same number."""
    for (a, objects), (b, _) in product(list(with_logs(c, 1)), repeat=2):
        for number in (0, 1):
            view = b.manifest.views[0]
            moved = view._replace(sst=view.sst._replace(number=number))
            runs = tuple(run._replace(views=(moved,)) for run in b.manifest.runs)
            m = b.manifest._replace(l0=(moved,) * len(b.manifest.l0), runs=runs, last_seq=number)
            yield (a._replace(path="a"), b._replace(path="b", manifest=m),
                   {("a", 0): objects["p", 0], ("b", number): moved.sst})


def shown(c: Constants) -> Iterator[World]:
    """Yield databases whose views show parts of SSTs, each key of an SST at most once, in any order; the last may be in a
    run."""
    parts = [View(0, Sst(number, 0, c.KEYS), *of) for number in range(2) for of in spans(c.KEYS)]
    objects = {("p", number): Sst(number, 0, c.KEYS) for number in range(2)}
    for number in range(1, 4):
        for views in product(parts, repeat=number):
            if all(a.sst != b.sst or a.end <= b.start or b.end <= a.start for a, b in combinations(views, 2)):
                those = tuple(view._replace(id=place) for place, view in enumerate(views))
                yield Database("p", Manifest(those)), objects
                yield Database("p", Manifest(those[:-1], (Run(0, those[-1:]),))), objects


def told(database: Database, c: Constants) -> str:
    """Describe a database in one line."""
    def of(view: View) -> str:
        start, end = effective(view, c.KEYS)
        return f"SST {view.sst.number} [{start}, {end})" + ("" if view.sst.last_is_known else "?")

    m = database.manifest
    parts = [("L0", m.l0), *((f"run {run.id}", run.views) for run in m.runs)]
    text = "; ".join(f"{name}: {', '.join(map(of, views))}" for name, views in parts if views)
    return f"{database.path} has {text}" + (f"; log: key {min(m.log)}" if m.log else "")
