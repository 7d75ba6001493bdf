"""Sixteen clients at once: `run` has each member of a crew do the same work, all starting together.

Each member opens a store of its own. On local files the members are processes, spawned so that they share nothing. On moto and
in memory they are threads.
"""

import asyncio
import multiprocessing
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from highwater.impl.errors import AlreadyExists, PreconditionFailed

SIZE = 16
LIMIT_S = 60


class ThreadCrew:
    def __init__(self):
        self._pool = ThreadPoolExecutor(SIZE)

    def run(self, work: Callable, *args: Any) -> list:
        """[work(0, start, *args), work(1, start, *args), ...]; `start()` returns when all have called it."""
        barrier = threading.Barrier(SIZE)
        jobs = [self._pool.submit(work, number, lambda: barrier.wait(LIMIT_S), *args) for number in range(SIZE)]
        return [job.result(LIMIT_S) for job in jobs]

    def dismiss(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class ProcessCrew:
    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self._barrier = context.Barrier(SIZE)
        pipes = [context.Pipe() for _ in range(SIZE)]
        self._pipes = [ours for ours, _ in pipes]
        self._members = [
            context.Process(target=serve, args=(number, self._barrier, theirs), daemon=True)
            for number, (_, theirs) in enumerate(pipes)
        ]
        for member in self._members:
            member.start()

    def run(self, work: Callable, *args: Any) -> list:
        for pipe in self._pipes:
            pipe.send((work, args))
        results = []
        for pipe in self._pipes:
            assert pipe.poll(LIMIT_S), f"a member of the crew did not answer within {LIMIT_S} s"
            results.append(pipe.recv())
        failures = [result for result in results if isinstance(result, BaseException)]
        if failures:
            raise failures[0]
        return results

    def dismiss(self) -> None:
        for member in self._members:
            member.kill()
        for member in self._members:
            member.join()


def serve(number: int, barrier: Any, pipe: Any) -> None:
    while True:
        work, args = pipe.recv()
        try:
            pipe.send(work(number, lambda: barrier.wait(LIMIT_S), *args))
        except Exception as error:
            pipe.send(error)


def create_each(number: int, start: Callable, stores: Any, keys: list[str]) -> list[str]:
    """Try to create every key; returns those that this member was told it had created."""

    async def client() -> list[str]:
        store, won = stores.open(), []
        start()
        for key in keys:
            try:
                await store.create(key, b"member %d" % number)
                won.append(key)
            except AlreadyExists:
                pass
        return won

    return asyncio.run(client())


def update_or_delete_each(number: int, start: Callable, stores: Any, versions: dict[str, str]) -> list[str]:
    """Every key is updated by half of the crew, from the version given, and deleted by the other half."""

    async def client() -> list[str]:
        store, updated = stores.open(), []
        start()
        for key, version in versions.items():
            if number % 2:
                await store.delete(key)
                continue
            try:
                await store.update(key, b"member %d" % number, version)
                updated.append(key)
            except PreconditionFailed:
                pass
        return updated

    return asyncio.run(client())


def add_each(number: int, start: Callable, stores: Any, key: str, times: int) -> list[str]:
    """Add a line to the object `times` times by get and update, trying again when another was faster."""

    async def client() -> list[str]:
        store, added = stores.open(), []
        start()
        while len(added) < times:
            line = f"{number}-{len(added)}"
            found = await store.get(key)
            try:
                await store.update(key, found.body + line.encode() + b"\n", found.version)
                added.append(line)
            except PreconditionFailed:
                await asyncio.sleep(random.uniform(0, 0.005))
        return added

    return asyncio.run(client())
