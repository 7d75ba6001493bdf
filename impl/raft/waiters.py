"""Keeps the calls that wait in a node for something to happen."""

from typing import Any

from highwater.impl.errors import StoreError
from highwater.impl.node_world import Signals


class Waiter:
    """One call that waits. The first of `done` and `failed` counts."""

    def __init__(self, signals: Signals):
        self.signal = signals.signal()
        self.ended, self.result = False, None
        self.error: StoreError | None = None

    def done(self, result: Any = None) -> None:
        if not self.ended:
            self.ended, self.result = True, result
            self.signal.set()

    def failed(self, error: StoreError) -> None:
        if not self.ended:
            self.ended, self.error = True, error
            self.signal.set()

    async def wait(self) -> Any:
        """Return the result, or raise the error."""
        await self.signal.wait()
        if self.error is not None:
            raise self.error
        return self.result


class Bell:
    """Wakes one task, which then does all that there is to do."""

    def __init__(self, signals: Signals):
        self.signals, self.signal = signals, signals.signal()

    def ring(self) -> None:
        self.signal.set()

    async def wait(self) -> None:
        """Return once it was rung since the last return."""
        await self.signal.wait()
        self.signal = self.signals.signal()
