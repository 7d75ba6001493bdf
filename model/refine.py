"""Safety: every step of a concrete model is a step of an abstract one, or leaves the mapped state as it is. So the abstract
model's properties hold in every mapped state.

A mapping takes each part of a state by itself: the shared part, and the local part of each client. So a step is a matter of one
pair (shared, local), and `refining` makes it a property of that pair. Every explorer and every random walk then checks each
step that it finds, and reports a shortest path to one that is no step of the abstract model.

A step may be several abstract steps at once, in the order that `steps` gives. Afterwards a client may know less than the
abstract model lets it know: `forgets` says when.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from highwater.model.core import Local, Model, Process, Shared, State, init
from highwater.model.explore.tabulated import Explorer
from highwater.model.guards import refusal
from highwater.model.guards import show as shown

REFINES = "Refines"  # the name of the property


class Refinement(NamedTuple):
    """A mapping onto one instance of an abstract model.

    `locals` has the roles whose processes are clients of the abstract model, in the order in which those are numbered. Any
    other process must leave the mapped state as it is, unless it is the store, whose name is empty in both models.
    """

    onto: Model
    shared: Callable[[Any, Shared], Shared]  # (constants, shared part) -> abstract shared part
    locals: Mapping[str, Callable[[Any, int, Local], Local]]  # role -> f(constants, own index, local part) -> abstract one
    steps: Mapping[str, Mapping[str, tuple[str, ...]]]  # role -> action -> abstract actions, each of which it may take once
    forgets: Callable[[Local, Local], bool] = lambda before, after: before == after
    given: Mapping[str, Callable[[Shared, Shared], tuple]] = {}  # abstract action -> its choice between two shared parts
    acts_as: Mapping[str, tuple[str, Callable[[Any, Shared], Local]]] = {}  # role -> the abstract process that all of them are
    #                                           together, and f(constants, shared part) -> its local part


class Unmapped(ValueError):
    """The mapping does not fit the models. The text says why."""


class Failure(NamedTuple):
    """A step that is none of the abstract model. `why` has a line for each abstract action that it could have been."""

    process: str
    action: str
    before: State  # concrete: the shared part, and the local part of the process
    after: State
    mapped: State
    mapped_after: State
    why: tuple[str, ...]


class Mapped:
    """A refinement of one instance, with the answers that it has given so far."""

    def __init__(self, model: Model, refinement: Refinement, explorer: Explorer | None = None):
        self.model, self.refinement = model, refinement
        abstract = {process.name: process for process in refinement.onto.processes}
        together = {name for name, _ in refinement.acts_as.values()}
        clients = [process for process in refinement.onto.processes if process.name and process.name not in together]
        places = [process for role in refinement.locals for process in model.processes if process.role == role]
        if len(places) > len(clients):
            raise Unmapped(f"{model.name} has {len(places)} clients to map, and {refinement.onto.name} has {len(clients)}")
        self.processes = {one.name: of for one, of in zip(places, clients)} | {
            one.name: abstract[""] for one in model.processes if not one.name and "" in abstract} | {
            one.name: abstract[refinement.acts_as[one.role][0]] for one in model.processes if one.role in refinement.acts_as}
        self.explorer = explorer or Explorer(model)  # it takes each step once, and numbers the parts of states
        self.places = {process.name: place for place, process in enumerate(model.processes)}
        self.shareds: dict[int, Shared] = {}  # number of a shared part -> abstract shared part
        self.togethers: dict[int, dict[str, Local]] = {}  # the same -> the local parts in it: role -> abstract local part
        self.locals: dict[tuple[str, int], Local] = {}  # name of a process, number of its local part -> abstract local part
        self.answers: dict[tuple, tuple[tuple[Shared, Local], ...]] = {}
        self.values: dict[Any, Any] = {}  # each mapped part, once
        self.fine: set[tuple] = set()  # steps between mapped parts that were found to refine
        self.taken: set[tuple[str, str]] = set()  # (abstract role, action) that some step was
        check_names(self)

    def shared(self, number: int) -> Shared:
        found = self.shareds.get(number)
        if found is None:
            s = self.explorer.values[0][number]
            found = self.refinement.shared(self.model.constants, s)
            found = self.shareds[number] = self.values.setdefault(found, found)
            of_type(found, self.refinement.onto.shared, f"the shared part {s}")
        return found

    def together(self, number: int) -> dict[str, Local]:
        """Return the abstract local parts that a shared part holds."""
        found = self.togethers.get(number)
        if found is None:
            s = self.explorer.values[0][number]
            found = self.togethers[number] = {role: of(self.model.constants, s)
                                              for role, (_, of) in self.refinement.acts_as.items()}
            for role, w in found.items():
                found[role] = self.values.setdefault(w, w)
        return found

    def own(self, process: Process, shared: int, local: int) -> Local:
        """Return the abstract local part of a process in a pair."""
        if process.role in self.refinement.acts_as:
            return self.together(shared)[process.role]
        return self.local(process, local)

    def local(self, process: Process, number: int) -> Local:
        """Return the abstract local part; () for a process that is no client of the abstract model."""
        mapping = self.refinement.locals.get(process.role)
        if mapping is None:
            return ()
        found = self.locals.get((process.name, number))
        if found is None:
            w = self.explorer.values[self.places[process.name] + 1][number]
            found = mapping(self.model.constants, process.index, w)
            found = self.locals[process.name, number] = self.values.setdefault(found, found)
            of_type(found, self.processes[process.name].local, f"{process.name}'s local part {w}")
        return found

    def failures(self, process: Process, s: Shared, w: Local) -> Iterator[Failure]:
        """Yield each step of the process from this pair that is none of the abstract model."""
        p = self.places[process.name]
        number, local = self.explorer.intern(0, s), self.explorer.intern(p + 1, w)
        before = self.shared(number), self.own(process, number, local)
        for (_, action, _), number2, local2 in self.explorer.moves(p, number, local):
            after = self.shared(number2), self.own(process, number2, local2)
            if (others := self.changes_of_others(process, number, number2)):
                s2, w2 = self.explorer.values[0][number2], self.explorer.values[p + 1][local2]
                yield Failure(process.name, action, State(s, (w,)), State(s2, (w2,)), State(before[0], before[1:]),
                              State(after[0], after[1:]), others)
                continue
            step = p, action, id(before[0]), id(before[1]), id(after[0]), id(after[1])  # each mapped value is kept, once
            if step in self.fine:
                continue
            names = self.refinement.steps.get(process.role, {}).get(action, ())
            if self.explained(process, names, before, after):
                self.fine.add(step)
            else:
                s2, w2 = self.explorer.values[0][number2], self.explorer.values[p + 1][local2]
                yield Failure(process.name, action, State(s, (w,)), State(s2, (w2,)), State(before[0], before[1:]),
                              State(after[0], after[1:]), tuple(self.why(process, action, names, before, after)))

    def changes_of_others(self, process: Process, before: int, after: int) -> tuple[str, ...]:
        """Say which local parts in the shared part a process changes although they are not its own."""
        if not self.refinement.acts_as:
            return ()
        then = self.together(after)
        return tuple(f"it changes the local part of {self.refinement.acts_as[role][0]}, which only {role} acts as"
                     for role, w in self.together(before).items() if w != then[role] and role != process.role)

    def explained(self, process: Process, names: tuple[str, ...], before: tuple, after: tuple) -> bool:
        """Tell whether some of the abstract actions, in this order, lead from `before` to `after`."""
        if self.fits(before, after):
            return True
        reached: dict[tuple, tuple[str, ...]] = {before: ()}
        for name in names:
            for pair, path in list(reached.items()):
                for following in self.moves(process, name, pair, after):
                    reached.setdefault(following, (*path, name))
                    if self.fits(following, after):
                        self.taken |= {(self.processes[process.name].role, each) for each in (*path, name)}
                        return True
        return False

    def fits(self, reached: tuple, after: tuple) -> bool:
        return reached[0] == after[0] and (reached[1] == after[1] or self.refinement.forgets(reached[1], after[1]))

    def choice(self, name: str, pair: tuple, after: tuple) -> tuple:
        """The arguments of an abstract action that say with which choice it would lead there; () for all its choices."""
        given = self.refinement.given.get(name)
        return given(pair[0], after[0]) if given else ()

    def moves(self, process: Process, name: str, pair: tuple, after: tuple) -> tuple[tuple[Shared, Local], ...]:
        choice = self.choice(name, pair, after)
        key = process.name, name, pair, choice
        found = self.answers.get(key)
        if found is None:
            of = self.processes[process.name]
            found = self.answers[key] = tuple((s2, w2) for _, s2, w2 in of.actions[name](
                self.refinement.onto.constants, of.index, *pair, *choice))
        return found

    def why(self, process: Process, action: str, names: tuple[str, ...], before: tuple, after: tuple) -> Iterator[str]:
        """Yield, for each abstract action, the guard that is false, or what it leads to instead."""
        if not names:
            yield f"the mapping names no abstract action for {action}, and the mapped state changes"
        for name in names:
            of, moves = self.processes[process.name], self.moves(process, name, before, after)
            if not moves:
                arguments = self.refinement.onto.constants, of.index, *before, *self.choice(name, before, after)
                yield f"{name} needs {refusal(of.actions[name], *arguments)}"
                continue
            others = (self.unexplained(move, after) for move in moves)
            nearest = min(others, key=lambda found: (len(found), shown(tuple(found))))
            other = ", ".join(f"{field} is {shown(there)} there, and the mapping says {shown(here)}"
                              for field, there, here in nearest)
            yield f"{name} is possible, and leads elsewhere: {other}"

    def unexplained(self, reached: tuple, after: tuple) -> list[tuple[str, Any, Any]]:
        """The fields that differ, without those of which the client may have forgotten something."""
        shared, local = differences(reached[:1], after[:1]), differences(reached[1:], after[1:])
        sets = [(there, here) if isinstance(here, frozenset) else ({0}, {1}) for _, there, here in local]
        return shared + [one for one, (there, here) in zip(local, sets) if not here <= there]


def check_names(mapped: Mapped) -> None:
    """Raises Unmapped if the mapping names an action or a role that is not there, or if the initial states differ."""
    model, onto = mapped.model, mapped.refinement.onto
    for role, actions in mapped.refinement.steps.items():
        for process in [one for one in model.processes if one.role == role]:
            there = mapped.processes.get(process.name)
            for action, names in actions.items():
                if action not in process.actions:
                    raise Unmapped(f"the mapping names {role}.{action}, and {model.name} has no such action".replace(" .", " "))
                for name in names:
                    if there is None or name not in there.actions:
                        raise Unmapped(f"the mapping names {name} for {action}, and {onto.name} has no such action of "
                                       f"{there.role or 'the store' if there else 'any client'}")
    first = init(model)
    number, intern = mapped.explorer.intern(0, first.shared), mapped.explorer.intern
    found = mapped.shared(number), *(mapped.own(of, number, intern(part, w)) for part, (of, w) in enumerate(
        zip(model.processes, first.locals), 1))
    wanted = onto.shared, *(mapped.processes[of.name].local if of.name in mapped.processes else () for of in model.processes)
    for name, here, there in zip(("shared part", *(of.name for of in model.processes)), found, wanted):
        if here != there:
            raise Unmapped(f"the initial state is not mapped to {onto.name}'s: the {name} is {shown(here)}, and should be "
                           f"{shown(there)}")


def of_type(found: Any, example: Any, what: str) -> None:
    """Raises Unmapped if a mapped part is none of the abstract model."""
    if type(found) is not type(example):
        raise Unmapped(f"the mapping maps {what} to {found!r}, which is no {type(example).__name__}")


class EachStep:
    """The property that every step of a process from a pair (shared, local) refines."""

    reads_all = True  # an explorer asks it of every pair, and does not look which fields it reads

    def __init__(self, process: Process, *mapped: Mapped):
        self.mapped, self.process = mapped, process

    def __call__(self, c: Any, s: Shared, w: Local) -> bool:
        return all(next(each.failures(self.process, s, w), None) is None for each in self.mapped)


def refining(*mapped: Mapped) -> Model:
    """The concrete model with one property for each process, `EachStep`, of all these mappings of it.

    Clients have roles of their own in it, because each is mapped with its own index.
    """
    model = mapped[0].model
    processes = tuple(process._replace(role=process.name) for process in model.processes)
    always = {f"{REFINES}: {process.name or 'the store'}": (process.name, EachStep(process, *mapped))
              for process in model.processes}
    return Model(model.name, model.constants, model.shared, processes, always, sometimes={})


def failure(mapped: Mapped, state: State) -> Failure | None:
    """Return the first step from a state that is none of the abstract model."""
    return next((found for process, w in zip(mapped.model.processes, state.locals)
                 for found in mapped.failures(process, state.shared, w)), None)


def differences(pair: tuple, other: tuple) -> list[tuple[str, Any, Any]]:
    """(field, value in `pair`, value in `other`) of each field in which two pairs (shared, local) differ.

    Of models beside each other, the fields of each: `manifest.files`.
    """
    found = [each for one, two in zip(pair, other) for each in (
        zip(one._fields, one, two) if hasattr(one, "_fields") else [("", one, two)]) if each[1] != each[2]]
    return [each for name, one, two in found for each in (
        [(f"{name}.{field}", was, now) for field, was, now in differences((one,), (two,))]
        if hasattr(one, "_fields") and hasattr(two, "_fields") else [(name, one, two)])]
