"""Recording: the latency of a request through the recorder, compared with one sent to the same server directly.

One program sends pairs of requests to one server (versitygw, built by tools/s3/build.py), by turns directly and through the
recorder, over connections that stay open. The recorder is a process of its own, as in use. `boto3` is the latency that a
program sees, including signing. `bare` sends requests signed beforehand: network, server and recorder only."""

import http.client
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import boto3
from botocore.config import Config

from highwater.impl.stores.s3 import connect

PAIRS, WARM = 600, 50
MOST = 2.0
BUCKET = "bench"


def main() -> bool:
    from highwater.servers.leash import CannotStart
    from highwater.servers.s3 import KEY, SECRET
    from tests.support.stores.s3_servers import s3_server

    os.environ.update(AWS_ACCESS_KEY_ID=KEY, AWS_SECRET_ACCESS_KEY=SECRET, AWS_DEFAULT_REGION="us-east-1")
    try:
        with s3_server("versitygw") as url, tempfile.TemporaryDirectory() as folder:
            return measure(url, folder)
    except CannotStart as error:
        print(f"not measured: {error}")
        return False


def measure(url: str, folder: str) -> bool:
    """Print the latencies. Return True if a recorded request takes longer than the target allows."""
    command = [sys.executable, "-m", "highwater", "trace", "record", url, "--out", f"{folder}/log"]
    recorder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    worst = 0.0
    try:
        through = recorder.stdout.readline().split()[1]
        for kind, make in (("boto3", by_boto3), ("bare", bare)):
            ways = make(url), make(through)
            for name in ways[0]:
                times_us = [[], []]
                for number in range(PAIRS + WARM):
                    for way in (0, 1) if number % 2 else (1, 0):
                        start = time.perf_counter_ns()
                        ways[way][name]()
                        times_us[way].append((time.perf_counter_ns() - start) / 1000)
                direct, recorded = ([*each[WARM:]] for each in times_us)
                ratio = statistics.median(b / a for a, b in zip(direct, recorded))
                worst = max(worst, ratio)
                print(f"{kind:6} {name:7} {statistics.median(direct):6,.0f} us direct, {statistics.median(recorded):6,.0f} us "
                      f"recorded: {ratio:.2f} times (median of {PAIRS} pairs)", flush=True)
    finally:
        recorder.terminate()
        recorder.wait()
    print(f"at most {worst:.2f} times; target: at most {MOST}")
    return worst > MOST


def by_boto3(url: str) -> dict[str, Callable[[], object]]:
    client, numbers = connect(url), itertools.count(time.time_ns())
    if "bench" not in [found["Name"] for found in client.list_buckets()["Buckets"]]:
        client.create_bucket(Bucket=BUCKET)
    for key in ("there", "a/1", "a/2"):
        client.put_object(Bucket=BUCKET, Key=key, Body=b"x" * 1000)
    return {
        "create": lambda: client.put_object(Bucket=BUCKET, Key=f"created/{next(numbers)}", Body=b"x" * 1000, IfNoneMatch="*"),
        "get": lambda: client.get_object(Bucket=BUCKET, Key="there")["Body"].read(),
        "head": lambda: client.head_object(Bucket=BUCKET, Key="there"),
        "list": lambda: client.list_objects_v2(Bucket=BUCKET, Prefix="a/"),
    }


def bare(url: str) -> dict[str, Callable[[], object]]:
    """Return calls that send requests again and again, signed once for the Host of the server or of the recorder."""
    client = boto3.client("s3", endpoint_url=url, config=Config(signature_version="s3v4", s3={"addressing_style": "path"}))
    connection = http.client.HTTPConnection(urlsplit(url).netloc)

    def asks(method: str, of: str, body: bytes = b"", **request: str) -> Callable[[], object]:
        signed = urlsplit(client.generate_presigned_url(of, {"Bucket": BUCKET, **request}, ExpiresIn=3600))

        def ask() -> None:
            connection.request(method, f"{signed.path}?{signed.query}", body)
            reply = connection.getresponse()
            reply.read()
            assert reply.status == 200, reply.status

        return ask

    return {"put": asks("PUT", "put_object", b"x" * 1000, Key="bare"), "get": asks("GET", "get_object", Key="there"),
            "head": asks("HEAD", "head_object", Key="there"), "list": asks("GET", "list_objects_v2", Prefix="a/")}


if __name__ == "__main__":
    sys.exit(main())
