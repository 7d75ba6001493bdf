"""Campaigns in a bucket: the same rows and summary as in a folder, whoever is killed, and a line for each bad input."""

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.dst.campaign import processes, waves
from highwater.dst.campaign import rows as ranges
from highwater.dst.campaign.bucket.copy import fetched
from highwater.dst.campaign.bucket.driver import Bucket
from highwater.dst.campaign.bucket.journal import Fenced
from highwater.dst.campaign.bucket.parts import ATTEMPTS, Parts, bucket_of
from highwater.dst.campaign.folder import Asked, read
from highwater.dst.campaign.place import Folder, Part
from highwater.dst.campaign.what import CampaignError, Refused, Seeds, campaign_of
from highwater.gate import exits
from highwater.impl.stores.s3 import connect
from highwater.servers.s3 import CREDENTIALS
from tests.support.stores.lossy_proxy import CUT, DROP, Fate, lossy_proxy
from tests.support.stores.s3_servers import s3_server

SCENARIO = "sequenced_write"
CAMPAIGN, MUTANT = campaign_of(SCENARIO), campaign_of("sequenced_metadata_boundary", "no_check")
SEEDS = (0, 120)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server("moto") as url:
        yield url


@pytest.fixture
def url(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A new prefix, and a cache of this test's own."""
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": server, "XDG_CACHE_HOME": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    bucket = re.sub(r"\W", "-", tmp_path.name.lower()).replace("_", "-")[-40:].strip("-") + "-b"
    connect(server).create_bucket(Bucket=bucket)
    return f"s3://{bucket}/some/campaign"


@pytest.fixture(scope="module")
def local() -> Iterator:
    with processes.local_engine(2) as engine:
        yield lambda: nullcontext(engine)


def rows(out: Path, seeds: Seeds = SEEDS) -> list[dict]:
    return read(out, seeds, ranges.SCHEMA.names).drop_columns(["cpu_us"]).sort_by("seed").to_pylist()


def called(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["campaign", *map(str, words)])
    return result.exit_code, result.output


def objects(url: str) -> dict[str, bytes]:
    (bucket, prefix), client = bucket_of(url), connect()
    found = client.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/").get("Contents", ())
    there = {}
    for one in found:
        with suppress(client.exceptions.NoSuchKey):  # a driver that runs has deleted it meanwhile
            there[one["Key"]] = client.get_object(Bucket=bucket, Key=one["Key"])["Body"].read()
    return there


def parts_in(url: str) -> list[str]:
    bucket, prefix = bucket_of(url)
    found = connect().list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/rows/").get("Contents", ())
    return [one["Key"] for one in found]


def at(url: str, key: str) -> dict[str, str]:
    bucket, prefix = bucket_of(url)
    return {"Bucket": bucket, "Key": key if key.startswith(prefix) else f"{prefix}/{key}"}


def run(url: str, local, campaign=CAMPAIGN, seeds: Seeds = SEEDS) -> tuple[Bucket, dict]:
    place = Bucket(url)
    return place, waves.run(campaign, Asked(seeds, 0, 10), place, local, 2).summary


@pytest.mark.parametrize("campaign", [CAMPAIGN, MUTANT], ids=["implementation", "mutant"])
def test_rows_and_summary_are_those_of_a_folder(url, local, tmp_path, campaign):
    place, summary = run(url, local, campaign)
    folder = waves.run(campaign, Asked(SEEDS, 0, 7), Folder(tmp_path / "folder"), local, 1).summary
    assert summary == folder and rows(place.out) == rows(tmp_path / "folder")
    assert bool(summary["failures"]) == (campaign is MUTANT)
    again, same = run(url, local, campaign, (0, 140))
    assert same["runs"] == 140 and rows(again.out) == rows(tmp_path / "folder")  # only what was missing is run


def test_commands_take_the_url(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text = called("run", "--scenario", MUTANT.scenario, "--mutant", "no_check", "--seeds", "0:60", "--out", url,
                        "--engine", "local", "--jobs", 1, "--range-size", 20)
    assert code == exits.SAFETY and f"rows and summary: {url}" in text
    seed = int(re.search(r"told:committed +.? *\d+ +.? *(\d+)", text)[1])
    code, text = called("status", url)
    assert code == 0 and "seeds 0:60: done; 60 have rows, 0 are left" in text
    assert json.loads(called("status", url, "--json")[1])["running"] is None
    assert called("replay", url, seed)[0] == exits.SAFETY
    assert "60" in called("sql", url, "SELECT count(*) FROM runs")[1]
    assert called("views", url)[0] == 0
    assert called("report", url)[0] == 0 and (tmp_path / "report.html").is_file()
    code, text = called("triage", url, "--jobs", 1, "--budget", 20)
    assert code == exits.SAFETY and "--shrunk" in text
    code, text = called("resume", url, "--engine", "local", "--jobs", 1)
    assert code == exits.SAFETY and "60 runs of" in text
    assert called("tidy", url)[1].strip() == "0 parts of epochs before 2, 0 bytes: deleted"


def test_a_copy_made_before_the_bucket_was_emptied_is_not_used(url, local):
    place, _ = run(url, local, seeds=(0, 20))
    for key in objects(url):
        connect().delete_object(**at(url, key))
    code, text = called("status", url)
    assert code == exits.BAD_INPUT and "holds no campaign" in text
    again, _ = run(url, local, campaign_of("baseline"), (0, 10))
    assert again.out != place.out and len(rows(again.out)) == 10


def test_a_killed_driver_loses_nothing_and_what_it_left_is_tidied(url, local, tmp_path):
    words = [sys.executable, "-m", "highwater", "campaign", "run", "--scenario", SCENARIO, "--seeds", "0:2000", "--out", url,
             "--engine", "local", "--jobs", "1", "--range-size", "20"]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        ended = time.monotonic() + 120
        while len(parts_in(url)) < 13:  # the first wave has five parts
            assert driver.poll() is None and time.monotonic() < ended
            time.sleep(0.05)
        driver.send_signal(signal.SIGKILL)
    connect().put_object(**at(url, f"rows/{1:020d}/1980-2000-left.parquet"), Body=b"as a worker left it")
    assert called("tidy", url)[1].startswith("0 parts")  # the killed driver's epoch is the latest: it might go on
    code, text = called("status", url)
    assert code == 0 and re.search(r"not done; [1-9]\d*00 have rows", text)
    place, summary = run(url, local, seeds=(0, 260))
    assert summary["runs"] == 260 and not summary["failures"]
    waves.run(CAMPAIGN, Asked((0, 260), 0, 50), Folder(tmp_path / "folder"), local, 2)
    assert rows(place.out, (0, 260)) == rows(tmp_path / "folder", (0, 260))
    named = {part.name for part in place.journal.state.parts}
    left = {key for key in parts_in(url) if not any(key.endswith(name) for name in named)}
    assert any(key.endswith("left.parquet") for key in left)
    code, text = called("tidy", url, "--dry-run")
    assert f"{len(left)} parts of epochs before 2" in text and "would be deleted" in text and set(objects(url)) >= left
    assert "deleted" in called("tidy", url)[1] and not set(objects(url)) & left
    assert summary == run(url, local, seeds=(0, 260))[1]


def test_a_second_driver_ends_the_first(url, local):
    engines, first = [], Bucket(url)

    def starts_another(work, cut, target, progress) -> list[Part]:
        with local() as engine:
            parts = engine(work, cut, target, progress)
        if not engines:
            engines.append(1)
            run(url, local, seeds=(0, 40))
        return parts

    with pytest.raises(Fenced, match=r"another driver has taken over \(epoch 2; this one had 1\)"):
        waves.run(CAMPAIGN, Asked((0, 60), 0, 10), first, lambda: nullcontext(starts_another), 1)
    state = Bucket(url).journal
    assert called("status", url)[1].startswith(f"{SCENARIO}, seeds 0:40: done; 40 have rows") and not state.entries


def test_a_part_that_is_gone_or_damaged_is_run_again(url, local, tmp_path):
    place, summary = run(url, local)
    gone, damaged = place.journal.state.parts[0], place.journal.state.parts[3]
    connect().delete_object(**at(url, gone.name))
    connect().put_object(**at(url, damaged.name), Body=b"PAR1")
    assert called("status", url)[0] == 0  # the copy has them
    os.environ["XDG_CACHE_HOME"] = str(tmp_path / "other")
    code, text = called("status", url)
    assert code == exits.HARNESS and f"2 parts of {url} are gone or damaged" in text and f"campaign resume {url}" in text
    assert called("resume", url, "--engine", "local", "--jobs", 1)[0] == 0
    again, same = run(url, local)
    assert same == summary and rows(again.out) == rows(place.out) and called("status", url)[0] == 0


def test_a_copied_prefix_is_a_campaign_of_its_own(url, local):
    run(url, local, seeds=(0, 20))
    for key, body in objects(url).items():
        connect().put_object(**at(url, key.replace("some/campaign/", "some/campaign/copied/")), Body=body)
    run(f"{url}/copied", local, seeds=(0, 40))
    assert "seeds 0:20: done" in called("status", url)[1] and "seeds 0:40: done" in called("status", f"{url}/copied")[1]


@pytest.mark.parametrize("fate", [Fate(apply=False, answer=500), Fate(apply=True, answer=500), Fate(apply=True)],
                         ids=["lost", "reply lost", "none"])
def test_a_part_is_put_until_it_is_there(url, server, fate):
    with lossy_proxy(server) as proxy:
        proxy.next("PUT", fate)
        table = ranges.run_range(processes.Work(CAMPAIGN, 60), (0, 2))
        part = Parts(url, proxy.url, 7).put(table, (0, 2))
    assert part.name.startswith("rows/00000000000000000007/0-2-")
    assert [key.rpartition("some/campaign/")[2] for key in objects(url)] == [part.name]
    body = connect(server).get_object(**at(url, part.name))["Body"].read()
    assert len(body) == part.size and pq.read_table(io.BytesIO(body)).num_rows == 2


@pytest.mark.parametrize("answer", [503, DROP, CUT])
def test_reads_are_sent_as_often_as_puts(url, server, local, monkeypatch, answer):
    monkeypatch.setattr("highwater.impl.stores.s3.PAUSE_S", 0)
    place, _ = run(url, local, seeds=(0, 20))
    with lossy_proxy(server) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        for method in ("GET", "HEAD"):
            proxy.next(method, *[Fate(answer=answer)] * (ATTEMPTS - 1))
        code, text = called("status", url)
        assert code == 0 and "seeds 0:20: done; 20 have rows" in text and len(proxy.seen) > ATTEMPTS, text
        assert rows(fetched(url), (0, 20)) == rows(place.out, (0, 20))


def test_busy_store_that_cuts_replies_ends_no_campaign(url, server, local, tmp_path, monkeypatch):
    """15 % of the requests are answered with 503, applied or not, and the replies to 7.5 % are cut off."""
    drawn = Random(6)
    fates = [*[Fate(answer=503, code="SlowDown"), Fate(apply=False, answer=503, code="SlowDown")] * 15,
             *[Fate(answer=DROP), Fate(answer=CUT), Fate(apply=False, answer=DROP)] * 5]

    def fate_of(method: str) -> Fate:
        number = drawn.randrange(200)
        return fates[number] if number < len(fates) else Fate()

    monkeypatch.setattr("highwater.impl.stores.s3.PAUSE_S", 0.01)
    with lossy_proxy(server) as proxy:
        proxy.fate_of = fate_of
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        code, text = called("run", "--scenario", MUTANT.scenario, "--mutant", "no_check", "--seeds", "0:120", "--out", url,
                            "--engine", "local", "--jobs", 1, "--range-size", 4)
        assert code == exits.SAFETY, text
        assert called("status", url)[0] == 0
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    waves.run(MUTANT, Asked(SEEDS, 0, 30), Folder(tmp_path / "folder"), local, 1)
    assert rows(fetched(url)) == rows(tmp_path / "folder") and len(rows(fetched(url))) == 120
    assert not [key for key in objects(url) if "probe" in key]


def test_a_store_that_never_takes_a_part_is_an_error(url, server, monkeypatch):
    monkeypatch.setattr("highwater.dst.campaign.bucket.parts.PAUSE_S", 0)
    says = "the rows of seeds 0 to 1 cannot be put: .*InternalError"
    with lossy_proxy(server) as proxy, pytest.raises(CampaignError, match=says):
        proxy.next("PUT", *[Fate(apply=False, answer=403)] * 30)
        Parts(url, proxy.url, 7).put(ranges.run_range(processes.Work(CAMPAIGN, 60), (0, 2)), (0, 2))


# --- bad input

@pytest.mark.parametrize(("given", "says"), [("s3://", "is no bucket: write s3://BUCKET/PREFIX"),
                                             ("s3:///x", "is no bucket: write s3://BUCKET/PREFIX"),
                                             ("s3://no-such-bucket/x", "bucket")])
@pytest.mark.parametrize("words", [("status",), ("run", "--scenario", SCENARIO, "--seeds", "0:5", "--engine", "local", "--out"),
                                   ("tidy",), ("resume",), ("report",)], ids=lambda words: words[0])
def test_a_bad_url_is_a_line(url, words, given, says):
    code, text = called(*words, given)
    assert code in (exits.BAD_INPUT, exits.HARNESS) and says in text and "Traceback" not in text and len(text.splitlines()) == 1


def test_a_bucket_with_another_campaign_or_none_is_a_line(url, local):
    assert called("status", url) == (exits.BAD_INPUT, f"{url} holds no campaign: it has no campaign/{1:020d}.campaign\n")
    assert called("tidy", url) == (exits.BAD_INPUT, f"{url} holds no campaign\n")
    run(url, local, seeds=(0, 10))
    code, text = called("run", "--scenario", "baseline", "--seeds", "0:5", "--out", url, "--engine", "local")
    assert code == exits.BAD_INPUT
    assert "holds another campaign (scenario 'sequenced_write', not 'baseline'): give a new prefix" in text
    with pytest.raises(Refused, match="give a new prefix"):
        run(url, local, MUTANT)


def test_a_store_that_ignores_conditions_is_refused_at_the_start(url, monkeypatch):
    with s3_server("moto-plain") as plain:
        monkeypatch.setenv("AWS_ENDPOINT_URL", plain)
        connect(plain).create_bucket(Bucket="plain")
        code, text = called("run", "--scenario", SCENARIO, "--seeds", "0:5", "--out", "s3://plain/x", "--engine", "local")
        assert code == exits.BAD_INPUT and "does not create an object only if there is none (create_" in text
        assert objects("s3://plain/x") == {}


def test_a_bucket_without_rights_to_write_is_refused_at_the_start(url, server, monkeypatch):
    with lossy_proxy(server) as proxy:
        proxy.next("PUT", *[Fate(apply=False, answer=403)] * 1_000)
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url)
        code, text = called("run", "--scenario", SCENARIO, "--seeds", "0:5", "--out", url, "--engine", "local")
    monkeypatch.setenv("AWS_ENDPOINT_URL", server)
    assert code == exits.BAD_INPUT and "cannot be used: PUT If-None-Match" in text and "403" in text and objects(url) == {}
