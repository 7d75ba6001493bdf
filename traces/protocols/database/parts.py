"""Keep the models of a database's parts together: one refiner for each, and one model of all that says in which state they are.

The model of all has the parts' own actions and properties, each lifted to the product of the parts' states and named
`part.Action`. It takes no step: each part is refined by itself. It serves explanations, and whoever asks for a client's state.
"""

from collections.abc import Callable, Iterator, Mapping
from operator import is_
from typing import Any, NamedTuple

from highwater.model.core import Action, Local, Model, Process, Property, State
from highwater.traces.protocols import manifest_compactions, manifest_epochs, wal_fencing
from highwater.traces.protocols import sequenced_metadata_boundary as boundary
from highwater.traces.protocols.database.log import with_pages
from highwater.traces.refine import Failure, Match, Refiner

PARTS = "manifest", "compactions", "epochs", "claims", "wal"
ROLES = ("Writer", "WRITERS"), ("Compactor", "COMPACTORS"), ("Reader", "READERS"), ("Operator", "OPERATORS"), (
    "Collector", "COLLECTORS")


class Constants(NamedTuple):
    """The clients of each role, by the names of model/protocols/database_metadata.py, whose witnesses coverage looks for. There
    a collector is one client for each thing that it collects."""

    WRITERS: int
    COMPACTORS: int
    READERS: int
    OPERATORS: int
    COLLECTORS: int
    COMPACTIONS_COLLECTORS: int
    WAL_COLLECTORS: int
    PAGE: int  # ids on one page of a listing; 0: a listing has one page
    WAL: bool = True


class OfParts(NamedTuple):
    """A state, or a client's local state, in each part; None where a part has none."""

    PRODUCT = True  # traces/explain/explain.py shows the fields of the parts
    manifest: Any = None
    compactions: Any = None
    epochs: Any = None
    claims: Any = None
    wal: Any = None

    @property
    def manifests(self) -> Any:
        """Return the files of the manifest, under the name that a witness of the composed model uses."""
        return self.manifest.files


def constants(writers: int, compactors: int, readers: int, operators: int, collectors: int, page_size: int = 0) -> Constants:
    """Return the constants of models without bounds, for traces of so many clients."""
    return Constants(writers, compactors, readers, operators, collectors, collectors, collectors, page_size)


def refiners_of(c: Constants, make: Callable[[Model], Refiner] | None = None) -> dict[str, Refiner]:
    """Return a refiner for each part. `make` makes one of a model; without it each part's own mapping does."""
    found = {
        "manifest": boundary.refiner(boundary.constants(c.WRITERS + c.COMPACTORS + c.OPERATORS, c.COLLECTORS, c.READERS, c.PAGE,
                                                        True, known=True)),
        "compactions": boundary.refiner(boundary.constants(c.COMPACTORS, c.COLLECTORS, 0, c.PAGE, False)),
        "epochs": manifest_epochs.refiner(manifest_epochs.constants(c.WRITERS, c.COMPACTORS, 0, 0, 0, True)._replace(
            WRITER_CHECKPOINTS=False)),
        "claims": manifest_compactions.refiner(manifest_compactions.constants(1, c.COMPACTORS, 0)),
        "wal": with_pages(wal_fencing.refiner(wal_fencing.constants(c.WRITERS, c.COLLECTORS)._replace(CHECKPOINTS=0))),
    }
    return {name: make(of.model) for name, of in found.items()} if make else found


def clients_of(c: Constants) -> dict[str, list[str]]:
    """Return role -> its clients."""
    return {role: [f"{role}#{i}" for i in range(getattr(c, field))] for role, field in ROLES}


def names_of(c: Constants) -> dict[str, dict[str, str]]:
    """Return part -> client -> its name in the part's model. Clients that a part does not know are missing."""
    of = clients_of(c)
    same = {name: name for names in of.values() for name in names}
    changers = [*of["Writer"], *of["Compactor"], *of["Operator"]]
    return {
        "manifest": {**same, **{name: f"Writer#{i}" for i, name in enumerate(changers)}},
        "compactions": {name: name.replace("Compactor", "Writer") for name in (*of["Compactor"], *of["Collector"])},
        "epochs": {name: name for name in (*of["Writer"], *of["Compactor"])},
        "claims": {**dict.fromkeys(of["Writer"], "Writer#0"), **{name: name for name in of["Compactor"]}},
        "wal": {name: name for name in (*of["Writer"], *of["Collector"])},
    }


class Snapshot(tuple[int, ...]):
    """The state of all, packed by its model, with the states that each part may be in."""

    parts: tuple[tuple[int, ...], ...]


class Parts(Refiner):
    """The refiners of all parts, and the model of all."""

    kept: Snapshot | None = None  # the last one

    def __init__(self, c: Constants, make: Callable[[Model], Refiner] | None = None):
        self.parts, self.names = refiners_of(c, make), names_of(c)
        super().__init__(model_of_all(c, self.parts, self.names))

    def begin(self) -> None:
        super().begin()
        for part in self.parts.values():
            part.begin()

    def trim(self) -> None:
        super().trim()
        for part in self.parts.values():
            part.trim()

    @property
    def states(self) -> Snapshot:  # it is computed on demand
        """Return a snapshot. Assign it to return to these states."""
        parts, kept = tuple(part.states for part in self.parts.values()), self.kept
        if kept is None or not all(map(is_, parts, kept.parts)):
            self.kept = kept = Snapshot((self.explorer.pack(self.unpacked()[0]),))
            kept.parts = parts
        return kept

    @states.setter
    def states(self, kept: tuple[int, ...]) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        if isinstance(kept, Snapshot):
            for part, states in zip(self.parts.values(), kept.parts):
                part.states = states

    def locals(self, process: str) -> list[Local]:
        """Return a writer's states in the WAL's model, by which its records are named; of any other client those in the first
        part that knows it."""
        name = "wal" if process in self.names["wal"] else next(name for name in PARTS if process in self.names[name])
        return self.parts[name].locals(self.names[name][process])

    def local(self, process: str) -> Local:
        return self.locals(process)[0]

    def unpacked(self) -> tuple[State, ...]:
        return (state_of_all(self.model, self.parts, self.names),)


def refiner(c: Constants) -> Parts:
    return Parts(c)


# --- the model of all

def model_of_all(c: Constants, parts: Mapping[str, Refiner], names: Mapping[str, Mapping[str, str]]) -> Model:
    """Return the product of the parts' models, with lifted actions and properties."""
    processes = [Process(name, role, number, local_of_all(parts, names, name, initial), lifted_actions(parts, names, name))
                 for role, of in clients_of(c).items() for number, name in enumerate(of)]
    store = Process("", "", 0, (), lifted_actions(parts, names, ""))
    shared = OfParts(**{name: of.model.shared for name, of in parts.items()})
    always = {f"{name}.{prop}": lifted_property(name, of.model.constants, holds)
              for name, of in parts.items() for prop, holds in of.model.always.items()}
    return Model("database_metadata", c, shared, (*processes, store), always, {})


def initial(of: Refiner, name: str) -> Local:
    return of.model.processes[of.index[name]].local


def local_of_all(parts: Mapping[str, Refiner], names: Mapping[str, Mapping[str, str]], client: str,
                 local: Callable[[Refiner, str], Local]) -> OfParts:
    return OfParts(**{name: local(of, names[name][client]) for name, of in parts.items() if client in names[name]})


def state_of_all(model: Model, parts: Mapping[str, Refiner], names: Mapping[str, Mapping[str, str]]) -> State:
    """Return the state that the parts are in; of a part that may be in several the first."""
    def local(of: Refiner, name: str) -> Local:
        return of.locals(name)[0]

    shared = OfParts(**{name: of.shared() for name, of in parts.items()})
    return State(shared, tuple(local_of_all(parts, names, p.name, local) if p.name else () for p in model.processes))


def lifted_actions(parts: Mapping[str, Refiner], names: Mapping[str, Mapping[str, str]], client: str) -> dict[str, Action]:
    found: dict[str, Action] = {}
    for name, of in parts.items():
        its = names[name].get(client) if client else ""
        if its is not None and its in of.index:
            process = of.model.processes[of.index[its]]
            found |= {f"{name}.{action}": lifted(name, of.model.constants, process.index, function)
                      for action, function in process.actions.items()}
    return found


def lifted(name: str, constants: Any, me: int, function: Action) -> Action:
    """Return a part's action on the state of all."""
    def action(c: Constants, _: int, s: OfParts, l: Any) -> Iterator:
        own = getattr(l, name, ())
        for choices, s2, l2 in function(constants, me, getattr(s, name), own):
            yield choices, s._replace(**{name: s2}), l and l._replace(**{name: l2})

    return action


def lifted_property(name: str, constants: Any, of: Property) -> Property:
    """Return a part's property on the state of all. A client that the part does not know has it."""
    role, function = of
    if role is None:
        return None, lambda c, s: function(constants, getattr(s, name))
    return role, lambda c, s, l: getattr(l, name, None) is None or function(constants, getattr(s, name), getattr(l, name))


def lift(name: str, of: Failure, client: str, model: Model, state: State) -> None:
    """Make the failure of a part one of all: its signature and message name the part, and its match is lifted."""
    kind, _, rest = of.signature.partition(":")
    of.signature = of.signature if kind == "told" else f"{kind}:{name}.{rest}"
    of.message = f"{name}: {of.message}"
    of.args = of.message,
    known = any(process.name == client for process in model.processes)
    of.match = of.match and lifted_match(name, of.match, client if of.match.process else "") if known else None
    of.states = state,


def lifted_match(name: str, of: Match, client: str) -> Match:
    agrees = of.agrees

    def shows(a: str | None, s: OfParts, l: Any, s2: OfParts, l2: Any) -> object:
        before, after = ((getattr(of, name), getattr(own, name, ())) for of, own in ((s, l), (s2, l2)))
        return agrees is None or agrees(a and a.partition(".")[2], *before, *after)

    return Match(client, tuple(a and f"{name}.{a}" for a in of.actions), of.choices, shows if agrees else None, of.op)
