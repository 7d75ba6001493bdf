"""Break a promise of the environment in the middle of a run: an object that somebody damages or deletes, a store that lists
wrongly, or one that answers nobody any more.

From then on no model says what happens. A table says what still holds, and the run is judged by that
(docs/simulation/simulation.md).
"""

import re
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from highwater.dst.sim.choose import Choose
from highwater.dst.sim.kernel import Kernel
from highwater.dst.world.store import SimulatedStore

# (store, shape, ms, choose); returns False if there is nothing to break yet
Breach = Callable[[SimulatedStore, Any, int, Choose], bool]
LATEST_MS, AGAIN_MS, TRIES = 400, 10, 200


def begin(kernel: Kernel, store: SimulatedStore, shape: Any, breach: Breach, choose: Choose) -> None:
    """Break the promise at a drawn time, or once there is something to break."""
    def attempt(left: int) -> None:
        if not breach(store, shape, kernel.now_ms, choose) and left:
            kernel.at(kernel.now_ms + AGAIN_MS, "tampering", attempt, left - 1)

    kernel.at(kernel.now_ms + 1 + choose("broken.when", LATEST_MS), "tampering", attempt, TRIES)


def lost(key_of: Callable[[Any], str]) -> Breach:
    """Return the breach that deletes an object."""
    return lambda store, shape, now_ms, choose: deleted(store, key_of(shape), now_ms)


def overwritten(key_of: Callable[[Any], str], change: Callable[[bytes], bytes]) -> Breach:
    """Return the breach that gives an object another content."""
    def breach(store: SimulatedStore, shape: Any, now_ms: int, choose: Choose) -> bool:
        return written_over(store, key_of(shape), change, now_ms)

    return breach


def halved(body: bytes) -> bytes:
    return b"%d" % (int(body) // 2)


def lists(how: str) -> Breach:
    """Return the breach after which listings are wrong, as LISTS_WRONGLY says."""
    def breach(store: SimulatedStore, shape: Any, now_ms: int, choose: Choose) -> bool:
        store.lists_wrongly(how)
        return True

    return breach


def gone(store: SimulatedStore, shape: Any, now_ms: int, choose: Choose) -> bool:
    """Refuse every request from now on."""
    store.refuses_all()
    return True


def deleted(store: SimulatedStore, key: str, now_ms: int) -> bool:
    return key in store.objects and store.apply("delete", key, b"", "", now_ms).status == 204


def written_over(store: SimulatedStore, key: str, change: Callable[[bytes], bytes], now_ms: int) -> bool:
    return key in store.objects and store.put(key, change(store.objects[key][0].body), now_ms).status == 200


DAMAGES: tuple[Callable[[bytes], bytes] | None, ...] = (  # how one object is damaged; None: it is deleted
    None, lambda body: b"", lambda body: body[:len(body) // 2], lambda body: b"\xff" + body[1:], lambda body: body + b"}",
    lambda body: body[:len(body) // 2] + b"\xff" + body[len(body) // 2 + 1:])


def damaged(store: SimulatedStore, shape: Any, now_ms: int, choose: Choose) -> bool:
    """Delete a drawn object, or damage its content."""
    if not store.keys:
        return False
    key, change = store.keys[choose("broken.key", len(store.keys))], DAMAGES[choose("broken.how", len(DAMAGES))]
    return written_over(store, key, change, now_ms) if change else deleted(store, key, now_ms)


MISNAMES: tuple[Callable[[str, str], str], ...] = (  # names that are no file's, made of the 20 digits of one that is, and its
    # suffix; the last is none of the folder's
    lambda digits, suffix: f"{digits[1:]}{suffix}", lambda digits, suffix: f"0{digits}{suffix}",
    lambda digits, suffix: f"x{digits[1:]}{suffix}", lambda digits, suffix: f"{digits[:-1]}x{suffix}",
    lambda digits, suffix: f"{digits[:-1]}\N{ARABIC-INDIC DIGIT THREE}{suffix}", lambda digits, suffix: f"{'9' * 20}{suffix}",
    lambda digits, suffix: f"{digits}{suffix}.tmp")
NUMBERED = re.compile(r"^(.*/)([0-9]{20})(\.\w+)$")


def misnamed(store: SimulatedStore, shape: Any, now_ms: int, choose: Choose) -> bool:
    """Put a copy of a drawn file beside it, under a name that is no id."""
    files = [found for found in map(NUMBERED.match, store.keys) if found]
    if not files:
        return False
    folder, digits, suffix = files[choose("broken.key", len(files))].groups()
    copied = store.objects[f"{folder}{digits}{suffix}"][0].body
    name = MISNAMES[choose("broken.how", len(MISNAMES))](digits, suffix)
    return store.put(f"{folder}{name}", copied, now_ms).status == 200


DAMAGED = "object_damaged"
DAMAGE = MappingProxyType({  # for `breaks` of a scenario; such a run is judged by its answers
    DAMAGED: damaged, "file_misnamed": misnamed, "listing_stops": lists("stops"), "listing_hides": lists("hides"),
    "listing_invents": lists("invents"), "bucket_gone": gone})
