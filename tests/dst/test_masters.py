"""Work on Spark gives the same results through Spark Connect and on `local-cluster`, whose workers are separate processes.

Each test starts a program, because a process has one Spark session.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from highwater.dst.bulk.export import Export
from highwater.dst.campaign import folder
from highwater.dst.campaign.bucket.copy import fetched
from highwater.dst.campaign.rows import SCHEMA
from highwater.dst.run_spec import Run
from highwater.dst.simulate import many
from highwater.dst.spark.session import load_java
from highwater.impl.codecs.index.footer import footer
from highwater.impl.codecs.index.names import block_path
from highwater.impl.stores.s3 import connect as boto
from highwater.servers.s3 import CREDENTIALS
from tests.support.metadata_index import block, stream_of
from tests.support.stores.s3_servers import s3_server

ROOT = Path(__file__).resolve().parents[2]
MUTANT = ("--scenario", "sequenced_metadata_boundary", "--mutant", "age_ignored", "--seeds", "0:200")
LONGEST_S = 120  # for a server to start


def called(*words: object) -> tuple[int, str, str]:
    """The exit code, stdout, stderr."""
    done = subprocess.run([sys.executable, "-m", "highwater", *map(str, words)], cwd=ROOT, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def home() -> str:
    """Java's."""
    found = load_java().find_java()
    if found is None:
        pytest.skip("no Java")
    return found


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A bucket's URL. Programs started from here on find its server, and have a cache of their own."""
    with s3_server("moto") as url, pytest.MonkeyPatch.context() as patch:
        cache = str(tmp_path_factory.mktemp("cache"))
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": url, "XDG_CACHE_HOME": cache}.items():
            patch.setenv(name, value)
        boto(url).create_bucket(Bucket="rows")
        yield "s3://rows"


@pytest.fixture(scope="module")
def connect(home: str, s3: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Connect server of two workers: its URL."""
    import pyspark

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    spark, log = Path(pyspark.__file__).parent, tmp_path_factory.mktemp("connect") / "log"
    server = subprocess.Popen(
        [spark / "bin" / "spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
         "--master", "local[2,4]", "--conf", f"spark.connect.grpc.binding.port={port}",
         "--conf", "spark.connect.grpc.binding.address=127.0.0.1", "--conf", "spark.ui.enabled=false", "spark-internal"],
        env=os.environ | {"JAVA_HOME": home, "SPARK_HOME": str(spark), "SPARK_LOCAL_IP": "127.0.0.1",
                          "PYSPARK_PYTHON": sys.executable},
        cwd=log.parent, stdout=log.open("w"), stderr=subprocess.STDOUT, start_new_session=True)
    try:
        began = time.monotonic()
        while not listens(port):
            assert server.poll() is None and time.monotonic() - began < LONGEST_S, log.read_text()[-2000:]
            time.sleep(0.2)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the campaign in processes on this machine."""
    out = tmp_path_factory.mktemp("expected") / "out"
    assert called("campaign", "run", *MUTANT, "--out", out, "--engine", "local")[0] == 10
    return out


@pytest.mark.parametrize("master", ["connect", "local-cluster[2,1,1024]"])
def test_a_campaign_has_the_same_rows_and_the_same_bundles(master: str, home: str, expected: Path, tmp_path: Path,
                                                           request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("connect") if master == "connect" else master
    out = tmp_path / "out"
    code, *said = called("campaign", "run", *MUTANT, "--out", out, "--master", url, "--range-size", 30, "--triage")
    assert code == 10, said
    assert (out / "summary.json").read_bytes() == (expected / "summary.json").read_bytes()
    columns = [name for name in SCHEMA.names if name != "cpu_us"]
    one, two = (folder.read(of, (0, 200), columns).sort_by("seed") for of in (out, expected))
    assert one.num_rows == 200 and one.equals(two)
    assert called("campaign", "triage", expected, "--jobs", 2)[0] == 10
    files = [path.relative_to(out) for path in (out / "bundles").rglob("*.*")]
    assert len(files) > 5 and all((out / path).read_bytes() == (expected / path).read_bytes() for path in files)


@pytest.mark.parametrize("master", ["connect", "local-cluster[2,1,1024]"])
def test_a_campaign_in_a_bucket_has_the_same_rows(master: str, s3: str, home: str, expected: Path,
                                                  request: pytest.FixtureRequest) -> None:
    """The workers put their rows themselves: no folder is theirs and the driver's."""
    url, out = request.getfixturevalue("connect") if master == "connect" else master, f"{s3}/{master.partition('[')[0]}"
    code, *said = called("campaign", "run", *MUTANT, "--out", out, "--master", url, "--range-size", 30)
    assert code == 10, said
    copy = fetched(out)
    assert (copy / "summary.json").read_bytes() == (expected / "summary.json").read_bytes()
    columns = [name for name in SCHEMA.names if name != "cpu_us"]
    one, two = (folder.read(of, (0, 200), columns).sort_by("seed") for of in (copy, expected))
    assert one.num_rows == 200 and one.equals(two)


@pytest.mark.parametrize("master", ["connect", "local-cluster[2,1,1024]"])
def test_an_index_is_rebuilt_alike(master: str, s3: str, home: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The objects are in a bucket. Killed before it has ended, the rebuild goes on."""
    url, place = request.getfixturevalue("connect") if master == "connect" else master, f"{s3}/index"
    client = boto(os.environ["AWS_ENDPOINT_URL"])
    for number in range(60):
        made = block(number, at_s=number * 1_000, tenant=("acme", "zeta")[number % 2], level=1)
        key = block_path(made.shard, made.string_table[made.tenant], made.id, 1)
        client.put_object(Bucket="rows", Key=f"index/{key}", Body=b"data" + footer(made))
    code, *said = called("index", "rebuild", place, "--out", tmp_path / "here", "--jobs", 1)
    assert code == 0, said
    words = [sys.executable, "-m", "highwater", "index", "rebuild", place, "--out", tmp_path / "there", "--engine", "spark",
             "--master", url]
    for _ in range(2):
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
            while not (tmp_path / "there.work" / "listing.parquet").exists():
                assert driver.poll() is None
                time.sleep(0.05)
            driver.kill()
    code, *said = called(*words[3:])
    assert code == 0 and stream_of(tmp_path / "there") == stream_of(tmp_path / "here"), said


def test_states_are_counted_alike_through_connect(connect: str, tmp_path: Path) -> None:
    counts = [called("model", "explore", "sequenced_write", *words) for words in (
        (), ("--spark", "--master", connect, "--out", tmp_path / "out"))]
    assert counts[0][0] == counts[1][0] == 0, counts
    first, second = (next(line for line in text.splitlines() if "states" in line) for _, text, _ in counts)
    assert first.split("states")[0] == second.split("states")[0]


def test_traces_are_judged_alike_through_connect(connect: str, tmp_path: Path) -> None:
    with Export(tmp_path / "traces.parquet") as export:
        many(map(Run, range(40)), export.outcome)
    verdicts = []
    for name, words in (("here", ()), ("there", ("--spark", "--master", connect))):
        out = tmp_path / f"{name}.parquet"
        code, *said = called("trace", "check", tmp_path / "traces.parquet", "--out", out, *words)
        assert code == 0, said
        verdicts.append(pq.read_table(out))
    assert verdicts[0].num_rows == 40 and verdicts[0].equals(verdicts[1])


def test_queries_are_answered_alike_through_connect(connect: str, expected: Path) -> None:
    sql = "SELECT kind, count(*) AS n, min(seed) AS first FROM runs GROUP BY kind ORDER BY kind"
    answers = [called("campaign", "sql", expected, sql, "--csv", *words) for words in (
        (), ("--engine", "spark", "--master", connect))]
    assert answers[0][0] == answers[1][0] == 0, answers
    assert answers[0][1].splitlines()[0] == "kind,n,first" and len(answers[0][1].splitlines()) == 3
    assert answers[1][1] == answers[0][1]
