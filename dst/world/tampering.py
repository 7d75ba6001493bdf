"""Break a promise of the environment in the middle of a run: a boundary that somebody changes, or a store that lists wrongly.

From then on no model says what happens. A table says what still holds, and the run is judged by that
(docs/simulation/simulation.md).
"""

from collections.abc import Callable
from typing import Any

from highwater.dst.sim.choose import Choose
from highwater.dst.sim.kernel import Kernel
from highwater.dst.world.store import SimulatedStore

Breach = Callable[[SimulatedStore, Any, int], bool]  # (store, shape, ms); returns False if there is nothing to break yet
LATEST_MS, AGAIN_MS, TRIES = 400, 10, 200


def begin(kernel: Kernel, store: SimulatedStore, shape: Any, breach: Breach, choose: Choose) -> None:
    """Break the promise at a drawn time, or once there is something to break."""
    def attempt(left: int) -> None:
        if not breach(store, shape, kernel.now_ms) and left:
            kernel.at(kernel.now_ms + AGAIN_MS, "tampering", attempt, left - 1)

    kernel.at(kernel.now_ms + 1 + choose("broken.when", LATEST_MS), "tampering", attempt, TRIES)


def lost(key_of: Callable[[Any], str]) -> Breach:
    """Return the breach that deletes an object."""
    return lambda store, shape, now_ms: store.apply("delete", key_of(shape), b"", "", now_ms).status == 204 \
        if key_of(shape) in store.objects else False


def overwritten(key_of: Callable[[Any], str], change: Callable[[bytes], bytes]) -> Breach:
    """Return the breach that gives an object another content."""
    def breach(store: SimulatedStore, shape: Any, now_ms: int) -> bool:
        key = key_of(shape)
        return key in store.objects and store.put(key, change(store.objects[key][0].body), now_ms).status == 200

    return breach


def halved(body: bytes) -> bytes:
    return b"%d" % (int(body) // 2)


def lists(how: str) -> Breach:
    """Return the breach after which listings are wrong, as `SimulatedStore.lists` says."""
    def breach(store: SimulatedStore, shape: Any, now_ms: int) -> bool:
        store.lists_wrongly(how)
        return True

    return breach
