"""SQL on a campaign's rows: the views agree with the rows in both dialects, show each row once, and refuse wrong input.

In reading order: the views; the page's queries, in both dialects; many campaigns and odd names; the command; refusals.
"""

import csv
import io
import json
import logging
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from bench.pages.queries import CAMPAIGNS, QUERIES, made, made_of
from highwater.cli.main import app
from highwater.dst.campaign.folder import read_json, write_json
from highwater.dst.campaign.rows import SCHEMA
from highwater.dst.campaign.what import Refused, campaign_of, replay_of
from highwater.dst.search.reached import names_of
from highwater.dst.spark import session as on_spark
from highwater.gate import exits
from highwater.reports.campaign.sql import VIEWS, query, said, statements

ROOT = Path(__file__).resolve().parents[2]
# Some hundred rows: a query compiled to Java is no faster than one that is interpreted, and compiling takes seconds.
FEW_ROWS = {"spark.sql.shuffle.partitions": "1", "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
ALL = ("parquet_rows", "campaigns", "all_witnesses", *VIEWS)


def called(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["campaign", *map(str, words)])
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def campaigns(tmp_path_factory) -> list[Path]:
    return made(tmp_path_factory.mktemp("campaigns"))


@pytest.fixture(scope="module")
def rows(campaigns) -> dict[str, list[dict]]:
    """Read the rows of each campaign straight from its files."""
    return {out.name: pq.read_table(next(out.rglob("*.parquet")), partitioning=None).to_pylist() for out in campaigns}


@pytest.fixture(scope="module")
def spark(campaigns) -> Iterator[Any]:
    """The one session of this file, with the views of these campaigns."""
    if on_spark.load_java().find_java() is None:
        warnings.warn("SPARK IS NOT TESTED: there is no Java here", stacklevel=1)
        pytest.skip("there is no Java here")
    session = on_spark.start_spark(on_spark.SessionOptions(2))
    try:
        for name, value in FEW_ROWS.items():
            session.conf.set(name, value)
        for statement in statements(campaigns, "spark"):
            session.sql(statement)
        yield session
    finally:
        session.stop()


@pytest.fixture
def of_spark(campaigns, spark, monkeypatch) -> Iterator[None]:
    """The command asks the session of this file, and leaves it its views."""
    monkeypatch.setattr(on_spark, "start_spark", lambda *_: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
    yield
    for statement in statements(campaigns, "spark"):
        spark.sql(statement)


def asked(campaigns: list[Path], sql: str) -> list[dict]:
    return query(campaigns, sql).to_pylist()


# --- the views

def test_runs_has_each_row_once_and_all_columns_but_the_nested(campaigns, rows):
    found = asked(campaigns, "SELECT * FROM runs WHERE campaign = 'tuesday' ORDER BY seed")
    nested = {"model_states", "model_steps", "faults", "swarm"}
    assert [{name: row[name] for name in SCHEMA.names if name not in nested} for row in found] == [
        {name: value for name, value in row.items() if name not in nested} for row in rows["tuesday"]]
    assert all(row["failed"] == bool(row["kind"]) and row["judged"] and row["wave"] == 0 for row in found)


def test_nested_columns_are_rows_of_views(campaigns, rows):
    def counted(view: str, *columns: str) -> Counter:
        found = asked(campaigns, f"SELECT campaign, seed, {', '.join(columns)} FROM {view}")
        return Counter(tuple(row.values()) for row in found)

    def expected(of) -> Counter:
        return Counter((name, row["seed"], *one) for name, of_one in rows.items() for row in of_one for one in of(row))

    assert counted("faults", "fault", "operation", "phase", "times") == expected(
        lambda row: [(*name.split(" "), times) for name, times in row["faults"]])
    assert counted("swarm", "fault", "weight") == expected(lambda row: row["swarm"])
    assert counted("coverage", "what", "hash") == expected(
        lambda row: [(what, of) for what, name in (("state", "model_states"), ("step", "model_steps")) for of in row[name]])
    scenario = {name: what[0] for name, (what, _) in CAMPAIGNS.items()}
    assert counted("witnesses", "witness") == Counter(
        (name, row["seed"], of) for name, of_one in rows.items() for row in of_one
        for of in names_of(row["reached"], scenario[name]))


def test_shapes_are_as_the_json_says(campaigns, rows):
    found = {(row["seed"], row["name"]): row["value"]
             for row in asked(campaigns, "SELECT * FROM shapes WHERE campaign = 'monday'")}
    expected = {(row["seed"], name): str(value).lower() if isinstance(value, bool) else str(value)
                for row in rows["monday"] for name, value in json.loads(row["shape"]).items()}
    assert found == expected


def test_failures_have_the_command_that_replays_them(campaigns, tmp_path):
    campaign = campaign_of("sequenced_metadata_boundary", "no_check", "random", "gcs")
    out = made_of(tmp_path / "x", campaign, 3)
    assert [row["replay"] for row in asked([out], "SELECT replay FROM failures ORDER BY seed")] == [
        replay_of(campaign, seed) for seed in range(3)]


# --- the queries of the page

@pytest.mark.parametrize("question, sql", QUERIES, ids=[question for question, _ in QUERIES])
def test_a_query_of_the_page_has_an_answer(campaigns, question, sql):
    found = query(campaigns, sql)
    assert found.num_rows and "count_star()" not in found.column_names
    assert any(value is not None for row in found.to_pylist() for value in row.values())


def test_there_are_many_of_them_and_each_view_is_asked():
    assert 15 <= len(QUERIES) == len({question for question, _ in QUERIES})
    assert not [name for name in VIEWS if not any(name in sql for _, sql in QUERIES)]


def same(value: object) -> object:
    """Dialects differ in their numbers' types."""
    try:
        return round(float(value), 6)
    except (TypeError, ValueError):
        return value


def test_spark_answers_the_same(campaigns, spark):
    for question, sql in QUERIES:
        theirs, ours = spark.sql(sql).toArrow(), query(campaigns, sql)
        assert theirs.column_names == ours.column_names, question
        assert [list(map(same, row.values())) for row in theirs.to_pylist()] == [
            list(map(same, row.values())) for row in ours.to_pylist()], question
    for name in ALL:
        (row,) = spark.sql(f"SELECT count(*) AS n FROM {name}").collect()
        assert asked(campaigns, f"SELECT count(*) AS n FROM {name}") == [{"n": row.n}], name
        assert spark.table(name).columns == query(campaigns, f"SELECT * FROM {name} LIMIT 1").column_names, name


# --- odd names, several folders, other code

@pytest.mark.parametrize("name", ["it's \"a\" b%20 é[0]", "{x}*? y"])
def test_whatever_a_folder_is_called(name, campaigns, spark, tmp_path):
    out = made_of(tmp_path / name, campaign_of("sequenced_write"), 5)
    assert asked([out], "SELECT campaign, count(*) AS n FROM runs GROUP BY campaign") == [{"campaign": name, "n": 5}]
    for statement in statements([out], "spark"):
        if "rows_0" in statement:
            spark.sql(statement)
    found = spark.sql("SELECT campaign, count(*) FROM parquet_rows GROUP BY campaign").collect()
    assert [tuple(row) for row in found] == [(name, 5)]
    for statement in statements(campaigns, "spark"):  # as it was
        spark.sql(statement)


def test_two_folders_of_one_name_are_told_apart(tmp_path):
    folders = [made_of(tmp_path / day / "x", campaign_of("sequenced_write"), seeds) for day, seeds in (("a", 2), ("b", 3))]
    assert asked(folders, "SELECT campaign, count(*) AS n FROM runs GROUP BY campaign ORDER BY campaign") == [
        {"campaign": str(folders[0]), "n": 2}, {"campaign": str(folders[1]), "n": 3}]


def test_bits_of_other_code_have_no_names(tmp_path):
    out = made_of(tmp_path / "x", campaign_of("sequenced_write"), 3)
    write_json(out / "campaign.json", read_json(out / "campaign.json") | {"code": "0" * 16})
    found = {row["witness"] for row in asked([out], "SELECT DISTINCT witness FROM witnesses")}
    assert found and all(name.startswith("bit ") for name in found)


# --- the command

def test_the_command_shows_and_writes_csv(campaigns):
    folder = campaigns[0].parent
    code, text = called("sql", folder, "SELECT campaign, count(*) AS n FROM runs GROUP BY campaign ORDER BY campaign")
    assert code == 0 and "monday" in text and "400" in text
    code, text = called("sql", folder, "SELECT '[red]a,b[/]' AS x, NULL AS y, 0.1 AS z", "--csv")
    assert code == 0 and list(csv.reader(io.StringIO(text))) == [["x", "y", "z"], ["[red]a,b[/]", "", "0.1"]]
    assert "[red]a,b[/]" in called("sql", folder, "SELECT '[red]a,b[/]' AS x")[1]
    assert [said(value) for value in (None, 1 / 3, 2, True)] == ["", "0.333333", "2", "True"]


def test_printed_views_are_those_that_another_program_makes(campaigns):
    import duckdb

    code, text = called("views", campaigns[0])
    assert code == 0
    with duckdb.connect() as other:
        other.execute(text)
        assert other.execute("SELECT count(*) FROM failures").fetchone() == (0,)
        assert other.execute("SELECT count(*) FROM runs").fetchone() == (400,)
    assert "USING parquet" in called("views", campaigns[0], "--engine", "spark")[1]


def test_neither_report_nor_queries_start_spark(campaigns):
    program = ("import sys\nfrom typer.testing import CliRunner\nfrom highwater.cli.main import app\nout = sys.argv[1]\n"
               "for words in (['report', out, '-o', out + '.html'], ['sql', out, 'SELECT 1 AS x'], ['views', out]):\n"
               "    assert CliRunner().invoke(app, ['campaign', *words]).exit_code == 0\n"
               "assert not [name for name in sys.modules if name.startswith('pyspark')]\n")
    done = subprocess.run([sys.executable, "-c", program, str(campaigns[0])], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# --- refusals

def test_a_query_that_is_wrong_is_one_line(campaigns):
    for sql in ("SELECT nothing FROM runs", "SELEC 1", "SELECT CAST('x' AS INT) FROM runs", "SELECT * FROM nowhere", ""):
        code, text = called("sql", campaigns[0], sql)
        assert code == exits.BAD_INPUT and len(text.strip().splitlines()) == 1, text
    assert "the views are campaigns, all_witnesses, runs," in called("sql", campaigns[0], "SELECT nothing FROM runs")[1]
    code, text = called("sql", campaigns[0], "SELECT 1", "--master", "local[2]")
    assert code == exits.BAD_INPUT and "--engine spark" in text


@pytest.mark.parametrize("sql", [
    "copy (select 1) to 'x.csv'", "drop view runs", "/* select */ create table x as select 1", "insert into runs select 1",
    "explain analyze copy (select 1) to 'x.csv'", "explain (analyze) copy (select 1) to 'x.csv'", "attach 'x.csv'",
    "copy (pivot runs on kind using count(*)) to 'x.csv'", ";-- select 1",
    "/* a */ -- select\n drop view runs", "/* a */ drop /* b */ select"])
@pytest.mark.parametrize("engine", ["duckdb", "spark"])  # refused before Spark is started
def test_what_does_not_read_is_refused(campaigns, sql, engine, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, text = called("sql", campaigns[0], sql, "--engine", engine)
    assert code == exits.BAD_INPUT and "a query begins with SELECT" in text and len(text.strip().splitlines()) == 1, text
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("sql", [
    "select 1;", "(select 1)", "-- why\n /* and\nhow */ with a as (select 1) select * from a", "from runs", "values (1)",
    "describe runs", "show tables", "explain select 1", "explain (analyze) select 1", "explain (select 1)", "summarize runs",
    "pivot runs on kind using count(*) group by campaign", "select 'a; b' -- ; c"])
def test_whatever_reads_is_answered(campaigns, sql):
    assert query(campaigns, sql).num_rows


def test_of_two_statements_none_is_answered(campaigns, of_spark):
    code, text = called("sql", campaigns[0], "select 1; select 2")
    assert code == exits.BAD_INPUT and "the query has 2 statements: run one at a time" in text
    code, text = called("sql", campaigns[0], "select 1; select 2", "--engine", "spark")
    assert code == exits.BAD_INPUT and "PARSE_SYNTAX_ERROR" in text


def damage_seeds(out: Path, part: int) -> Path:
    """Overwrite the last 1/`part` of the column `seed` and return the file. Its footer stays intact."""
    file = next(out.rglob("*.parquet"))
    column = pq.ParquetFile(file).metadata.row_group(0).column(0)
    assert column.path_in_schema == "seed"
    end = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size
    size = column.total_compressed_size // part
    data = file.read_bytes()
    file.write_bytes(data[:end - size] + b"\xff" * size + data[end:])
    return file


def damage_pages(out: Path) -> Path:
    return damage_seeds(out, 1)


def damage_the_end_of_a_page(out: Path) -> Path:
    return damage_seeds(out, 8)


def cut(out: Path) -> Path:
    file = next(out.rglob("*.parquet"))
    file.write_bytes(file.read_bytes()[:-100])
    return file


@pytest.mark.parametrize("harm", [damage_pages, damage_the_end_of_a_page, cut])
@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_a_damaged_file_is_named_and_what_mends_it(harm, engine, tmp_path, request):
    if engine == "spark":
        request.getfixturevalue("of_spark")
    good, bad = (made_of(tmp_path / name, campaign_of("sequenced_write"), 20) for name in ("good", "worse"))
    file = harm(bad)
    code, text = called("sql", bad, "SELECT count(*), sum(seed) FROM runs", "--engine", engine)
    assert code == exits.HARNESS and len(text.strip().splitlines()) == 1, text
    assert str(file) in text and f"delete it, and `highwater campaign resume {bad}` runs its seeds again" in text
    assert "the others" not in text and "the views are" not in text
    code, text = called("sql", tmp_path, "SELECT count(*), sum(seed) FROM runs", "--engine", engine)
    assert code == exits.HARNESS and str(file) in text and "query each of the others by itself" in text
    assert called("sql", good, "SELECT count(*), sum(seed) FROM runs", "--engine", engine)[0] == 0
    code, text = called("sql", good, "SELECT CAST(signature || 'x' AS INT) FROM runs", "--engine", engine)
    assert code == exits.BAD_INPUT and "the views are" in text


def test_a_query_of_many_stops_at_the_folder_that_is_bad(tmp_path):
    spare, tmp_path = made_of(tmp_path / "spare", campaign_of("sequenced_write"), 2), tmp_path / "three"
    for name in ("a", "b", "c"):
        made_of(tmp_path / name, campaign_of("sequenced_write"), 2)
    next((tmp_path / "b").rglob("*.parquet")).unlink()
    (tmp_path / "c" / "campaign.json").write_text("{")
    others = "(an answer from part of 3 campaigns would be wrong: repair this one, or query each of the others by itself)"
    code, text = called("sql", tmp_path, "SELECT 1")
    assert code == exits.BAD_INPUT and f"{tmp_path / 'b'} has no rows yet" in text and others in text
    next(spare.rglob("*.parquet")).rename(tmp_path / "b" / "rows" / "wave=0" / "0-2.parquet")
    code, text = called("sql", tmp_path, "SELECT 1")
    assert code == exits.BAD_INPUT and f"{tmp_path / 'c' / 'campaign.json'} is damaged" in text and others in text
    assert called("sql", tmp_path / "a", "SELECT 1")[0] == 0


def test_spark_says_what_is_wrong_without_its_log(campaigns, of_spark, monkeypatch, capfd):
    from highwater.reports.campaign.sql import with_spark

    monkeypatch.setattr(logging.getLogger("SQLQueryContextLogger"), "disabled", False)
    with pytest.raises(Refused, match=r"UNRESOLVED_COLUMN.*nothing"):
        with_spark(campaigns, "SELECT nothing FROM runs", "")
    assert "Py4JJavaError" not in capfd.readouterr().err


def test_no_campaign_and_no_rows_are_refused(tmp_path):
    assert called("sql", tmp_path / "x", "SELECT 1")[0] == exits.BAD_INPUT
    out = made_of(tmp_path / "out", campaign_of("sequenced_write"), 1)
    next(out.rglob("*.parquet")).unlink()
    for words in (("sql", out, "SELECT 1"), ("views", out)):
        code, text = called(*words)
        assert code == exits.BAD_INPUT and "has no rows yet" in text
    (out / "rows" / "wave=0" / "x.parquet").write_bytes(b"PAR1 and then no more")
    code, text = called("sql", out, "SELECT count(*) FROM runs")
    assert code == exits.HARNESS and "x.parquet" in text
