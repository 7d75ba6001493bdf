"""Safety: the search has the same states, counts, verdicts and paths as model/explore/wide.py, for more states than fit in
memory.

It is a breadth-first search on disk with late detection of duplicates. States are spread over partitions by a hash of their
parts. A level takes two stages; each is one task per partition. `expand` writes the successors of its states, sorted by their
partition. `merge` sorts the successors for its partition, removes the states it has seen, and writes the rest: the next level.
The seen states are a few sorted runs, each several times as long as the next. Both stages read their files in order, some
million states at a time.

The executor of the tasks is a parameter (`Stages`): this process, several processes, or Spark. The driver holds no state. After
`merge` it asks the model for the moves of the pairs (shared, local) that are new in the level. So all parts get their numbers
in one place and in one order. The answers are a file of that level, which workers read.

The marker of a level is its commit. A killed search resumes after the last marker, with the same counts. The model is then
asked again for all pairs, in the same order, and must give the same answers.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import numpy as np

from highwater.model.core import Bounds, Exploration, Model, Progress
from highwater.model.explore.disk import files
from highwater.model.explore.disk.files import Level, Part, Refused
from highwater.model.explore.disk.work import do, owners
from highwater.model.explore.tabulated import BITS, FIELD, Explorer
from highwater.model.explore.wide import ask, first_broken, initial, packed, placed, widened

PARTITIONS = 8
FEW = 50_000  # a level with fewer new states is processed here, not sent to workers
Stages = Callable[[str, list[dict]], Iterable[dict]]
"""Does a piece of work (of external_work.WORK) for each of the tasks; the results, in their order."""


class Failed(Exception):
    """The search could not continue; committed levels are kept. The message is one line."""


def here(work: str, tasks: list[dict]) -> list[dict]:
    """Run the tasks in this process, one after another."""
    return [do(work, task, "here") for task in tasks]


def explore(model: Model, folder: Path, what: dict, stages: AbstractContextManager[Stages] | None = None,
            partitions: int | None = None, progress: Progress | None = None, bounds: Bounds | None = None, few: int = FEW
            ) -> Exploration:
    """Explore like model.explore.wide.explore, with the states in `folder`; resume if the folder has a search.

    `what` identifies this search and must be JSON. `stages` start once the folder is accepted. Levels with fewer new states
    than `few` are processed in this process. Raises Refused, Failed, TooWide, OSError.
    """
    with files.opened(folder, what, partitions, PARTITIONS) as (of, run), stages or nullcontext(here) as run_stage:
        return Search(Explorer(model), folder.absolute(), of, run, run_stage, few).search(bounds or Bounds(), progress)


class Search:
    def __init__(self, x: Explorer, folder: Path, partitions: int, run: int, stages: Stages, few: int):
        self.x, self.folder, self.partitions, self.run, self.stages, self.few = x, folder, partitions, run, stages, few
        levels = [files.level_at(folder, depth) for depth in range(files.depth_of(folder) + 1)]
        self.named = {part.name for level in levels for part in (level.pairs, *level.new) if part}
        if levels:
            self.replay(levels)
            self.level = levels[-1]
            self.stage("check")
            files.tidied(folder, self.named | {part.name for parts in self.level.seen for part in parts})
        else:
            files.tidied(folder, set())
            self.begin()

    def stage(self, work: str, partitions: Iterable[int] | None = None, **more: object) -> Iterator[dict]:
        """Run a task for each partition. Raises Refused, Failed."""
        tasks = [{"folder": str(self.folder), "depth": self.level.depth, "partition": number, "run": self.run, **more}
                 for number in (range(self.partitions) if partitions is None else partitions)]
        few = work in ("expand", "merge", "widen") and sum(part.count for part in self.level.new if part) < self.few
        results = list((here if few else self.stages)(work, tasks))
        for result in results:
            if "failed" in result:
                raise (Refused if result["refused"] else Failed)(result["failed"])
        return iter(results)

    def leave(self, name: str, value: object) -> None:
        """Write a value for the tasks of a stage to read."""
        files.write_json(self.folder / "files" / f"{name}.r{self.run}", value)

    # --- the first level, new or not

    def begin(self) -> None:
        pairs = [np.array([(self.x.initial & FIELD) | (self.x.initial >> BITS * (p + 1) & FIELD) << BITS])
                 for p in range(len(self.x.model.processes))]
        sizes, part = self.learn(pairs, 0)
        widths = widened([1] * len(sizes), sizes, self.x.model.name)
        state = np.array([initial(self.x, placed(widths))], np.int64)
        first: list[Part | None] = [None] * self.partitions
        owner = int(owners(state, widths, self.partitions)[0])
        first[owner] = files.write(self.folder, f"new-0-{owner}.r{self.run}", "driver", [state])
        self.level = Level(0, 1, 0, 0, 0, widths, sizes, part, files.chained(0, part, sizes, widths), first,
                           [[part] if part else [] for part in first])
        self.commit()

    def replay(self, levels: list[Level]) -> None:
        """Ask the model for all pairs again. Raises Refused if its answers differ."""
        for level in levels:
            if self.x.broken:
                raise Refused(f"{self.folder} is of a model whose properties were others: give a new folder")
            for part in level.new:
                files.read(self.folder, part)
            if level.pairs:
                before = files.checked(self.folder, level.pairs)
                learnt = ask(self.x, [shared | local << BITS for shared, local, *_ in files.pairs_of_list(before)])
                if not np.array_equal(files.pairs_as_list(learnt), before) or level.sizes != self.sizes():
                    raise Refused(f"{self.folder} is of a model that had other moves (or has them in another order each time: "
                                  "sort what it takes from sets): give a new folder")

    def learn(self, pairs: list[np.ndarray], depth: int) -> tuple[list[int], Part | None]:
        """Ask the model for the moves of pairs; return how many numbers there are now, and the file of the answers."""
        if not any(map(len, pairs)):
            return self.sizes(), None
        learnt = files.pairs_as_list(ask(self.x, pairs))
        return self.sizes(), files.write(self.folder, f"pairs-{depth}.r{self.run}", "driver", [learnt])

    def sizes(self) -> list[int]:
        return [len(values) for values in self.x.values]

    # --- level by level

    def search(self, bounds: Bounds, progress: Progress | None) -> Exploration:
        while True:
            level, x = self.level, self.x
            if progress:
                progress(level.states, level.depth)
            following, expanded, merged = self.step()
            if x.broken:
                name, path = self.violation()
                return self.found(following, name, path)
            if following.states == level.states:
                return self.found(following)
            if stopped := bounds.reached(following.states, level.depth):
                return self.found(following, stopped=stopped)
            unknown = [Part(*of["unknown"]) for of in merged]
            leftovers = {part.name for part in unknown} | {part[0] for of in expanded for part in of["files"]}
            leftovers |= {part.name for parts in level.seen for part in parts}
            leftovers |= self.take(following, unknown, merged)
            self.commit()
            for name in sorted(leftovers - self.named - {part.name for parts in self.level.seen for part in parts}):
                (self.folder / "files" / name).unlink(missing_ok=True)

    def step(self) -> tuple[Level, list[dict], list[dict]]:
        """Run both stages; return the counts of the next level and the results of the stages."""
        level = self.level
        expanded = list(self.stage("expand", [number for number, part in enumerate(level.new) if part and part.count]))
        self.leave("expanded", [part for of in expanded for part in of["files"]])
        merged = list(self.stage("merge"))
        return level._replace(
            depth=level.depth + 1, states=level.states + sum(Part(*of["new"]).count for of in merged),
            transitions=level.transitions + sum(of["transitions"] for of in expanded),
            widest=max(level.widest, *(of["widest"] for of in expanded)),
            ends=level.ends + sum(of["ends"] for of in expanded)), expanded, merged

    def take(self, following: Level, unknown: list[Part], merged: list[dict]) -> set[str]:
        """Commit the next level: ask for its pairs, and widen its states if their numbers no longer fit.

        Returns the files that are no longer needed.
        """
        pairs = [files.split(files.checked(self.folder, part)) for part in unknown]
        sizes, learnt = self.learn([np.unique(np.concatenate(of)) for of in zip(*pairs)], following.depth)
        widths, narrow = widened(following.widths, sizes, self.x.model.name), set()
        if widths != following.widths:
            self.leave("widening", {"widths": [following.widths, widths], "new": [of["new"] for of in merged],
                                    "seen": [of["seen"] for of in merged]})
            narrow = {part[0] for of in merged for part in (of["new"], *of["seen"])}
            merged = list(self.stage("widen"))
        self.level = following._replace(
            widths=widths, sizes=sizes, pairs=learnt, chain=files.chained(following.chain, learnt, sizes, widths),
            new=[Part(*of["new"]) for of in merged], seen=[[Part(*part) for part in of["seen"]] for of in merged])
        return narrow

    def commit(self) -> None:
        files.commit(self.folder, self.level)
        self.named |= {part.name for part in (self.level.pairs, *self.level.new) if part}

    # --- the verdict

    def found(self, following: Level, violated: str | None = None, path: Sequence[int] = (), stopped: str = "") -> Exploration:
        x = self.x
        return Exploration(following.states, following.transitions, self.level.depth, violated,
                           x.trace(path) if violated else (), frozenset(x.fired),
                           () if violated or stopped else x.never(), following.widest, following.ends, stopped)

    def violation(self) -> tuple[str, list[int]]:
        """Return the broken property, and a shortest path to the least state that breaks it."""
        name, pairs = first_broken(self.x)
        path = [self.least(self.stage("violating", pairs=[of.tolist() for of in pairs]))]
        for depth in range(self.level.depth - 1, -1, -1):
            path.append(self.least(self.stage("before", at=depth, state=path[-1])))
        return name, [packed(state, self.level.widths) for state in reversed(path)]

    def least(self, results: Iterable[dict]) -> int:
        found = [result["state"] for result in results if result["state"] is not None]
        if not found:
            raise Refused(f"{self.folder} does not hold the states of its levels: start anew, in a new folder")
        return min(found)
