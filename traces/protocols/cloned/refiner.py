"""Keep the models of a database and of its clones together: for each database those of its parts, and one of clones for all."""

from collections.abc import Callable, Iterator
from copy import copy
from operator import is_
from typing import Any, NamedTuple

from highwater.model.core import Local, Model, Process, State
from highwater.traces.protocols import clones
from highwater.traces.protocols import database_metadata as database
from highwater.traces.protocols.cloned.contents import ROOT_OF
from highwater.traces.protocols.clones_contents import ROOTS
from highwater.traces.protocols.database.parts import Parts
from highwater.traces.refine import Refiner


class Constants(NamedTuple):
    """The most clients of each role. `NESTED`: database 2 is a clone of database 1, and not of database 0.

    The properties are what model/protocols/database_metadata.py needs to name its witnesses."""

    NESTED: bool
    WRITERS: int
    COMPACTORS: int
    READERS: int
    OPERATORS: int
    COLLECTORS: int
    CLONERS: int
    DETACHERS: int

    @property
    def COMPACTIONS_COLLECTORS(self) -> int:
        return self.COLLECTORS

    @property
    def WAL_COLLECTORS(self) -> int:
        return self.COLLECTORS

    @property
    def WAL(self) -> bool:
        return True


class OfAll(NamedTuple):
    """A state, or a client's local state: in each database, and in the model of clones. None where there is none.

    The parts of a database are those of the client's database, and of the root for a shared state: there coverage looks for the
    witnesses of database_metadata."""

    PRODUCT = True  # traces/explain/explain.py shows the fields of the parts
    root: Any = None
    first: Any = None
    second: Any = None
    clones: Any = None

    @property
    def epochs(self) -> Any:
        return self._database().epochs

    @property
    def claims(self) -> Any:
        return self._database().claims

    @property
    def wal(self) -> Any:
        return self._database().wal

    @property
    def manifest(self) -> Any:
        return self._database().manifest

    @property
    def manifests(self) -> Any:
        return self._database().manifests

    def _database(self) -> Any:
        return self.root or self.first or self.second


PLACES = OfAll._fields  # of databases, by their numbers, and then of clones


def changers(c: Constants) -> int:
    """Return the number of operators in the models of a database: cloners and detachers are operators there."""
    return c.OPERATORS + c.CLONERS + c.DETACHERS


class Pair(Refiner):
    """The refiners of all databases, and that of clones. `make`: as in refiners_of."""

    kept: "Snapshot | None" = None  # the last one

    def __init__(self, c: Constants, make: Callable[[Model], Refiner] | None = None):
        of = database.constants(c.WRITERS, c.COMPACTORS, c.READERS, changers(c), c.COLLECTORS)
        self.databases = alike(Parts(of, make))
        one = clones.refiner(clones.constants("01" if c.NESTED else "00", c.CLONERS + 1))  # and one that takes
        self.clones = make(one.model) if make else one
        super().__init__(self._model(c))

    def _model(self, c: Constants) -> Model:
        """Return the product of the models, of which each is refined by itself: it takes no step."""
        roles = {"Writer": c.WRITERS, "Compactor": c.COMPACTORS, "Reader": c.READERS, "Operator": c.OPERATORS,
                 "Collector": c.COLLECTORS, "Cloner": c.CLONERS, "Detacher": c.DETACHERS}
        processes = [Process(f"{role}#{i}", role, i, self._initial(f"{role}#{i}"), {})
                     for role, number in roles.items() for i in range(number)]
        shared = OfAll(**dict(zip(PLACES, (of.model.shared for of in (*self.databases, self.clones)))))
        return Model("database_clones", c, shared, tuple(processes), {}, {})

    def _initial(self, name: str) -> OfAll:
        of = self.of(name)
        return self._local(name, of.model.processes[of.index[name]].local)

    def _local(self, name: str, local: Local) -> OfAll:
        place = "clones" if self.of(name) is self.clones else PLACES[self.place(name)]
        return OfAll(**{place: local})

    @staticmethod
    def place(client: str) -> int:
        """Return the database that a client works on."""
        return ROOT_OF[int(client.partition("#")[2])]

    def of(self, client: str) -> Refiner:
        """Return the refiner that knows a client: that of its database, or that of clones."""
        return self.clones if client.startswith(("Cloner", "Detacher")) else self.databases[self.place(client)]

    def parts(self) -> Iterator[tuple[str, Refiner]]:
        """Yield each part that takes steps, and its name: "root.wal"."""
        yield from ((f"{place}.{name}", part) for place, of in zip(PLACES, self.databases) for name, part in of.parts.items())
        yield PLACES[-1], self.clones

    def begin(self) -> None:
        super().begin()
        for of in (*self.databases, self.clones):
            of.begin()

    def trim(self) -> None:
        super().trim()
        for of in (*self.databases, self.clones):
            of.trim()

    @property
    def states(self) -> "Snapshot":  # it is computed on demand
        """Return a snapshot. Assign it to return to these states."""
        parts, kept = tuple(of.states for of in (*self.databases, self.clones)), self.kept
        if kept is None or not all(map(is_, parts, kept.parts)):
            self.kept = kept = Snapshot((self.explorer.pack(self.unpacked()[0]),))
            kept.parts = parts
        return kept

    @states.setter
    def states(self, kept: tuple[int, ...]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if isinstance(kept, Snapshot):
            for of, states in zip((*self.databases, self.clones), kept.parts):
                of.states = states

    def locals(self, process: str) -> list[Local]:
        return self.of(process).locals(process)

    def local(self, process: str) -> Local:
        return self.of(process).local(process)

    def unpacked(self) -> tuple[State, ...]:
        states = {id(of): of.unpacked()[0] for of in (*self.databases, self.clones)}
        shared = {place: states[id(of)].shared for place, of in zip(PLACES, (*self.databases, self.clones))}
        owners = [(process.name, self.of(process.name)) for process in self.model.processes]
        return (State(OfAll(**shared), tuple(self._local(name, states[id(of)].locals[of.index[name]]) for name, of in owners)),)


def alike(of: Parts) -> tuple[Parts, ...]:
    """Return a refiner for each database. They share their tables, and each has its own states."""
    found = [of]
    for _ in ROOTS[1:]:
        again = copy(of)
        again.parts = {name: copy(part) for name, part in of.parts.items()}
        found.append(again)
    return tuple(found)


class Snapshot(tuple[int, ...]):
    """The state of all, packed by its model, with the states that each database and the clones may be in."""

    parts: tuple[tuple[int, ...], ...]


def refiner(c: Constants) -> Pair:
    return Pair(c)
