"""Threads that use one recorded scene until a time is over, or one of them raises. The soak tests share this."""

import asyncio
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from traceback import format_exception, format_stack
from typing import Any

import pytest

from highwater.impl.errors import Definite, StoreError
from highwater.impl.protocols import checkpoints
from highwater.impl.protocols.checkpoints import CheckpointEnded, CheckpointMissing
from highwater.impl.protocols.sequenced_metadata import MetadataStore
from highwater.impl.stores.s3 import S3Store, connect
from highwater.impl.stores.system import Ulids, system_world
from highwater.impl.world import World
from tests.support.slatedb.client import PeerError
from tests.support.slatedb.recorded import BUCKET, KEY, SECRET, Scene

ENDS_S, HOUR_MS = 120, 3_600_000
REFUSED = (PeerError, StoreError, ValueError)  # what a client of either side may be told, and then goes on
Work = Callable[[Random], None]


def seconds(usual: float) -> float:
    """Return how long a soak runs: HIGHWATER_SOAK_S, or what is usual for it."""
    return float(os.environ.get("HIGHWATER_SOAK_S", usual))


def seed() -> int:
    return int(os.environ.get("HIGHWATER_SOAK_SEED", 1))


def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let our clients find the server's credentials where every S3 client looks for them."""
    for name, value in (("AWS_ACCESS_KEY_ID", KEY), ("AWS_SECRET_ACCESS_KEY", SECRET), ("AWS_REGION", "us-east-1"),
                        ("AWS_DEFAULT_REGION", "us-east-1")):
        monkeypatch.setenv(name, value)


def where(thread: threading.Thread) -> str:
    """Return a thread's name, the frames that it is in, and those where the tasks of its event loop wait."""
    frame = sys._current_frames().get(thread.ident or 0)
    text = "".join(format_stack(frame))
    while frame:
        if isinstance(loop := frame.f_locals.get("self"), asyncio.BaseEventLoop):
            waits = [one for task in asyncio.all_tasks(loop) for one in task.get_stack()]
            return f"{thread.name}\n{text}" + "".join(format_stack(one, 1)[0] for one in waits)
        frame = frame.f_back
    return f"{thread.name}\n{text}"


class Together:
    """`over` is set when the time is over; each thread looks at it. `counts`: what happened, and how often."""

    def __init__(self, scene: Scene, seed: int):
        self.scene, self.seed, self.over = scene, seed, threading.Event()
        self.counts: Counter[str] = Counter()
        self._errors: list[BaseException] = []
        self._guard, self._spared = threading.Lock(), Counter[str]()  # how many released clients use each database

    def side_by_side(self, work: Sequence[Work], seconds: float) -> None:
        """Run each work in a thread, with random numbers of its own.

        Raises AssertionError with what the threads have raised, or if one does not end."""
        threads = [threading.Thread(target=self._kept, args=(one, Random(f"{self.seed} {number}")), daemon=True,
                                    name=f"work {number}") for number, one in enumerate(work)]
        for thread in threads:
            thread.start()
        self.over.wait(seconds)
        self.over.set()
        self.scene.rules("")
        end_s = time.monotonic() + ENDS_S
        for thread in threads:
            thread.join(max(0.0, end_s - time.monotonic()))
        assert not self._errors, "\n".join("".join(format_exception(error)) for error in self._errors)
        assert not (stuck := [where(one) for one in threads if one.is_alive()]), "these do not end: " + "\n".join(stuck)

    def _kept(self, work: Work, random: Random) -> None:
        try:
            work(random)
        except BaseException as error:
            self._errors.append(error)
            self.over.set()

    def world(self, name: str) -> World:
        """Return the world of a client of ours that has this port of the recorder."""
        return system_world(S3Store(connect(self.scene.session.urls[name]), BUCKET, ids=Ulids()))

    @contextmanager
    def spared(self, path: str) -> Iterator[None]:
        """Let `forgotten` refuse this database meanwhile. A released client does not end in a database that is destroyed
        (docs/operating/findings.md); ours has to."""
        with self._guard:
            self._spared[path] += 1
        try:
            yield
        finally:
            with self._guard:
                self._spared[path] -= 1

    def forgotten(self, databases: dict[str, Any], path: str) -> bool:
        """Take a database out, so that it may be destroyed. False if a released client uses it."""
        with self._guard:
            if free := not self._spared[path]:
                del databases[path]
        return free

    def pause(self, random: Random, least_s: float, most_s: float) -> bool:
        """Wait for a while. Return whether the time is over."""
        return self.over.wait(random.uniform(least_s, most_s))

    def count(self, what: str, work: Callable[[], Any]) -> bool:
        """Say whether a call succeeded. What a client refuses is counted, and is no error here."""
        try:
            work()
        except REFUSED as error:
            text = re.sub(r"[-0-9a-f]{36}|\d+", "..", f"{type(error).__name__}: {error}")
            self.counts[f"{what}: {text[:70]}"] += 1
            return False
        self.counts[what] += 1
        return True

    def change_checkpoints(self, manifests: MetadataStore, held: dict[str, Any], random: Random) -> bool:
        """Take a checkpoint, or refresh or delete one. `held` has them from when they are taken until before they are deleted;
        one stays. Return whether it is known what came of it."""
        name = random.choice([*held]) if held else ""
        what = random.random()
        try:
            if what < 0.5 or not held:
                new, source = checkpoints.new_id(manifests), random.choice([None, *held])
                asyncio.run(checkpoints.create(manifests, new, random.choice((None, HOUR_MS)), "ours", source))
                held[new] = None
            elif what < 0.7:
                asyncio.run(checkpoints.refresh(manifests, name, HOUR_MS))
            elif len(held) > 1:
                del held[name]
                asyncio.run(checkpoints.delete(manifests, name))
            self.counts["our changes of checkpoints"] += 1
        except Definite as error:
            assert not isinstance(error, CheckpointMissing | CheckpointEnded), error
            self.counts[f"operator: {type(error).__name__}"] += 1
        except StoreError as error:
            self.counts[f"operator: {type(error).__name__}"] += 1
            return False
        return True

    def disturb(self, rules: Callable[[], tuple[list[str], float]], random: Random, rest_s: float) -> None:
        """Put rules of the recorder in force, for as long as `rules` says, and rest before the next ones."""
        while not self.over.is_set():
            made, during_s = rules()
            self.scene.rules("\n".join(made))
            self.counts["rules"] += len(made)
            self.over.wait(during_s)
            self.scene.rules("")
            self.over.wait(random.uniform(0, rest_s))

    def summary(self, seconds: float) -> str:
        rules = [one.rule.split()[0] for one in self.scene.session.requests if one.rule]
        lost = sum(rule in ("lose", "drop", "late", "fail", "fail-reply") for rule in rules)
        return (f"\nseed {self.seed}, {seconds:g} s: {len(self.scene.session.requests):,} requests, "
                f"{len(rules) - lost:,} held or delayed, {lost:,} lost or failed;")
