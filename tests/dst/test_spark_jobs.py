"""Jobs on Spark are described and tagged, end without the jobs of others, and fail with one line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from highwater.dst.bulk.export import Export
from highwater.dst.campaign.what import NoSpark
from highwater.dst.run_spec import Run
from highwater.dst.simulate import many
from highwater.dst.spark import session, tasks
from highwater.dst.spark.session import SessionOptions
from highwater.gate.exits import BAD_INPUT
from tests.support.projects import highwater

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import json, os, sys, threading, time
from pathlib import Path
from highwater.dst.bulk import engines
from highwater.dst.bulk.checking import Asked
from highwater.dst.bulk.sources import plan
from highwater.dst.campaign.what import CampaignError, Work, campaign_of
from highwater.dst.spark import bulk, engine, saving, tasks
from highwater.dst.spark.session import SessionOptions, session
from highwater.dst.spark.shipping import shipped
from highwater.dst.version import code_version

given = ("spark.sql.shuffle.partitions", "3"), ("spark.task.maxFailures", "1")
options = SessionOptions(2, conf=given, name="highwater test")
with session(options) as spark:
    context, said = spark.sparkContext, {}
    said["settings"] = [context.appName, *map(context.getConf().get, (
        "spark.sql.shuffle.partitions", "spark.task.maxFailures", "spark.driver.bindAddress", "spark.port.maxRetries",
        "spark.ui.showConsoleProgress"))]
    said["ui"] = context.uiWebUrl
    said["java"] = context._gateway.proc.pid

    def slow(batches):
        import os, time
        while not os.path.exists(place):
            time.sleep(0.1)
        yield from batches

    users, ended, place = [], threading.Event(), os.path.abspath("go")
    def of_user():
        context.setJobDescription("the user's")
        try:
            users.append(spark.range(0, 1, 1, 1).mapInArrow(slow, "id long").count())
        finally:
            ended.set()
    other = threading.Thread(target=of_user)
    other.start()
    time.sleep(1)
    context.setJobDescription("my cell")
    spark.addTag("mine")
    campaign = campaign_of("baseline")
    of_session, wave = engine.OfSession(spark), "campaigns/one/rows/wave={}"
    for number, low in enumerate((0, 20)):
        os.makedirs(wave.format(number))
        of_session(Work(campaign, 60), [(low, low + 10), (low + 10, low + 20)], Path(wave.format(number)), lambda done: None)
    work = engines.work_of(plan(["traces.parquet"]), 2, Asked())
    verdicts = bulk.check(spark, work)
    said["runs"] = verdicts.num_rows
    try:
        bulk.check(spark, work._replace(splits=[work.splits[0]._replace(low="none")]))
    except Exception as error:
        said["error"] = str(error)
    said["user's job goes on"] = not ended.is_set()
    Path(place).touch()
    other.join()
    said["user's job"] = users
    said["after"] = context.getLocalProperty("spark.job.description"), sorted(spark.getTags())
    out, to = Path("campaigns/one"), saving.SaveOptions("table")
    said["saved"] = []
    for shared in (True, False):
        saving.save_waves(spark, campaign, out, "one", to, shared)
        rows = spark.read.parquet("table").orderBy("seed").collect()
        said["saved"].append([(row.seed, row.protocol, row.campaign, row.wave) for row in rows])
        (out / "saved.json").unlink()
    saving.save_waves(spark, campaign, out, "two", to, True)
    said["campaigns"] = [row["count"] for row in spark.read.parquet("table").groupBy("campaign").count().collect()]
    saving.save_verdicts(spark, verdicts, saving.SaveOptions("verdicts"))
    said["verdicts"] = spark.read.parquet("verdicts").where("protocol = 'sequenced_metadata_boundary'").count()
    for options in (saving.SaveOptions("verdicts"), saving.SaveOptions("other", "delta")):
        try:
            saving.save_verdicts(spark, verdicts, options)
        except CampaignError as error:
            said["saved"].append(str(error))
    jobs = context._jsc.sc().statusStore().jobsList(None)
    said["jobs"] = [(job.description().getOrElse(None), job.jobTags().mkString(";"))
                    for job in (jobs.apply(i) for i in range(jobs.size()))]
    said["listens"] = sorted({line.split()[1].split(":")[0] for kind in ("tcp", "tcp6")
                              for line in open(f"/proc/{said['java']}/net/{kind}").read().splitlines()[1:]
                              if line.split()[3] == "0A" and line.split()[9] in {
                                  os.readlink(f"/proc/{said['java']}/fd/{fd}")[8:-1] for fd in
                                  os.listdir(f"/proc/{said['java']}/fd")}})
    print(json.dumps(said))
"""
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}  # in the kernel's notation


def test_jobs_are_described_and_spare_the_users_job(home: str, tmp_path: Path) -> None:
    """One session, with the settings of a test's file of Spark but for its UI, runs all of it."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/spark-defaults.conf").write_text("spark.port.maxRetries 77\nspark.sql.shuffle.partitions 5\n"
                                                       "spark.ui.showConsoleProgress true\n")
    with Export(tmp_path / "traces.parquet") as export:
        many(map(Run, range(4)), export.outcome)
    done = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": str(ROOT), "SPARK_CONF_DIR": str(tmp_path / "conf"),
                                            "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["settings"] == ["highwater test", "3", "1", "127.0.0.1", "77", "false"]
    assert said["ui"].startswith("http://127.0.0.1:") or said["ui"].startswith("http://localhost:")
    assert set(said["listens"]) <= LOOPBACK and len(said["listens"]) >= 1
    assert said["user's job goes on"] and said["user's job"] == [1] and said["after"] == ["my cell", ["mine"]]
    assert said["runs"] == said["verdicts"] == 4
    *saved, there, without = said["saved"]
    assert saved == [[[seed, "baseline", "one", seed // 20] for seed in range(40)]] * 2 and said["campaigns"] == [40, 40]
    assert "PATH_ALREADY_EXISTS" in there and "DATA_SOURCE_NOT_FOUND" in without and "\n" not in there + without
    described = {what for what, _ in said["jobs"]}
    assert {"the user's", "campaign baseline, wave 1, seeds 0 to 20", "campaign baseline, wave 2, seeds 20 to 40",
            "trace check, 1 splits"} <= described
    assert all(what.replace(",", "") in tags for what, tags in said["jobs"] if what not in ("the user's", "my cell"))
    assert all("mine" in tags for what, tags in said["jobs"] if what.startswith(("campaign", "trace")))
    line, _, file = said["error"].partition(" (all of it: ")
    assert line.startswith("Spark: TypeError: ") and "\n" not in said["error"]
    assert "Traceback" in Path(file.removesuffix(")")).read_text()


JAVAS = ("An error occurred while calling o1.collect.\n: org.apache.spark.SparkException: Job aborted\n\tat a.b(c.scala:1)\n",
         "Caused by: java.io.IOException: disk\n\tat x.y(z.java:2)\nCaused by: java.lang.Error: no space left\n\tat x\n")
ABORTED = "org.apache.spark.SparkException: Job aborted; caused by java.lang.Error: no space left"
PYTHONS = ": org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File \"a.py\", line 1\n    x\n"


@pytest.mark.parametrize("text, line", [
    (JAVAS[0], "org.apache.spark.SparkException: Job aborted"), ("".join(JAVAS), ABORTED),
    (f"{PYTHONS}ValueError: a\nb\n\n\tat a.b(c.scala:1)\n", "ValueError: a"), (f"{PYTHONS}Odd: c\n{JAVAS[1]}", "Odd: c"),
    ("[NO_ROWS] a message\nmore", "[NO_ROWS] a message"), ("one line\n", "one line"), ("", "Exception"),
])
def test_failure_is_one_line_and_names_a_file(text: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = str(tasks.failure(Exception(text)))
    files = [*tmp_path.iterdir()]
    assert found == f"Spark: {line}" + "".join(f" (all of it: {file})" for file in files)
    assert [file.read_text() for file in files] == [text] * ("\n" in text.strip())


def test_session_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def settings(*_: object) -> None:
        raise ValueError("An error occurred while calling None.x.\n: java.lang.IllegalArgumentException: why\n\tat a.b(c:1)")

    monkeypatch.setattr(session, "settings", settings)
    with pytest.raises(NoSpark, match=r"^Spark does not start \(local\[1\]\): "
                                      r"java.lang.IllegalArgumentException: why \(all of it: .*\.txt\)$"):
        session.start_spark(SessionOptions(1))


@pytest.mark.parametrize("verb", [
    "campaign run --seeds 0:1 --out x", "campaign triage x", "campaign sql x SELECT --engine spark", "trace check x --spark",
    "model explore sequenced_write --spark", "index rebuild x --out y --engine spark", "index report x --engine spark",
    "index check x --snapshot y --engine spark", "index story --engine spark",
])
@pytest.mark.parametrize("conf, said", [("spark.x", "--conf spark.x: write NAME=VALUE"), ("x=y", "NAME begins with spark.")])
def test_conf_that_is_no_setting_is_refused(verb: str, conf: str, said: str, tmp_path: Path,
                                            monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text("")
    code, _, err = highwater(*verb.split(), "--conf", conf)
    assert code == BAD_INPUT and said in err, err


def test_conf_is_for_spark() -> None:
    for verb in ("campaign run --seeds 0:1 --out x --engine local", "index report x", "campaign sql x SELECT",
                 "model explore sequenced_write"):
        code, _, err = highwater(*verb.split(), "--conf", "spark.a=b")
        assert code == BAD_INPUT and "--conf is for Spark" in err, err


def test_session_options_keep_all_settings() -> None:
    from highwater.cli.on_spark import session_options

    assert session_options("a b", True, 3, "yarn", ["spark.x=y=z", "spark.e="]) == SessionOptions(
        3, "yarn", (("spark.x", "y=z"), ("spark.e", "")), "highwater a b")
