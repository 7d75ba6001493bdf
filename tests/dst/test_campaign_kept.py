"""Campaigns of release 0.1.0: their rows are still read, and what cannot be run again is refused by name."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.dst.campaign import processes, waves
from highwater.dst.campaign.folder import Asked, read_json, write_json
from highwater.dst.campaign.place import Folder
from highwater.dst.campaign.what import campaign_of
from highwater.gate import exits

SCENARIO, SEEDS = "sequenced_metadata_boundary", 24


def called(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["campaign", *map(str, words)])
    return result.exit_code, " ".join(result.output.split())


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("campaigns") / "now"
    waves.run(campaign_of(SCENARIO, "no_check"), Asked((0, SEEDS)), Folder(out), lambda: processes.local_engine(1), 1)
    return out


def kept(now: Path, name: str, strategy: str, done: bool = True) -> Path:
    """Write the campaign beside `now` as release 0.1.0 kept it, with the columns and fields that only guided campaigns used."""
    out = now.parent / name
    for file in (now / "rows").rglob("*.parquet"):
        table = pq.read_table(file, partitioning=None)
        cpu_us, size = table["cpu_us"], table.num_rows
        table = table.drop_columns(["cpu_us", "output"])
        if strategy == "guided":
            table = table.set_column(table.schema.get_field_index("strategy"), "strategy", pa.array([strategy] * size))
        table = table.append_column("round", pa.array([0] * size, pa.int32())).append_column("tape", pa.array(["[]"] * size))
        place = out / file.relative_to(now)
        place.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.append_column("cpu_us", cpu_us), place)
    of = {"strategy": strategy, "first": 0, "round_size": 10 * (strategy == "guided"), "code": "0123"}
    write_json(out / "campaign.json", read_json(now / "campaign.json") | of | {"version": 3})
    if done:
        write_json(out / "summary.json", read_json(now / "summary.json") | of)
    return out


@pytest.mark.parametrize("strategy", ["portfolio", "guided"])
def test_status_report_and_sql_read_it(now: Path, strategy: str) -> None:
    out = kept(now, f"read {strategy}", strategy)
    code, text = called("status", out, "--json")
    said, failures = json.loads(text), read_json(now / "summary.json")["failures"]
    assert code == 0 and (said["done"], said["left"], said["failed"]) == (SEEDS, 0, SEEDS)
    assert [of["count"] for of in said["failures"]] == [of["count"] for of in failures]
    assert called("report", out)[0] == 0 and f"{SEEDS} of {SEEDS} runs" in (out / "report.html").read_text()
    code, text = called("sql", now.parent, "SELECT seed, count(DISTINCT strategy) AS n FROM runs WHERE campaign IN "
                        f"('now', '{out.name}') GROUP BY seed HAVING count(*) = 2 ORDER BY seed", "--csv")
    assert code == 0 and len(text.split()) == 1 + SEEDS


def test_of_a_guided_one_the_command_that_replays_a_run_names_the_row(now: Path) -> None:
    out = kept(now, "named", "guided")
    asked = "SELECT replay FROM failures WHERE seed = 3 AND campaign = 'named'"
    assert called("sql", now.parent, asked, "--csv") == (0, "replay highwater campaign replay DIR 3")
    replay = json.loads(called("status", out, "--json")[1])["failures"][0]["replay"]
    assert replay == f"highwater campaign replay {out} 0"


def test_a_guided_one_is_not_run_again(now: Path) -> None:
    done, stopped = kept(now, "done", "guided"), kept(now, "stopped", "guided", done=False)
    for words in (("replay", done, 0), ("triage", done), ("resume", stopped, "--engine", "local")):
        code, text = called(*words)
        assert code == exits.BAD_INPUT and "guided campaigns were taken out in 0.2.0" in text, words
        if words[0] != "resume":
            assert "was run with other code (0123" in text and "check out that commit" in text
            assert "run the seed with this code" not in text


def test_another_one_is_not_resumed_but_its_seeds_can_be_run(now: Path) -> None:
    out = kept(now, "plain", "portfolio", done=False)
    code, text = called("resume", out, "--engine", "local")
    assert code == exits.BAD_INPUT and "version 3, not 5" in text and "code '0123', not" in text
    code, text = called("replay", out, 0)
    assert code == exits.BAD_INPUT and f"run the seed with this code: highwater dst run --protocol {SCENARIO} --seed 0" in text
