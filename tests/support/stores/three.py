"""The instances SlateDB 01, 02 and 03 of SlateDB's page on the manifest, each in a process that takes commands by a pipe.

They share only the store, and a barrier for instances that must open at the same moment: they meet there before they write.
"""

import asyncio
import multiprocessing
import os
from collections.abc import Callable
from typing import Any

from highwater.impl.errors import StoreError
from highwater.impl.protocols.manifest_epochs import Instance
from highwater.impl.stores.system import system_world
from highwater.servers.s3 import KEY, SECRET

NAMES = ("01", "02", "03")
LIMIT_S = 60


class AtBarrier:
    """A store whose first create waits until those of all others have come as far: they have read the same manifest."""

    def __init__(self, store: Any, meet: Callable[[], Any]):
        self._store, self._meet, self.caches = store, meet, store.caches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def create(self, key: str, body: bytes) -> str:
        meet, self._meet = self._meet, None
        if meet:
            await asyncio.to_thread(meet)
        return await self._store.create(key, body)


def serve(barrier: Any, pipe: Any) -> None:
    """Answers ("open", stores, meet at the barrier, retry_for_s) by the epoch, ("flush", sst) by the id; or by an error."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", KEY)  # for a server that may start later than this process
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", SECRET)
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    os.environ.pop("AWS_PROFILE", None)
    with asyncio.Runner() as runner:
        instance = None
        while True:
            what, *arguments = pipe.recv()
            try:
                if what == "open":
                    stores, together, retry_for_s = arguments
                    store = AtBarrier(stores.open(), lambda: barrier.wait(LIMIT_S)) if together else stores.open()
                    instance = Instance(system_world(store), "db1", "writer")
                    runner.run(instance.open(retry_for_s))
                    pipe.send(instance.epoch)
                else:
                    pipe.send(runner.run(instance.flush(*arguments)).id)
            except StoreError as error:
                pipe.send((type(error).__name__, str(error)))


class Three:
    def __init__(self):
        context = multiprocessing.get_context("spawn")
        self._barrier = context.Barrier(len(NAMES))  # it must outlive the start of the processes
        pipes = {name: context.Pipe() for name in NAMES}
        self._pipes = {name: ours for name, (ours, _) in pipes.items()}
        self._processes = [context.Process(target=serve, args=(self._barrier, theirs), daemon=True)
                           for _, theirs in pipes.values()]
        for process in self._processes:
            process.start()

    def ask(self, name: str, *what: Any) -> Any:
        self._pipes[name].send(what)
        return self._answer(name)

    def ask_all(self, *what: Any) -> dict[str, Any]:
        """All at once."""
        for pipe in self._pipes.values():
            pipe.send(what)
        return {name: self._answer(name) for name in NAMES}

    def _answer(self, name: str) -> Any:
        assert self._pipes[name].poll(LIMIT_S), f"SlateDB {name} did not answer within {LIMIT_S} s"
        return self._pipes[name].recv()

    def dismiss(self) -> None:
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
