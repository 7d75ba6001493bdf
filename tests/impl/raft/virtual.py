"""Runs asyncio in virtual time: a sleep costs nothing, and no load of the machine makes an election time out."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from highwater.impl.stores.system import SystemClock


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time passes only while nothing is ready. Nothing may wait for a thread or a socket in it."""

    def __init__(self):
        super().__init__()
        self.passed_s, select = 0.0, self._selector.select

        def skip(timeout: float | None) -> Any:
            assert timeout is not None, "every task waits for another: a deadlock"
            self.passed_s += timeout
            return select(0)

        self._selector.select = skip

    def time(self) -> float:
        return self.passed_s


class VirtualClock(SystemClock):
    """The clock of that loop."""

    def now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def monotonic_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    async def sleep_ms(self, duration_ms: int) -> None:
        await asyncio.sleep(duration_ms / 1e3)


def run(work: Coroutine) -> Any:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)
