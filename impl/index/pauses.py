"""Safety: work that a node repeats goes on after any error, and never without a pause.

An object, a key or a response of a store may make a step raise anything. The error is counted and logged, and each further one
in a row doubles the pause before the next attempt.
"""

from collections.abc import Awaitable, Callable

from highwater.impl.errors import StoreError
from highwater.impl.world import Clock, Metrics

MOST_PAUSE_MS = 60_000  # after many errors in a row, unless the period is longer


def pause_ms(period_ms: int, failures: int, most_ms: int = MOST_PAUSE_MS) -> int:
    """Return the pause after so many failures in a row: the period after none and after one, then twice as long each time."""
    return min(period_ms << min(max(failures - 1, 0), 40), max(period_ms, most_ms))


def reason(error: Exception) -> str:
    """Return the text of an error for a log; the class is in it unless a store or a protocol raises such errors."""
    return str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"


async def repeat(clock: Clock, metrics: Metrics, period_ms: int, counter: str, what: str, step: Callable[[], Awaitable[None]]
                 ) -> None:
    """Await `step` once in each period, until cancelled. Its errors are counted in `counter`, and logged behind `what`."""
    failures = 0
    while True:
        await clock.sleep_ms(pause_ms(period_ms, failures))
        try:
            await step()
            failures = 0
        except Exception as error:
            failures += 1
            metrics.count(counter)
            metrics.warn(f"{what}: {reason(error)}")
