"""Safety: what clients of a cluster were told is what one atomic machine would have told them.

Clients call registers and lists of a cluster, and every call is kept with its time. A key takes at most `CALLS` calls; then
another one takes its place. The judge is the search of traces/histories/sequential.py, with the rule below: a machine of one
key, written apart from the cluster's.
"""

import asyncio
import itertools
import json
from collections import Counter, defaultdict
from random import Random
from typing import Any

from highwater.cluster.client import Client
from highwater.impl.errors import Definite, StoreError
from highwater.traces.histories.sequential import Call, unexplained

CALLS = 150  # of one key
KEYS = 6  # at a time
GONE = "gone"


def rule(state: Any, asked: tuple) -> tuple[Any, Any]:
    """A register or a list: None, a number, or a tuple."""
    kind, *given = asked
    if kind == "read":
        return state, state
    if kind == "append":
        grown = (*(state or ()), given[0])
        return grown, len(grown)
    if kind == "swap":
        return (given[1], True) if state == given[0] else (state, False)
    return given[0], True


class Workload:
    """Clients at work, and the history of each key."""

    def __init__(self, client: Client, names: tuple[str, ...], seed: int):
        self.client, self.names, self.random = client, names, Random(seed)
        self.clock = itertools.count()
        self.values = itertools.count(1)
        self.began = itertools.count()
        self.history: dict[str, list[Call]] = defaultdict(list)
        self.told: Counter[str] = Counter()
        self.known: dict[str, Any] = {}  # the latest value of a register that some client was told of
        self.is_over = False

    async def run(self, clients: int) -> None:
        """Let so many clients call until `is_over`."""
        await asyncio.gather(*(self._client() for _ in range(clients)))

    async def _client(self) -> None:
        while not self.is_over:
            number = next(self.began)
            key = f"{'rl'[number % 2]}{number // (CALLS * KEYS) * KEYS + number % KEYS}"
            await self.call(key, self._chosen(key), self.random.choice(self.names))

    def _chosen(self, key: str) -> tuple:
        chance, value = self.random.random(), next(self.values)
        if chance < 0.5:
            return ("read",)
        if key[0] == "l":
            return ("append", value)
        return ("swap", self.known.get(key), value) if chance < 0.75 else ("write", value)

    async def call(self, key: str, asked: tuple, node: str) -> None:
        """Make one call and keep it, unless it certainly had no effect."""
        called = next(self.clock)
        try:
            result = await self._result(key, asked, node)
        except StoreError as error:
            self.told[type(error).__name__] += 1
            if not isinstance(error, Definite) and asked[0] != "read":
                self.history[key].append(Call(asked, called))
            return
        self.told["ok"] += 1
        self.history[key].append(Call(asked, called, next(self.clock), result))
        if key[0] == "r":
            self.known[key] = result if asked[0] == "read" else asked[-1]

    async def _result(self, key: str, asked: tuple, node: str) -> Any:
        kind, *given = asked
        if kind == "read":
            found = json.loads(await self.client.query(json.dumps({"get": key}).encode(), node))["value"]
            return tuple(found) if isinstance(found, list) else found
        names = {"append": ("value",), "write": ("value",), "swap": ("old", "new")}[kind]
        answer = json.loads(await self.client.propose(json.dumps({"do": kind, "key": key, **dict(zip(names, given))}).encode()))
        return answer["length"] if kind == "append" else answer["ok"]

    async def read_all(self) -> None:
        """Read every key on every node: what was acknowledged is there. Raises the node's error."""
        for key in list(self.history):
            for node in self.names:
                result, called = await self._result(key, ("read",), node), next(self.clock)
                self.history[key].append(Call(("read",), called, next(self.clock), result))

    def problems(self) -> list[str]:
        """Return why the history of a key is none of a machine of its own."""
        found = ((key, unexplained(calls, None, rule)) for key, calls in self.history.items())
        return [f"{key}: {why}" for key, why in found if why]
