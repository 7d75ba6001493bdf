"""Threads that use one recorded scene until a time is over, or one of them raises."""

import threading
from collections.abc import Callable, Sequence

from tests.support.slatedb.recorded import Scene

ENDS_S = 300


class Together:
    """`over` is set when the time is over; each thread looks at it."""

    def __init__(self, scene: Scene):
        self.scene, self.over = scene, threading.Event()
        self._errors: list[BaseException] = []

    def side_by_side(self, work: Sequence[Callable[[], None]], seconds: float) -> None:
        """Raises AssertionError with what the threads have raised, or if one does not end."""
        threads = [threading.Thread(target=self._kept, args=(one,), daemon=True) for one in work]
        for thread in threads:
            thread.start()
        self.over.wait(seconds)
        self.over.set()
        self.scene.rules("")
        for thread in threads:
            thread.join(ENDS_S)
        assert not self._errors and not any(thread.is_alive() for thread in threads), self._errors

    def _kept(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._errors.append(error)
            self.over.set()
