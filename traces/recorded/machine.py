"""The machine of a search (traces/recorded/orders.py): a store, and a mapping that judges what the store could answer.

A mapping keeps its facts in tables of the store, so that a search can undo them.
"""

from collections.abc import Callable
from typing import Any

from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3store import Change, Store


class Unfit(TypeError):
    """A mapping does not say what a machine asks of it."""


class Machine:
    """`judged` returns the Refusal that says why a change is no action of a model, or None. Raises Unfit if it returns anything
    else. Unless it is `searched`, nothing can be undone: the first refusal is the end."""

    def __init__(self, judged: Callable[[Change], Any], searched: bool = True):
        self.judged, self.store = judged, Store(searched)
        self.mark, self.undo = self.store.mark, self.store.undo
        self.actions: dict[str, int] = {}  # the number of steps of each action
        self.granted: dict[str, int] = {}  # how often each fact was taken for granted

    def digest(self) -> int:
        return self.store.sum

    def take(self, step: Any) -> Refusal | None:
        change: Change = step.what
        mark = self.mark()
        refusal = self.store.answers(change) or self.judged(change)
        if refusal:
            if not isinstance(refusal, Refusal):
                raise Unfit(f"the mapping says {refusal!r} of request {step.number}, and not a Refusal or None")
            self.undo(mark)
            return refusal
        if step.changes:
            self.store.apply(change)
        return None

    def count(self, action: str) -> None:
        self.store.put(self.actions, action, self.actions.get(action, 0) + 1)

    def grant(self, fact: str) -> None:
        self.store.put(self.granted, fact, self.granted.get(fact, 0) + 1)
