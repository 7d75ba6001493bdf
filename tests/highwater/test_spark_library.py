"""The library for sessions of one's own, the example notebook and the file for spark-submit.

Each test starts a program, because a process has one Spark session. The workers of a cluster have an environment without
highwater, whose Python has another path than the driver's.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pyspark
import pytest

from highwater.dst.campaign import folder
from highwater.dst.spark.bulk import ROWS
from highwater.gate.exits import BAD_INPUT, SAFETY
from highwater.spark import submit
from tests.support.installed import empty, once, with_links
from tests.support.projects import REGISTER

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples/spark/traces.ipynb"
CLUSTER = "local-cluster[2,1,1024]"
NEEDED = ["numpy", "google-re2", "protobuf", "python-ulid", "rich", "typer", "xxhash", "zstandard", "pyarrow", "pandas"]
HIGHWATER = [sys.executable, "-m", "highwater"]
SPARK_SUBMIT = Path(pyspark.__file__).parent / "bin/spark-submit"


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python that has what a run needs, and not highwater."""
    def make(place: Path) -> None:
        with_links(empty(place / "venv"), NEEDED)

    return once(tmp_path_factory, "workers", make) / "venv/bin/python"


def program(tmp_path: Path, home: str, words: list[object], **more: str) -> subprocess.CompletedProcess:
    return subprocess.run(list(map(str, words)), cwd=tmp_path, capture_output=True, text=True, timeout=3_000,
                          env=os.environ | {"PYTHONPATH": str(ROOT), "JAVA_HOME": home, "TMPDIR": str(tmp_path),
                                            "SPARK_LOCAL_IP": "127.0.0.1", **more})


def of_cluster(workers: Path) -> dict[str, str]:
    """The environment of a driver whose session is a cluster of these workers."""
    return {"PYSPARK_SUBMIT_ARGS": f"--master {CLUSTER} --conf spark.task.maxFailures=1 pyspark-shell",
            "PYSPARK_PYTHON": str(workers), "PYSPARK_DRIVER_PYTHON": sys.executable}


LIBRARY = """
import json, os, sys
from pathlib import Path
from pyspark.sql import SparkSession
from pyspark.sql.functions import timestamp_millis
from highwater.spark import campaign, check_traces

spark = SparkSession.builder.getOrCreate() if len(sys.argv) < 2 else SparkSession.builder.remote(sys.argv[1]).getOrCreate()
settings = lambda: sorted((name, value) for name, value in spark.conf.getAll.items())
before, said = settings(), {}

def refusal(*words, **more):
    try:
        (campaign if isinstance(words[1:2] and words[1], range) else check_traces)(spark, *words, **more)
    except (TypeError, ValueError) as error:
        return str(error)

def rows(frame, *by):
    return [row.asDict(recursive=True) for row in frame.orderBy(*by).collect()]

files = rows(check_traces(spark, ["bad.parquet", "nothing.ndjson"]), "run")
frame = check_traces(spark, spark.read.parquet(Path("bad.parquet").absolute().as_uri()), parts=3)
said["files"], said["frame"], said["again"] = files, rows(frame, "run"), rows(frame, "run")
said["url"] = rows(check_traces(spark, Path("bad.parquet").absolute().as_uri(), explain=False, run="3", parts=1), "run")
said["schema"] = frame.schema.simpleString()
said["damaged"] = rows(check_traces(spark, spark.read.parquet(Path("bad.parquet").absolute().as_uri()).drop("run")
                                    .selectExpr("'' AS run", "*"), parts=1), "run")
said["refusals"] = [refusal("nothing.parquet"), refusal(["bad.parquet", "file:/x"]), refusal(spark.range(3)),
                    refusal("bad.parquet", options="--nothing"), refusal("basline", range(3)), refusal("baseline", range(0)),
                    refusal("baseline", range(3), faults={"late": "x"})]
events = spark.read.parquet(Path("bad.parquet").absolute().as_uri())
said["mistakes"] = [
    refusal(events.withColumn("t_ms", timestamp_millis("t_ms"))), refusal(events.withColumnRenamed("client", "Client")),
    refusal(events, protocol="basline"), refusal(events, options=["--root", "db"]), refusal(events, parts=-1),
    refusal(events, parts="4"), refusal(events.toPandas()), refusal([events, events]), refusal("file:/nope"),
    refusal("nope:/x"), refusal(5), refusal("baseline", range(3), tasks="2"),
    refusal(spark.readStream.format("rate").load())]
said["seeds"] = rows(campaign(spark, "baseline", range(5, 25), tasks=4).drop("cpu_us"), "seed")

impl = Path("project/register/impl.py")
text = impl.read_text()
dies = "        import os; os._exit(0) if self.world.clock.now_ms() % 2 else None\\n"
for name, line in (("first", ""), ("edited", dies)):
    impl.write_text(text.replace("        try:\\n", line + "        try:\\n", 1))
    frame = campaign(spark, "register", range(6), project="project", tasks=2)
    said[name] = [row.kind for row in frame.orderBy("seed").collect()]
said["settings"] = before == settings()
said["alive"] = spark.range(3).count()
print(json.dumps(said))
"""


def library(tmp_path: Path, home: str, words: list[str], **more: str) -> dict:
    """Run the program and check what any session must give."""
    shutil.copytree(REGISTER, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "nothing.ndjson").write_text("nothing\n")
    run = [*HIGHWATER, "dst", "run", "--seeds", "0:6", "--mutant", "no_check", "--traces", "bad.parquet"]
    assert program(tmp_path, home, [*run, "--no-project"]).returncode == SAFETY
    (tmp_path / "library.py").write_text(LIBRARY)
    done = program(tmp_path, home, [sys.executable, "library.py", *words], **more)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    check = [*HIGHWATER, "trace", "check", "bad.parquet", "nothing.ndjson", "--no-project", "--out", "v.parquet"]
    assert program(tmp_path, home, check).returncode == BAD_INPUT
    expected = pq.read_table(tmp_path / "v.parquet").drop(["exit_code"]).to_pylist()
    assert said["files"] == expected and len(expected) == 7
    of_events = [{**row, "explanation": ""} for row in expected if row["run"].isdigit()]
    assert [{**row, "explanation": ""} for row in said["frame"]] == of_events and said["again"] == said["frame"]
    assert all("highwater trace check EVENTS.parquet --run" in row["explanation"] for row in said["frame"])
    assert said["url"] == [row for row in of_events if row["run"] == "3"]
    assert [(row["run"], row["verdict"]) for row in said["damaged"]] == [("DataFrame", "damaged")]
    for text, refusal in zip(("there is no such file", "check them one after the other", "there is no column", "--nothing",
                              "did you mean 'baseline'", "give a range of seeds", "late"), said["refusals"], strict=True):
        assert text in refusal, refusal
    frame = "give one DataFrame of Spark"
    for text, refusal in zip(("column 't_ms' is timestamp", "there is no column client; ", "did you mean 'baseline'",
                              "options is builtins.list", "parts is builtins.int -1: give", "parts is builtins.str '4'",
                              frame, frame, "file:/nope: ", "nope:/x: ", frame, "tasks is builtins.str '2'", "is a stream"),
                             said["mistakes"], strict=True):
        assert text in str(refusal), refusal
    assert [row["seed"] for row in said["seeds"]] == [*range(5, 25)] and {row["kind"] for row in said["seeds"]} == {""}
    assert said["first"] == [""] * 6 and "death" in said["edited"] and len(said["edited"]) == 6
    assert said["settings"] and said["alive"] == 3
    assert said["schema"] == f"struct<{ROWS.replace(', ', ',').replace(' ', ':')}>"
    return said


def test_library_in_a_local_session_runs_edited_code(home: str, tmp_path: Path) -> None:
    library(tmp_path, home, [], PYSPARK_SUBMIT_ARGS="--master local[2] pyspark-shell", PYSPARK_PYTHON=sys.executable)


def test_library_on_a_cluster_of_bare_workers(home: str, workers: Path, tmp_path: Path) -> None:
    library(tmp_path, home, [], **of_cluster(workers))


def test_page_has_the_columns_of_verdicts() -> None:
    page = (ROOT / "docs/guide/spark.md").read_text()
    rows = re.findall(r"^\| ([a-z_, ]+) \| (string|bigint) \|", page, re.MULTILINE)
    assert ", ".join(f"{name} {kind}" for names, kind in rows for name in names.split(", ")) == ROWS


def cells() -> Iterator[str]:
    """Yield the code of the notebook."""
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            assert not cell["outputs"] and cell["execution_count"] is None
            yield "".join(cell["source"])


def test_notebook_explains_a_failure_on_bare_workers(home: str, workers: Path, tmp_path: Path) -> None:
    code = "\n".join(cells())
    (tmp_path / "notebook.py").write_text(code)
    done = program(tmp_path, home, [sys.executable, "notebook.py"], MPLBACKEND="agg", **of_cluster(workers))
    assert done.returncode == 0, done.stderr
    assert "|sequenced_metadata_boundary|failed |40   |" in done.stdout
    assert "|sequenced_write            |ok     |40   |" in done.stdout
    assert "told:committed" in done.stdout and "Replay: highwater trace check EVENTS.parquet --run" in done.stdout


def test_submitted_campaign_has_the_rows_of_processes(home: str, workers: Path, tmp_path: Path) -> None:
    """spark-submit starts the file of the package. Its rows are saved beside the folder, and again after an interruption."""
    mutant = ["--scenario", "sequenced_metadata_boundary", "--mutant", "age_ignored", "--seeds", "0:120"]
    submitted = [SPARK_SUBMIT, "--master", CLUSTER, "--conf", f"spark.pyspark.python={workers}", "--conf",
                 f"spark.pyspark.driver.python={sys.executable}", "--conf", "spark.ui.enabled=false", submit.__file__]
    done = program(tmp_path, home, [*submitted, "campaign", "run", *mutant, "--out", "there/one", "--save", tmp_path / "table",
                                    "--range-size", 30])
    assert done.returncode == SAFETY, done.stderr
    here = program(tmp_path, home, [*HIGHWATER, "campaign", "run", *mutant, "--out", "here", "--engine", "local"])
    assert here.returncode == SAFETY, here.stderr
    columns = ["seed", "signature", "digest"]
    one, two = (folder.read(tmp_path / out, (0, 120), columns).sort_by("seed") for out in ("there/one", "here"))
    assert one.num_rows == 120 and one.equals(two)
    saved = pq.read_table(tmp_path / "table").sort_by("seed")
    assert saved.select(columns).equals(two)
    assert {*saved["protocol"].to_pylist()} == {"sequenced_metadata_boundary"} and {*saved["campaign"].to_pylist()} == {"one"}
    (tmp_path / "there/one/saved.json").unlink()
    (tmp_path / "table/protocol=other").mkdir()
    (tmp_path / "table/protocol=other/x").write_text("")
    resumed = program(tmp_path, home, [*HIGHWATER, "campaign", "resume", "there/one", "--master", "local[2]", "--save",
                                       tmp_path / "table"])
    assert resumed.returncode == SAFETY and "saved: " in resumed.stdout, resumed.stderr
    (tmp_path / "table/protocol=other/x").unlink()
    assert pq.read_table(tmp_path / "table").sort_by("seed").select(columns).equals(two)
