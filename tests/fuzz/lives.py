"""Feeds mutated inputs to real code in this process, and reports the first that stops it, or that takes too much.

A subject has lives. Each begins anew and gets a number of inputs, all drawn from the seed and the number of the life. So
`python -m tests.fuzz SUBJECT --seed S --life L` gives the same inputs again.
"""

import asyncio
import logging
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, contextmanager
from random import Random
from typing import Any, NamedTuple, Protocol

from highwater.impl.raft.node import Node

LIMIT_S = 1.0  # of the processor, for one input
LONGEST_S = 30.0  # for one input, on a machine that others use, too
LIMIT_BYTES = 128 << 20  # that one input may add to the largest memory of the process
INPUTS = 200  # of one life
EACH = 20  # inputs between two good requests


class Stopped(AssertionError):
    """The subject has stopped, or does not answer a good request."""


class Over(Exception):
    """The life ends early, and nothing is wrong: an input may do this."""


class Living(Protocol):
    """A subject in one of its lives."""

    counts: Counter[str]  # what became of the inputs

    async def give(self, chance: Random) -> None:
        """Draw an input and give it. Raises Stopped, Over, and what must not be raised."""
        ...

    async def check(self) -> None:
        """Make a good request. Raises Stopped if it is not answered."""
        ...


class Subject(NamedTuple):
    """The part that is fuzzed. `begin` begins a life; `run` runs it."""

    name: str
    begin: Callable[[Random], AbstractAsyncContextManager[Living]]
    run: Callable[[Coroutine[Any, Any, Any]], Any] = asyncio.run


class Found(NamedTuple):
    """An input that must not have had this effect. `number`: of the input in its life."""

    subject: str
    seed: int
    life: int
    number: int
    inputs: int  # in all lives so far
    what: str

    def __str__(self) -> str:
        return (f"input {self.number} of life {self.life} ({self.inputs:,} inputs so far): {self.what}; replay it with "
                f"`python -m tests.fuzz {self.subject} --seed {self.seed} --life {self.life}`")


def largest_bytes() -> int:
    """Return the largest memory that the process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


async def live(subject: Subject, seed: int, life: int, inputs: int, counts: Counter[str]) -> tuple[int, str]:
    """Return how many inputs a life has had, and what is wrong with the last one; "" if nothing is."""
    chance, number = Random(f"{subject.name} {seed} {life}"), 0
    async with subject.begin(chance) as one:
        try:
            for number in range(1, inputs + 1):
                memory, begun_s, worked_s = largest_bytes(), time.monotonic(), time.process_time()
                await one.give(chance)
                took_s, worked_s = time.monotonic() - begun_s, time.process_time() - worked_s
                more_bytes = largest_bytes() - memory
                if worked_s > LIMIT_S or took_s > LONGEST_S or more_bytes > LIMIT_BYTES:
                    return number, f"it takes {took_s:.1f} s, {worked_s:.1f} s of the processor, {more_bytes >> 20:,} MiB"
                if number % EACH == 0 or number == inputs:
                    await one.check()
        except Over:
            counts["lives that ended early"] += 1
        except Exception as error:
            return number, f"{type(error).__name__}: {str(error)[:500]}"
        finally:
            counts.update(one.counts)
    return number, ""


def check_node(node: Node) -> None:
    """Raises Stopped if a node does not run."""
    keeper: Any = node.keeper
    task = keeper and keeper.task
    if node.stopped or task is None or task.done():
        error = task.exception() if task is not None and task.done() and not task.cancelled() else None
        raise Stopped(f"the node stops: {node.stopped}; {error!r}") from error


@contextmanager
def silent() -> Generator[None]:
    """Log nothing: odd inputs are worth a line each."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def fuzzed(subject: Subject, seed: int, inputs: int, counts: Counter[str] | None = None) -> Found | None:
    """Give so many inputs, in as many lives as that takes. Return the first that has found something."""
    given, life, counts = 0, 0, Counter() if counts is None else counts
    with silent():
        while given < inputs:
            number, what = subject.run(live(subject, seed, life, min(INPUTS, inputs - given), counts))
            given += max(number, 1)
            if what:
                return Found(subject.name, seed, life, number, given, what)
            life += 1
    counts["inputs"] = given
    return None


def replayed(subject: Subject, seed: int, life: int) -> str:
    """Give the inputs of one life again. Return what is found, or what became of them."""
    counts = Counter[str]()
    with silent():
        number, what = subject.run(live(subject, seed, life, INPUTS, counts))
    return str(Found(subject.name, seed, life, number, number, what)) if what else f"nothing is wrong: {dict(counts)}"
