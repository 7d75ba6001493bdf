"""Safety: the object is the result of one serial history of updates, and each acknowledged update is in it once.

One object that clients replace by a conditional PUT. A client knows contents that it has seen in the store. It may put an
update on top of any of them, on condition that the object still has that content. It has as many requests under way as it
likes. What it does next follows from what it knows, and from nothing else.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from highwater.model.core import Model
from highwater.model.parts import MANY, clients, in_pool, pooled, store

Update = tuple[int, int]  # (client, zero-based index of its update)
Content = tuple[Update, ...]  # the updates in it, in order; so no content recurs, and it serves as its own version


class Constants(NamedTuple):
    CLIENTS: int = 2
    UPDATES: int = 1  # updates of a client
    MAX_PENDING: int | None = 1  # requests in flight whose clients no longer wait; None: any number
    # Safeguards: switch one off and a property must fail
    CONDITIONAL: bool = True  # PUT If-Match
    ONCE: bool = True  # an update is not put on top of a content that has it


INSTANCES: tuple[dict[str, int], ...] = ({}, {"CLIENTS": 1, "UPDATES": 2})  # of which the nearest states are visited
OFF = (({"CONDITIONAL": False}, "ContentIsSerial"), ({"ONCE": False}, "UpdateIsAppliedOnce"))  # and the property that fails
LIMITS = {"CLIENTS": MANY[1:], "UPDATES": MANY, "MAX_PENDING": MANY}


class Shared(NamedTuple):
    content: Content
    pool: tuple[tuple[Update, Content], ...]  # PUTs in flight: (update, the content that it is put on), sorted
    # ghosts
    history: Content  # the updates in the order in which they were applied
    acked: frozenset[Update]  # reported as committed


class Client(NamedTuple):
    known: frozenset[Content] = frozenset()  # contents that it has seen in the store


def forgets(before: Client, after: Client) -> bool:
    return after.known <= before.known


# --- what a client may put

def requests(c: Constants, me: int, w: Client) -> Iterator[tuple[Update, Content]]:
    """Each (update, content) such that the client may put that update on that content."""
    for base in sorted(w.known):
        for k in range(c.UPDATES):
            if may_put(c, me, w, (me, k), base):
                yield (me, k), base


def may_put(c: Constants, me: int, w: Client, update: Update, base: Content) -> bool:
    return is_known(w, base) and is_new(c, update, base)


def is_known(w: Client, base: Content) -> bool:
    return base in w.known


def is_new(c: Constants, update: Update, base: Content) -> bool:
    return update not in base or not c.ONCE


def may_set(c: Constants, me: int, w: Client, update: Update, base: Content) -> bool:
    """A PUT without a condition replaces a content that the client may not know."""
    return may_overwrite(c) and may_put(c, me, w, update, base)


def may_overwrite(c: Constants) -> bool:
    return not c.CONDITIONAL


def may_send(c: Constants, me: int, w: Client, kind: str, *what: Any) -> bool:
    return MAY[kind](c, me, w, *what)


def condition(c: Constants, s: Shared, base: Content) -> bool:
    return s.content == base or may_overwrite(c)


def applied(s: Shared, update: Update, base: Content) -> Shared:
    return s._replace(content=(*base, update), history=(*s.history, update))


def read(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    yield (), s, Client(w.known | {s.content})


def put(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """A PUT that succeeds. The client then knows the content that it has put."""
    for update, base in requests(c, me, w):
        if condition(c, s, base):
            after = applied(s, update, base)
            yield (update, base), after, Client(w.known | {after.content})


def send(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """A PUT for whose reply the client does not wait."""
    if c.MAX_PENDING is None or len(s.pool) < c.MAX_PENDING:
        for request in requests(c, me, w):
            yield request, pooled(s, request), w


def acknowledge(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    """Report an update of its own that is in a content that it knows."""
    for update in sorted({update for content in w.known for update in content if update[0] == me} - s.acked):
        yield (update,), s._replace(acked=s.acked | {update}), w


def forget(c: Constants, me: int, s: Shared, w: Client) -> Iterator:
    for content in sorted(w.known):
        yield (content,), s, Client(w.known - {content})


def apply(c: Constants, me: int, s: Shared, _: tuple) -> Iterator:
    """A PUT in flight reaches the store, and is applied or refused."""
    for (update, base), rest in in_pool(s):
        yield (update, base), applied(rest, update, base) if condition(c, s, base) else rest, ()


def content_is_serial(c: Constants, s: Shared) -> bool:
    """No update is lost, and each was put on the result of those before it."""
    return s.content == s.history


def update_is_applied_once(c: Constants, s: Shared) -> bool:
    return len(set(s.content)) == len(s.content)


def acked_is_kept(c: Constants, s: Shared) -> bool:
    return s.acked <= set(s.content)


CLIENT = {"Read": read, "Put": put, "Send": send, "Acknowledge": acknowledge, "Forget": forget}
MAY = {"Put": may_put, "Set": may_set}  # requests
STORE = {"Apply": apply}
ALWAYS = {
    "ContentIsSerial": (None, content_is_serial),
    "UpdateIsAppliedOnce": (None, update_is_applied_once),
    "AckedIsKept": (None, acked_is_kept),
}

GUARDS = {  # name -> (guard, True if a log with a step that it refuses counts as one that breaks a property)
    "ReadLatest": (is_known, True),
    "ONCE": (is_new, True),
    "CONDITIONAL": (may_overwrite, False),
}


def model(c: Constants) -> Model:
    return Model("one_object", c, Shared((), (), (), frozenset()),
                 (*clients(("Client", c.CLIENTS, Client(), CLIENT)), store(STORE)), ALWAYS, {})
