"""Safety: whatever a composed client does in a part of a composition is the part's own action.

A composition has several parts. Each is a model with its own constants, shared state and clients, and a composed client is one
client of several of them. One request of a composed client can be a step of several parts at once. This module takes the parts'
own actions one after another, each on its own part of the state. So a guard or an effect of a part is never written again, and
the projection onto a part takes a sequence of the part's steps, or stays as it is.

`Names` are actions of one part, taken one after another. `Ways` are several of these: the first that is possible is taken.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from highwater.model.core import Action, Property

Names = tuple[str, ...]
Ways = tuple[Names, ...]
Follow = Mapping[str, Ways]  # part -> what it does
Move = tuple[tuple, Any, Any]  # choices, shared part after, local part after


class Actor(NamedTuple):
    """The client of a part that a composed client is."""

    part: str  # a field of the constants and of the shared state
    actions: Mapping[str, Action]
    index: int
    held: str = ""  # the field of the shared state with its local part; "": it is in the client's own field `part`


def taken(actions: Mapping[str, Action], names: Names, c: Any, me: int, s: Any, w: Any) -> Iterator[Move]:
    """Yield each way to take these actions of one part, one after another. The choices are those of all of them, in order."""
    if not names:
        yield (), s, w
        return
    for choices, s2, w2 in actions[names[0]](c, me, s, w):
        for further, s3, w3 in taken(actions, names[1:], c, me, s2, w2):
            yield (*choices, *further), s3, w3


def local_of(actor: Actor, s: Any, w: Any) -> Any:
    return getattr(s, actor.held) if actor.held else getattr(w, actor.part, ())


def within(actor: Actor, names: Names, c: Any, s: Any, w: Any) -> Iterator[Move]:
    """Yield each way to take these actions of a part in the composition."""
    part = actor.part
    for choices, s2, w2 in taken(actor.actions, names, getattr(c, part), actor.index, getattr(s, part), local_of(actor, s, w)):
        yield choices, *put_back(actor, s, w, s2, w2)


def put_back(actor: Actor, s: Any, w: Any, s2: Any, w2: Any) -> tuple[Any, Any]:
    """Return the composed state with a new state of one part."""
    s = s._replace(**{actor.part: s2})
    if actor.held:
        return s._replace(**{actor.held: w2}), w
    return s, w._replace(**{actor.part: w2}) if hasattr(w, actor.part) else w


def first_way(actor: Actor, ways: Ways, c: Any, s: Any, w: Any) -> tuple[Any, Any] | None:
    """Return the state after the first of these ways that is possible, or None. Of several choices the first is taken."""
    return next(((s2, w2) for names in ways for _, s2, w2 in within(actor, names, c, s, w)), None)


def alone(actor: Actor, ways: Ways, c: Any, view: Any, local: Any) -> tuple[Any, Any] | None:
    """Return a part's state after the first possible way from a state that is not the composition's, such as one that ends with
    the file that a client has read."""
    return next(((s2, w2) for names in ways
                 for _, s2, w2 in taken(actor.actions, names, getattr(c, actor.part), actor.index, view, local)), None)


def lifted(part: str, constants: Callable[[Any], Any], of: Property, roles: tuple[str, ...]) -> dict[str, Property]:
    """Return a property of a part as properties of the composition: one of its shared state, or one for each role whose clients
    the part knows by the property's role. The key is the role, "" for the shared state."""
    role, holds = of
    if role is None:
        return {"": (None, lambda c, s: holds(getattr(constants(c), part), getattr(s, part)))}
    return {each: (each, lambda c, s, w: holds(getattr(constants(c), part), getattr(s, part), getattr(w, part)))
            for each in roles}


def ordered(*follows: Follow) -> dict[str, Names]:
    """Return the actions of each part, in an order that has each of the ways in it."""
    found: dict[str, list[str]] = {}
    for follow in follows:
        for part, ways in follow.items():
            for way in ways:
                insert(found.setdefault(part, []), way)
    return {part: tuple(names) for part, names in found.items()}


def insert(names: list[str], way: Names) -> None:
    """Insert those of a way that are not there yet, each before the one that follows it."""
    at = len(names)
    for name in reversed(way):
        if name in names:
            at = names.index(name)
        else:
            names.insert(at, name)
