"""Repeat requests as the libraries of real clients do (retransmission).

One call of the program is one or more requests, each with its own number and fate, and all of them are in the trace. The
program receives the last response. The policies are the libraries' own defaults, including times. A run of the simulation
lasts some seconds, so its times are a tenth as long (`scaled`).

    boto3       botocore 1.x: retryhandler.py and data/_retry.json (legacy), retries/standard.py, retries/adaptive.py
    object_store  Apache's, for Rust: src/client/retry.rs, backoff.rs, aws/mod.rs
    once        impl/stores/s3.py: botocore with one attempt, whose errors say so

None of boto3's modes checks whether a request is idempotent. object_store does: after a time-out it repeats only idempotent
requests. After a 5xx it repeats any request, and it reports AlreadyExists for a 409 to a create.
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from highwater.dst.sim.choose import Choose
from highwater.impl.errors import AlreadyExists, OutcomeUnknown, StoreError, Unavailable
from highwater.impl.world import Clock, Entry, Object, ObjectStore, Page

ANY = ("get", "get_range", "get_if_changed", "head", "list", "create", "update", "put", "delete")
SAFE = ("get", "get_range", "get_if_changed", "head", "list")
STEPS = 16  # number of possible pauses


class RetryPolicy(NamedTuple):
    name: str
    attempts: int  # in all
    first_ms: int  # longest first pause (at least `least_ms`); each next one is at most twice as long,
    most_ms: int  # but no longer than this
    total_ms: int = 0  # no attempt begins after this time; 0: no limit
    least_ms: int = 0
    statuses: tuple[int, ...] = (500, 502, 503, 504)  # any request is repeated after these,
    timeouts: tuple[str, ...] = ANY  # after a time-out these are,
    conflicts: tuple[str, ...] = ()  # and after a 409 these
    conflict_is_exists: bool = False  # a 409 to a create is reported as AlreadyExists
    tells: bool = True  # an error tells the number of attempts
    gap_ms: int = 0  # adaptive: between two attempts of a client, after it was throttled


POLICIES = {policy.name: policy for policy in (
    RetryPolicy("boto3_legacy", 5, 1000, 1 << 30),  # rand(0, 1) * 2^i s
    RetryPolicy("boto3_standard", 3, 1000, 20_000),  # min(rand(0, 1) * 2^i, 20) s; its quota of 500 outlasts our runs
    # standard, and the client slows down when throttled. Really a token bucket whose rate follows a cubic; here the gap
    # between attempts doubles with each 503 or 429, from gap_ms, and shrinks by a fifth with each success.
    RetryPolicy("boto3_adaptive", 3, 1000, 20_000, gap_ms=500),
    RetryPolicy("object_store", 11, 200, 15_000, 180_000, 100, (*range(500, 600), 429, 408), (*SAFE, "put"), ("update",),
                conflict_is_exists=True, tells=False),
    RetryPolicy("once", 1, 0, 0, timeouts=()),
)}


def scaled(policy: RetryPolicy, divisor: int) -> RetryPolicy:
    times = {name: getattr(policy, name) // divisor for name in policy._fields if name.endswith("_ms")}
    return policy._replace(**times)


IN_SIMULATION = {name: scaled(policy, 10) for name, policy in POLICIES.items()}


class SdkStore:
    """The ObjectStore of a client that repeats requests. Its errors have `attempts` if the policy `tells`."""

    caches = False

    def __init__(self, inner: ObjectStore, clock: Clock, policy: RetryPolicy, choose: Choose, client: str):
        self.inner, self.clock, self.policy, self.choose, self.site = inner, clock, policy, choose, f"{client}.backoff"
        self.gap_ms = 0

    async def create(self, key: str, body: bytes) -> str:
        return await self._ask("create", self.inner.create, key, body)

    async def update(self, key: str, body: bytes, version: str) -> str:
        return await self._ask("update", self.inner.update, key, body, version)

    async def put(self, key: str, body: bytes) -> str:
        return await self._ask("put", self.inner.put, key, body)

    async def get(self, key: str) -> Object:
        return await self._ask("get", self.inner.get, key)

    async def get_range(self, key: str, start: int, end: int) -> Object:
        return await self._ask("get_range", self.inner.get_range, key, start, end)

    async def get_if_changed(self, key: str, version: str) -> Object | None:
        return await self._ask("get_if_changed", self.inner.get_if_changed, key, version)

    async def head(self, key: str) -> Entry:
        return await self._ask("head", self.inner.head, key)

    async def list_page(self, prefix: str, after: str = "") -> Page:
        return await self._ask("list", self.inner.list_page, prefix, after)

    async def delete(self, key: str) -> None:
        return await self._ask("delete", self.inner.delete, key)

    async def _ask(self, op: str, call: Callable[..., Awaitable[Any]], *args: Any) -> Any:
        policy, begun_ms, pause_ms, attempts = self.policy, self.clock.now_ms(), self.policy.first_ms, 0
        while True:
            attempts += 1
            if self.gap_ms:
                await self.clock.sleep_ms(self.gap_ms)
            try:
                answer = await call(*args)
            except StoreError as error:
                last = error
            else:
                self.gap_ms = self.gap_ms * 4 // 5
                return answer
            status = getattr(last, "status", 0)
            if policy.gap_ms and status in (429, 503):
                self.gap_ms = min(2 * self.gap_ms or policy.gap_ms, policy.most_ms)
            late = policy.total_ms and self.clock.now_ms() - begun_ms > policy.total_ms
            if attempts == policy.attempts or late or not repeats(policy, op, last):
                break
            longest_ms = min(pause_ms, policy.most_ms) - policy.least_ms
            await self.clock.sleep_ms(policy.least_ms + longest_ms * self.choose(self.site, STEPS) // (STEPS - 1))
            pause_ms *= 2
        if policy.conflict_is_exists and op == "create" and status == 409:
            raise AlreadyExists(args[0]) from last
        if policy.tells:
            last.attempts = attempts
        raise last


def repeats(policy: RetryPolicy, op: str, error: StoreError) -> bool:
    """Tell whether the request is sent again. An error without a status is a time-out."""
    if not isinstance(error, (Unavailable, OutcomeUnknown)):
        return False
    status = getattr(error, "status", 0)
    if not status:
        return op in policy.timeouts
    return op in policy.conflicts if status == 409 else status in policy.statuses
