"""Work on Spark gives the same results through Spark Connect and on `local-cluster`, whose workers are separate processes.

Each test starts a program, because a process has one Spark session.
"""

import os
import random
import shutil
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
from highwater.dst.spark.session import HERE, REPORTS
from highwater.gate.exits import BAD_INPUT, SAFETY
from highwater.impl.codecs.index.footer import footer
from highwater.impl.codecs.index.names import block_path
from highwater.impl.stores.s3 import connect as boto
from highwater.servers.s3 import CREDENTIALS
from tests.dst.test_deaths import DIES, HARMLESS, RAISES
from tests.highwater.test_spark_library import library
from tests.support.metadata_index import block, stream_of
from tests.support.projects import planted, with_data
from tests.support.stores.s3_servers import s3_server

ROOT = Path(__file__).resolve().parents[2]
MUTANT = ("--scenario", "sequenced_metadata_boundary", "--mutant", "age_ignored", "--seeds", "0:200")
DEADLY = ("--seeds", "0:150", "--seed-limit-s", 1)
LONGEST_S = 120  # for a server to start
OTHER_PYTHONS = [python for minor in range(11, 15) if (python := shutil.which(f"python3.{minor}"))
                 and subprocess.run([python, "-c", REPORTS], capture_output=True, text=True).stdout.strip() not in ("", HERE)]


def called(*words: object, cwd: Path = ROOT) -> tuple[int, str, str]:
    """The exit code, stdout, stderr."""
    done = subprocess.run([sys.executable, "-m", "highwater", *map(str, words)], cwd=cwd, capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(ROOT)})
    return done.returncode, done.stdout, done.stderr


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


DRAWN = [way for way in random.Random(52).sample([*RAISES, *DIES, *HARMLESS], 9)] + ["while True: swallow()"]


@pytest.fixture(scope="module")
def deadly(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, str]]:
    """A project whose runs end in ten ways, and what `dst run` says of each of its seeds."""
    cases = "".join(f"{'el' * bool(n)}if self.world.clock.now_ms() % 97 == {n + 3}:\n            {way}\n        "
                    for n, way in enumerate(DRAWN))
    project = planted(tmp_path_factory.mktemp("deadly") / "p", "impl", cases)
    code, out, err = called("dst", "run", "--digests", *DEADLY, "--project", project)
    said = {int(seed): f"{signature} {digest}" for seed, signature, digest in (line.split(" ") for line in out.splitlines())}
    assert code == SAFETY and [*said] == [*range(150)], err
    assert {text.partition(":")[0].partition(" ")[0] for text in said.values()} == {"ok", "exception", "death", "timeout"}
    return project, said


@pytest.mark.parametrize("engine", ["local[2]", *(pytest.param(of, marks=pytest.mark.slow)
                                                  for of in ("local", "local-cluster[2,1,1024]"))])
def test_campaign_of_deadly_seeds_has_the_rows_of_dst_run(engine: str, home: str, deadly: tuple[Path, dict[int, str]],
                                                          tmp_path: Path) -> None:
    """A task of local[2] has one attempt, so no seed may end it."""
    project, said = deadly
    where = ["--engine", "local"] if engine == "local" else ["--master", engine]
    out = tmp_path / "out"
    code, *told = called("campaign", "run", *DEADLY, *where, "--range-size", 40, "--project", project, "--out", out)
    assert code == SAFETY, told
    found = folder.read(out, (0, 150), ["seed", "signature", "digest"]).to_pylist()
    assert {row["seed"]: f"{row['signature'] or 'ok'} {row['digest']}" for row in found} == said and len(found) == 150


@pytest.mark.parametrize("master", ["connect", pytest.param("local-cluster[2,1,1024]", marks=pytest.mark.slow)])
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


@pytest.mark.parametrize("master", ["connect", pytest.param("local-cluster[2,1,1024]", marks=pytest.mark.slow)])
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
    """Their paths are relative, and the workers have another working folder."""
    with Export(tmp_path / "traces.parquet") as export:
        many(map(Run, range(40)), export.outcome)
    (tmp_path / "nothing.ndjson").write_text("nothing\n")
    verdicts = []
    for name, words in (("here", ()), ("there", ("--spark", "--master", connect))):
        out = tmp_path / f"{name}.parquet"
        code, *said = called("trace", "check", "traces.parquet", "./nothing.ndjson", "--out", out, *words, cwd=tmp_path)
        assert code == BAD_INPUT, said
        verdicts.append(pq.read_table(out))
    assert verdicts[0].num_rows == 41 and verdicts[0].equals(verdicts[1])


def test_library_through_connect(connect: str, home: str, tmp_path: Path) -> None:
    library(tmp_path, home, [connect])


PROGRAM = """
import os, sys
from pathlib import Path
from highwater import project
from highwater.dst.bulk import engines
from highwater.dst.bulk.checking import Asked
from highwater.dst.bulk.rows import BadInput
from highwater.dst.bulk.sources import plan
from highwater.dst.campaign import folder
from highwater.dst.campaign.rows import SCHEMA, run_range
from highwater.dst.campaign.what import CampaignError, Work, campaign_of
from highwater.dst.spark import bulk, engine, shipping
from highwater.dst.spark.session import SessionOptions, session, slots
work = engines.work_of(plan(["traces.parquet"]), 2, Asked())
project.use("project")
os.makedirs("out/rows")
campaign, columns = campaign_of("register"), [name for name in SCHEMA.names if name != "cpu_us"]
expected, packed = run_range(Work(campaign, 60), (0, 20)).select(columns), shipping.sources()
with session(SessionOptions(2, "local[2]")) as spark:
    bulk.check_visible(spark, work)
    print(bulk.check(spark, work).num_rows, slots(spark), os.path.exists("ran"), flush=True)
    shipping.sources = lambda: packed
    os.rename("project", "moved")
    engine.OfSession(spark)(Work(campaign, 60), [(0, 12), (12, 20)], Path("out/rows"), lambda done: None)
    print(folder.read(Path("out"), (0, 20), columns).sort_by("seed").equals(expected), flush=True)
    os.rename("moved", "project")
    os.unlink("traces.parquet")
    try:
        bulk.check_visible(spark, work)
    except BadInput as error:
        print(error, flush=True)
    for python in sys.argv[1:]:
        spark.sparkContext.pythonExec = python
        try:
            bulk.check(spark, work)
        except CampaignError as error:
            print(error, flush=True)
"""


def test_workers_run_what_is_sent_by_the_python_that_is_set(home: str, tmp_path: Path) -> None:
    """One session runs all of it. Workers do not see the folder of the project, whose implementation reads a data file. They
    look for the traces, and one that is gone is named. Another Python is named, too."""
    python, conf = tmp_path / "python", tmp_path / "conf"
    python.write_text(f"#!/bin/sh\n[ $1 = -c ] || touch {tmp_path / 'ran'}\nexec {sys.executable} \"$@\"\n")
    python.chmod(0o755)
    conf.mkdir()
    (conf / "spark-defaults.conf").write_text(f"spark.pyspark.python {python}\n")
    with_data(tmp_path)
    with Export(tmp_path / "traces.parquet") as export:
        many(map(Run, range(4)), export.outcome)
    done = subprocess.run([sys.executable, "-c", PROGRAM, *OTHER_PYTHONS, "/no/python"], cwd=tmp_path, capture_output=True,
                          text=True, env=os.environ | {"PYTHONPATH": str(ROOT), "SPARK_CONF_DIR": str(conf),
                                                       "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    first, same, lost, *others, none = done.stdout.splitlines()
    assert (first, same) == ("4 2 True", "True")
    assert (tmp_path / f"highwater-{os.geteuid()}").is_dir()
    assert lost.startswith(f"{tmp_path / 'traces.parquet'}: the worker on ") and "put the traces into a folder" in lost
    assert len(others) == len(OTHER_PYTHONS) and all(line.startswith("Spark's workers run Python 3.") for line in others)
    assert none.startswith("Spark's workers have no /no/python: set PYSPARK_PYTHON to a Python ")


def test_queries_are_answered_alike_through_connect(connect: str, expected: Path) -> None:
    sql = "SELECT kind, count(*) AS n, min(seed) AS first FROM runs GROUP BY kind ORDER BY kind"
    answers = [called("campaign", "sql", expected, sql, "--csv", *words) for words in (
        (), ("--engine", "spark", "--master", connect))]
    assert answers[0][0] == answers[1][0] == 0, answers
    assert answers[0][1].splitlines()[0] == "kind,n,first" and len(answers[0][1].splitlines()) == 3
    assert answers[1][1] == answers[0][1]
