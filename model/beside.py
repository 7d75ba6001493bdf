"""Several abstract models beside each other: each has its own store, and a client knows something of each.

A client takes a step of one of them at a time, so each keeps its properties. A mapping onto them says of each action of which
model it is a step. So a protocol that writes two sequences of files refines two models of one sequence.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from highwater.model.core import Action, Model, Process, Property

Parts = type[Any]  # a NamedTuple with a field for each model: of their constants, their shared parts, or a client's local parts
Choices = Mapping[str, Callable[[Any, Any], tuple]]


def beside(kind: Parts, *models: Model) -> Model:
    """Return the model of all. Its actions and properties are named FIELD.Action. Raises ValueError if the models differ in
    their processes."""
    for processes in zip(*(model.processes for model in models), strict=True):
        if len({(process.name, process.role, process.index) for process in processes}) > 1:
            names = ", ".join(process.name or "the store" for process in processes)
            raise ValueError(f"models beside each other have the same clients, not {names}")
    always = {f"{name}.{of}": kept(name, holds) for name, model in zip(kind._fields, models)
              for of, holds in model.always.items()}
    return Model(" and ".join(dict.fromkeys(model.name for model in models)), kind(*(model.constants for model in models)),
                 kind(*(model.shared for model in models)),
                 tuple(joined(kind, processes) for processes in zip(*(model.processes for model in models))), always, {})


def joined(kind: Parts, processes: tuple[Process, ...]) -> Process:
    actions = {f"{name}.{of}": alone(name, action) for name, process in zip(kind._fields, processes)
               for of, action in process.actions.items()}
    first = processes[0]
    return first._replace(local=kind(*(process.local for process in processes)) if first.name else (), actions=actions)


def alone(name: str, action: Action) -> Action:
    """The action in one of the models. The others stay as they are."""
    def taken(c: Any, me: int, s: Any, w: Any, *given: Any) -> Iterator:
        known = getattr(w, name, ())  # the store is no client and knows nothing
        for choice, s2, w2 in action(getattr(c, name), me, getattr(s, name), known, *given):
            yield choice, s._replace(**{name: s2}), w._replace(**{name: w2}) if w else w

    return taken


def kept(name: str, of: Property) -> Property:
    role, holds = of
    return role, lambda c, s, *w: holds(getattr(c, name), getattr(s, name), *(getattr(each, name) for each in w))


def forgets(each: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """A client forgets something of each."""
    return lambda before, after: all(map(each, before, after))


def given(kind: Parts, choices: Choices) -> Choices:
    """The choices of each, under the names of its actions."""
    return {f"{name}.{action}": choice(name, choose) for name in kind._fields for action, choose in choices.items()}


def choice(name: str, choose: Callable[[Any, Any], tuple]) -> Callable[[Any, Any], tuple]:
    return lambda s, after: choose(getattr(s, name), getattr(after, name))
