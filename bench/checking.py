"""Checking the log of a foreign program: requests per second, for a log that has no violation. And a long trace of events.

The log resembles a database's traffic. A writer flushes: each manifest has its boundary check, records in the WAL, and a dozen
reads of the next manifest and of the boundary. (46 of 939 recorded requests of SlateDB 0.17.0 put a sequenced file.) Now and
then a collector advances the boundary and deletes. Times are CPU seconds of one core; reading the log is measured apart.

A trace of events is checked as it is read. So a long one must be checked at the rate of a short one. A test of
tests/highwater/test_outside.py bounds the memory for each event."""

import io
import tempfile
import time
from pathlib import Path

from highwater.dst.verdict import Options, beginner, judged
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.manifest import ManifestCodec
from highwater.impl.codecs.slatedb.tables import Run, View
from highwater.impl.layout import Namespace
from highwater.traces.recorded.orders import search
from highwater.traces.recorded.s3log import EMPTY, Body, Request, read, to_json
from highwater.traces.recorded.s3store import steps_of
from highwater.traces.recorded.systems.slatedb import Slatedb
from highwater.traces.stream import Streamed

FLUSHES, ROUND, LOOKS, LEAST = (1_000, 10_000), 50, 6, 20_000
SHORT, LONG = 10_000, 100_000  # events
SLOWER = 2.0  # at most, of the long trace
MANIFESTS, WAL = Namespace("db", "manifest"), Namespace("db", "wal")
ABSENT = {"if-none-match": "*"}


def version_of(key: str, body: bytes) -> str:
    return f"{hash((key, body)):x}"


def log(flushes: int) -> str:
    lines = ['{"kind":"log","v":1}']
    boundary, codec = 0, ManifestCodec()

    def ask(client: str, op: str, key: str, status: int = 200, body: bytes = b"", **conditions: str) -> None:
        at = 10 * len(lines)
        sent = {"sent_body" if op == "put" else "got_body": Body(len(body), "", body)}
        lines.append(to_json(EMPTY._replace(
            number=len(lines), client=client, op=op, method=op.upper(), bucket="bucket", key=key, called=at, sent=at + 1,
            answered=at + 2, returned=at + 3, status=status, told=status,
            version=version_of(key, body) if status == 200 else "", conditions=conditions, **sent)))

    for flush in range(1, flushes + 1):
        l0 = tuple(View(f"{i:026d}", f"{i:026d}", None) for i in range(max(1, flush - 3), flush))
        manifest = Manifest(initialized=True, wal_id_last_seen=flush, replay_after_wal_id=flush - 1, l0=l0,
                            compacted=(Run(flush, l0),))
        ask("A", "put", WAL.key(flush), body=b"records", **ABSENT)
        ask("A", "get", MANIFESTS.key(flush), 404)
        ask("A", "put", MANIFESTS.key(flush), body=codec.encode(manifest), **ABSENT)
        for _ in range(LOOKS):
            ask("A", "get", MANIFESTS.boundary_key, *((200, str(boundary).encode()) if boundary else (404,)))
            ask("A", "get", MANIFESTS.key(flush + 1), 404)
        if flush % ROUND == 0:
            old, boundary = boundary, flush - 1
            condition = {"if-match": version_of(MANIFESTS.boundary_key, str(old).encode())} if old else ABSENT
            ask("G", "put", MANIFESTS.boundary_key, body=str(boundary).encode(), **condition)
            for file_id in range(old + 1, boundary + 1):
                ask("G", "delete", MANIFESTS.key(file_id), 204)
    lines.append(f'{{"kind":"end","requests":{len(lines) - 1}}}')
    return "\n".join(lines) + "\n"


def main() -> bool:
    """Print the rates, which must not fall with the number of ids or of events. Return True if one misses its target, or if
    the checker reports a violation."""
    return any([*(missed(flushes) for flushes in FLUSHES), streamed()])


def streamed() -> bool:
    """Compare the rate of a long trace of events with that of a short one."""
    from tests.highwater.test_outside import in_file, options_of, reads

    run, events = reads(LONG)
    with tempfile.TemporaryDirectory() as folder:
        _, short, long = (rate_of(in_file(Path(folder) / "trace.ndjson", events[:count]), options_of(run))
                          for count in (SHORT, SHORT, LONG))  # the first one fills the caches
    print(f"{SHORT:,} events of a stream: {short:,.0f} per second; {LONG:,}: {long:,.0f}, "
          f"{short / long:.2f} times slower (target: at most {SLOWER})")
    return short / long > SLOWER


def rate_of(file: Path, options: Options) -> float:
    """Return the events that are checked in a CPU second."""
    events, began_s = Streamed(file), time.process_time()
    assert judged(events, beginner(events.firsts(), options)(), options) is None
    return len(events) / (time.process_time() - began_s)


def missed(flushes: int) -> bool:
    text = log(flushes)
    began = time.process_time()
    requests: list[Request] = read(io.StringIO(text)).requests
    reading = time.process_time() - began
    steps, _ = steps_of(requests)
    began = time.process_time()
    found = search(steps, Slatedb())
    took = time.process_time() - began
    rate = len(requests) / took
    print(f"{len(requests):,} requests, {flushes:,} ids: {rate:,.0f} per second (target: at least {LEAST:,}); reading the log: "
          f"{len(requests) / reading:,.0f} per second; verdict: {found.verdict}")
    return found.verdict != "complete" or rate < LEAST


if __name__ == "__main__":
    main()
