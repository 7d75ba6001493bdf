"""Clients of a LocalStore that die: at a random moment, after noting each acknowledged request; or at each line in turn.

A body carries its own digest, so that a partial body or a mixture of two is recognised.
"""

import asyncio
import hashlib
import itertools
import multiprocessing
import os
import random
import signal
import sys

from highwater.impl.errors import PreconditionFailed
from highwater.impl.stores import local
from highwater.impl.stores.local import LocalStore

COUNTERS = ("counters/a", "counters/b")


def sealed(content: bytes) -> bytes:
    return hashlib.sha256(content).digest() + content


def unsealed(body: bytes) -> bytes:
    """The content; AssertionError unless the body is whole."""
    digest, content = body[:32], body[32:]
    assert hashlib.sha256(content).digest() == digest, f"a torn object of {len(body)} bytes"
    return content


def start_worker(root: str, name: str, notes: str) -> multiprocessing.Process:
    worker = multiprocessing.get_context("spawn").Process(target=work, args=(root, name, notes), daemon=True)
    worker.start()
    return worker


def work(root: str, name: str, notes: str) -> None:
    """Create files, delete some, and count up the shared counters by get and update, until it or its parent dies."""
    notes_fd = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    asyncio.run(work_on(LocalStore(root), name, lambda note: os.write(notes_fd, f"{note}\n".encode())))


async def work_on(store: LocalStore, name: str, note) -> None:
    for number in itertools.count():
        if not multiprocessing.parent_process().is_alive():
            return
        key = f"files/{name}/{number % 7}/{number:06}"
        await store.create(key, sealed(key.encode() + b" " + os.urandom(random.randrange(300_000))))
        note(f"created {key}")
        if number % 3 == 0:
            note(f"deleting {key}")
            await store.delete(key)
            note(f"deleted {key}")
        counter = random.choice(COUNTERS)
        if await add_one(store, counter):
            note(f"counted {counter}")


async def add_one(store: LocalStore, counter: str) -> bool:
    """False if another was faster. The padding makes writes long enough to be killed in."""
    try:
        found = await store.get(counter)
        number = int(unsealed(found.body).split()[0]) + 1
        await store.update(counter, sealed(b"%d " % number + os.urandom(100_000)), found.version)
    except PreconditionFailed:
        return False
    return True


def killed_at_each_line(root: str, pipe) -> None:
    """Do each mutation in a process that dies at the 1st line of local.py, at the 2nd, and so on until it lives.

    Sends {name of the mutation: what was found at the key after each death, None for nothing}; a torn body, a file that
    is no object or a lock that stays held is an exception, which is sent instead.
    """
    try:
        pipe.send(asyncio.run(explore(LocalStore(root))))
    except Exception as error:
        pipe.send(error)


async def explore(store: LocalStore) -> dict[str, list[bytes | None]]:
    found: dict[str, list[bytes | None]] = {}
    for name, key, before, mutate in MUTATIONS:
        found[name] = []
        survived = False
        while not survived:
            await store.delete(key)
            version = await store.put(key, sealed(before)) if before is not None else ""
            survived = dies_at_line(len(found[name]) + 1, lambda mutate=mutate, version=version: mutate(store, version))
            found[name].append(await what_is_at(store, key))
        await store.delete(key)
    return found


MUTATIONS = [
    ("create", "a/b/new", None, lambda store, version: store._create("a/b/new", sealed(b"new"))),
    ("put over nothing", "a/c/new", None, lambda store, version: store._put("a/c/new", sealed(b"new"))),
    ("put", "k", b"old", lambda store, version: store._put("k", sealed(b"new"))),
    ("update", "k", b"old", lambda store, version: store._update("k", sealed(b"new"), version)),
    ("delete", "k", b"old", lambda store, version: store._delete("k")),
]


async def what_is_at(store: LocalStore, key: str) -> bytes | None:
    keys = [entry.key for entry in (await store.list_page("")).entries]
    assert keys in ([], [key]), keys
    return unsealed((await store.get(key)).body) if keys else None


def dies_at_line(number: int, act) -> bool:
    """Run `act` in a child that kills itself at the `number`th line of local.py; return True if `act` ended first."""
    child = os.fork()
    if child == 0:
        left = itertools.count(number, -1)

        def trace(frame, event, _):
            if frame.f_code.co_filename != local.__file__:
                return None
            if event == "line" and next(left) == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            return trace

        try:
            sys.settrace(trace)
            act()
            os._exit(0)
        finally:
            os._exit(1)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the mutation failed"
    return os.WIFEXITED(status)
