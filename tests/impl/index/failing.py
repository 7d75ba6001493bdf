"""A store for tests that fails once."""

import asyncio
from typing import Any

from highwater.impl.errors import OutcomeUnknown, Unavailable


class Failing:
    """A store whose request number `number` fails, before it is applied or after; whoever sent it may die of it."""

    def __init__(self, store: Any, number: int, applied: bool, dies: bool = False):
        self.store, self.number, self.applied, self.dies, self.sent = store, number, applied, dies, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self.store, name)
        if name not in ("create", "get", "delete", "list_page"):
            return real

        async def asked(*arguments: Any) -> Any:
            self.sent += 1
            if self.sent != self.number:
                return await real(*arguments)
            if self.applied:
                await real(*arguments)
            if self.dies:
                raise asyncio.CancelledError
            raise OutcomeUnknown("lost") if name in ("create", "delete") else Unavailable("lost")

        return asked
