"""The machine of a search (traces/recorded/orders.py): a store, and a mapping that judges what the store could answer.

A mapping keeps its facts in tables of the store, so that a search can undo them.
"""

from collections.abc import Callable
from typing import Any

from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3store import Change, Store


class Machine:
    """`judged` says why a change is no action of a model."""

    def __init__(self, judged: Callable[[Change], Refusal | None]):
        self.judged, self.store = judged, Store()
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
            self.undo(mark)
            return refusal
        if step.changes:
            self.store.apply(change)
        return None

    def count(self, action: str) -> None:
        self.store.put(self.actions, action, self.actions.get(action, 0) + 1)

    def grant(self, fact: str) -> None:
        self.store.put(self.granted, fact, self.granted.get(fact, 0) + 1)
