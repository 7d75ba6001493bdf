"""Recorded logs: requests that the abstract models judge for each second of CPU, and that a step costs the same in long logs.

Clients by turns read the latest manifest, create the next one, and check the boundary. The requests are in order, so a search
takes each step once.
"""

import gc
import time

from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.traces.recorded.orders import search
from highwater.traces.recorded.s3log import EMPTY, Body, Request
from highwater.traces.recorded.s3store import steps_of
from highwater.traces.recorded.systems.facts import Knobs
from highwater.traces.recorded.systems.slatedb import Slatedb

SIZES = ((1_000, 2), (10_000, 2), (10_000, 1_000))  # ids of manifests, clients
LEAST, MOST, TIMES = 20_000, 1.3, 3  # requests/s; ratio of the rates; measurements, of which the best counts
BODY = ManifestCodec().encode(Manifest(initialized=True))
ABSENT = {"if-none-match": "*"}


def main() -> bool:
    """Print the rates. Return True if one is less than the target, or the cost of a step grows."""
    rates = [measure(ids, clients) for ids, clients in SIZES]
    print(f"a step costs {rates[0] / min(rates):.2f} times as much in the longest log as in the shortest, target {MOST}")
    return min(rates) < LEAST or rates[0] / min(rates) > MOST


def measure(ids: int, clients: int) -> float:
    steps, _ = steps_of(log(ids, clients))
    took_s = []
    gc.collect()
    gc.disable()  # as in `trace check`
    for _ in range(TIMES):
        start_s = time.process_time()
        found = search(steps, Slatedb(Knobs()))
        took_s.append(time.process_time() - start_s)
        assert found.verdict == "complete", found.refused
    gc.enable()
    rate = len(steps) / min(took_s)
    print(f"{ids:,} ids, {clients:,} clients: {len(steps):,} requests, {rate:,.0f} requests/s of CPU, target {LEAST:,}")
    return rate


def log(ids: int, clients: int) -> list[Request]:
    requests: list[Request] = []

    def ask(client: str, method: str, key: str, status: int, body: bytes, **fields: object) -> None:
        op, at = method.lower(), 10 * len(requests) + 10
        version = f"{key} {body.hex()}" if status == 200 else ""
        requests.append(EMPTY._replace(
            number=len(requests) + 1, client=client, op=op, method=method, bucket="bucket", key=key, called=at, sent=at,
            answered=at + 5, returned=at + 5, status=status, told=status, version=version, times_us=(10**15,) * 4,
            **{"sent_body" if op == "put" else "got_body": Body(len(body), "", body)}, **fields))

    for i in range(1, ids + 1):
        client = f"client-{i % clients}"
        if i > 1:
            ask(client, "GET", f"db/manifest/{i - 1:020d}.manifest", 200, BODY)
        ask(client, "PUT", f"db/manifest/{i:020d}.manifest", 200, BODY, conditions=ABSENT)
        ask(client, "GET", "db/gc/manifest.boundary", 404, b"")
    return requests


if __name__ == "__main__":
    main()
