"""A store that keeps the first request of one kind waiting: a stall at a chosen place."""

import asyncio
from typing import Any


class Held:
    """`reached` is set when the first `method` whose key holds `part` has come; it goes on when `release` is set."""

    def __init__(self, store: Any, method: str, part: str):
        self._store, self._method, self._part = store, method, part
        self.caches = store.caches
        self.reached, self.release = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)

        async def held(key: str, *rest: Any) -> Any:
            if self._part in key and not self.reached.is_set():
                self.reached.set()
                await self.release.wait()
            return await real(key, *rest)

        return held if name == self._method else real
