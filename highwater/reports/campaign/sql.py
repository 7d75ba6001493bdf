"""Safety: a query sees each committed row of a campaign once, with either engine. Defining the views writes nothing.

The same views exist in two dialects: duckdb reads the Parquet in this process, Spark SQL in Spark. The column `campaign`, the
name of the folder, tells the rows of several campaigns apart.
"""

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from highwater import project
from highwater.dst.campaign.folder import Asked, damaged_file, labelled, read_json
from highwater.dst.campaign.rows import SCHEMA
from highwater.dst.campaign.what import GUIDED, WRONG, Campaign, CampaignError, Refused, replay_of
from highwater.dst.run_spec import protocol_words
from highwater.dst.scenarios import named, stems
from highwater.dst.search.reached import bits
from highwater.dst.version import code_version

if TYPE_CHECKING:
    from highwater.dst.spark.session import SessionOptions

ENGINES = ("duckdb", "spark")
MOST_BITS = 63
WITH_OUTPUT = 5  # the first version of a campaign's folder whose rows have the column `output`
OF_CAMPAIGN = ("scenario", "mutant", "strategy", "profile", "shape", "faults", "code")
CAMPAIGNS = ("campaign", *OF_CAMPAIGN, "first_seed", "end_seed", "stop_after", "options")
FAILED = "(" + ", ".join(f"'{kind}'" for kind in WRONG) + ")"
LEFT_OUT = ("model_states", "model_steps", "faults", "swarm")  # of the view `runs`: these columns have views of their own
BEFORE = r"(?:[\s(;]|--[^\n]*|/\*.*?\*/)*+"  # all blanks and comments
READS = re.compile(BEFORE + r"(?:explain\b\s*(?:analyze\b|extended\b|codegen\b|cost\b|formatted\b|\([^)]*\))?" + BEFORE + r")?"
                   r"(?:select|with|from|values|table|pivot|unpivot|describe|desc|summarize|show)\b", re.IGNORECASE | re.DOTALL)
OF_ENGINE: dict[str, dict[str, Callable[[str], str]]] = {  # the differences of the dialects, for a column of `parquet_rows`
    "duckdb": {
        "map": lambda name: f"(SELECT *, unnest(map_entries({name})) AS e FROM parquet_rows)",
        "key": lambda _: "e.key", "value": lambda _: "e.value",
        "list": lambda name: f"(SELECT *, unnest({name}) AS hash FROM parquet_rows)",
        "json": lambda name: f"(SELECT *, unnest(json_keys({name})) AS name FROM parquet_rows WHERE {name} <> '')",
        "of_json": lambda name: f"json_extract_string({name}, '$.' || name)",
    },
    "spark": {
        "map": lambda name: f"(SELECT *, explode(map_entries({name})) AS e FROM parquet_rows)",
        "key": lambda _: "e.key", "value": lambda _: "e.value",
        "list": lambda name: f"(SELECT *, explode({name}) AS hash FROM parquet_rows)",
        "json": lambda name: f"(SELECT *, explode(json_object_keys({name})) AS name FROM parquet_rows WHERE {name} <> '')",
        "of_json": lambda name: f"get_json_object({name}, '$.' || name)",
    },
}
VIEWS = {  # name -> its rows, its SELECT; < > is replaced by OF_ENGINE
    "runs": ("a row for each run: the Parquet columns, `wave`, whether it was `judged`, and whether it `failed`", f"""
SELECT campaign, {', '.join(name for name in SCHEMA.names if name not in LEFT_OUT)}, wave,
       kind = '' OR kind IN {FAILED} AS judged, kind IN {FAILED} AS failed
FROM parquet_rows"""),
    "failures": ("each run that failed or could not be judged: the reason, and the command that replays it", f"""
SELECT r.campaign, r.seed, r.scenario, r.mutant, r.strategy, r.profile, r.kind, r.signature, r.message, r.requests, r.steps,
       CASE WHEN c.strategy = '{GUIDED}' THEN 'highwater campaign replay DIR ' || CAST(r.seed AS STRING)
       ELSE 'highwater dst run ' || <protocol> || ' --seed ' || CAST(r.seed AS STRING) || c.options END AS replay
FROM parquet_rows r JOIN campaigns c ON r.campaign = c.campaign WHERE r.kind <> ''"""),
    "faults": ("the faults of a run: how many `times`, by `fault`, `operation` and `phase` (the request was applied by then, "
               "later, never)", """
SELECT campaign, seed, strategy, profile, kind, split_part(<key>, ' ', 1) AS fault, split_part(<key>, ' ', 2) AS operation,
       split_part(<key>, ' ', 3) AS phase, <value> AS times
FROM <map:faults>"""),
    "swarm": ("the drawn fault rates: `weight` of 1,000 requests, by `fault`; a missing fault was switched off", """
SELECT campaign, seed, strategy, profile, kind, <key> AS fault, <value> AS weight
FROM <map:swarm>"""),
    "shapes": ("the size of a run: `name` and `value` of each field of its shape, as text", """
SELECT campaign, seed, strategy, profile, kind, name, <of_json:shape> AS value
FROM <json:shape>"""),
    "coverage": ("a `hash` of each sampled model state or step (`what`), for one run in four; multiply counts by 8 for an "
                 "estimate", """
SELECT campaign, seed, strategy, profile, 'state' AS what, hash FROM <list:model_states>
UNION ALL SELECT campaign, seed, strategy, profile, 'step' AS what, hash FROM <list:model_steps>"""),
    "discoveries": ("a row for each hash: the first `seed` that reached it, and the number of `runs` that did", """
SELECT campaign, what, hash, min(seed) AS seed, count(*) AS runs FROM coverage GROUP BY campaign, what, hash"""),
    "witnesses": ("a row for each run and each `witness` that it reached; see `all_witnesses`", """
SELECT r.campaign, r.seed, r.strategy, r.profile, r.kind, w.witness
FROM parquet_rows r JOIN all_witnesses w ON r.campaign = w.campaign AND (r.reached & w.bit) <> 0"""),
    "strategies": ("by scenario, mutant and strategy: the `runs` that were judged, and how many of them `failed`", f"""
SELECT campaign, scenario, mutant, strategy, count(*) FILTER (WHERE kind = '' OR kind IN {FAILED}) AS runs,
       count(*) FILTER (WHERE kind IN {FAILED}) AS failed, min(CASE WHEN kind IN {FAILED} THEN seed END) AS smallest_seed
FROM parquet_rows GROUP BY campaign, scenario, mutant, strategy"""),
    "rates": ("the cost of runs, by strategy: average CPU time of a run, and runs per CPU-second", """
SELECT campaign, strategy, count(*) AS runs, sum(cpu_us) / 1e6 AS cpu_s, avg(cpu_us) / 1e3 AS cpu_ms_a_run,
       count(*) / (greatest(sum(cpu_us), 1) / 1e6) AS runs_a_cpu_s, avg(requests) AS requests_a_run
FROM parquet_rows GROUP BY campaign, strategy"""),
}


def statements(folders: list[Path], engine: str) -> list[str]:
    """Return the CREATE VIEW statements for `parquet_rows` (all columns of the files), `campaigns`, `all_witnesses` and VIEWS.
    Raises Refused."""
    names, given = names_of(folders), []
    for name, out in zip(names, folders):
        try:
            given.append((name, labelled_with_rows(out)))
        except Refused as error:
            raise Refused(f"{error}{the_others(folders)}") from None
    made, selects = [], []
    for number, (name, out) in enumerate(zip(names, folders)):
        path, of = str(out.absolute() / "rows"), f"rows_{number}"
        if engine == "spark":
            files = text("file://" + re.sub(r"([][{}*?\\])", r"\\\1", path), engine)
            made.append(f"CREATE OR REPLACE TEMPORARY VIEW {of} USING parquet OPTIONS (path {files})")
        else:
            files = text(re.sub(r"([\[*?])", r"[\1]", path) + "/wave=*/*.parquet", engine)
            of = f"read_parquet({files}, hive_partitioning = true, hive_types = {{'wave': BIGINT}})"
        selects.append(f"\nSELECT {text(name, engine)} AS campaign, {', '.join(columns_of(out))}, wave FROM {of}")
    witnesses = [(name, *of) for name, (campaign, _) in given for of in witnesses_of(campaign).items()]
    return [*made, view("parquet_rows", "\nUNION ALL".join(selects)),
            values("campaigns", CAMPAIGNS, [row_of(name, *of) for name, of in given], engine),
            values("all_witnesses", ("campaign", "witness", "bit"), witnesses, engine),
            *(view(name, in_dialect(select, engine)) for name, (_, select) in VIEWS.items())]


def columns_of(out: Path) -> list[str]:
    """Return the columns of a campaign's files, as a SELECT has them. Files of earlier versions have no `output`."""
    older = read_json(out / "campaign.json")["version"] < WITH_OUTPUT
    return [f"'' AS {name}" if older and name == "output" else name for name in SCHEMA.names]


def labelled_with_rows(out: Path) -> tuple[Campaign, Asked]:
    """Raises Refused."""
    said = labelled(out)
    if not any((out / "rows").glob("wave=*/*.parquet")):
        raise Refused(f"{out} has no rows yet: `highwater campaign status {out}{project.option()}` says how far it is")
    return said


def the_others(folders: list[Path]) -> str:
    """Say what to do if one of several campaigns cannot be queried."""
    return "" if len(folders) == 1 else (f" (an answer from part of {len(folders)} campaigns would be wrong: repair this one, "
                                         "or query each of the others by itself)")


def view(name: str, select: str) -> str:
    return f"CREATE OR REPLACE TEMPORARY VIEW {name} AS{select}"


def values(name: str, columns: tuple[str, ...], rows: list[tuple], engine: str) -> str:
    lines = (", ".join(text(of, engine) if isinstance(of, str) else f"CAST({of} AS BIGINT)" for of in row) for row in rows)
    return view(name, "\nSELECT * FROM (VALUES\n  (" + "),\n  (".join(lines) + f")\n) AS v({', '.join(columns)})")


def text(value: str, engine: str) -> str:
    """Quote a string as a literal of the dialect."""
    if engine == "spark":
        value = value.replace("\\", "\\\\")
    return "'" + value.replace("'", "''") + "'"


def row_of(name: str, campaign: Campaign, asked: Asked) -> tuple:
    """Make the row of a campaign in the view `campaigns`."""
    options = replay_of(campaign, 0).partition(" --seed 0")[2]
    return name, *(getattr(campaign, of) for of in OF_CAMPAIGN), *asked.seeds, asked.stop_after, options


def names_of(folders: list[Path]) -> list[str]:
    """Return the names of the folders, or their whole paths if two have the same name."""
    names = [out.absolute().name for out in folders]
    return [name if names.count(name) == 1 else str(out) for name, out in zip(names, folders)]


def witnesses_of(campaign: Campaign) -> dict[str, int]:
    """Map witness names to bits. A campaign of other code has none, because its bits may differ."""
    if campaign.code == code_version():
        return bits(campaign.scenario)
    return {f"bit {place}": 1 << place for place in range(MOST_BITS)}


def in_dialect(select: str, engine: str) -> str:
    for name, say in OF_ENGINE[engine].items():
        while (start := select.find(f"<{name}:")) >= 0:
            end = select.index(">", start)
            select = select[:start] + say(select[start + len(name) + 2:end]) + select[end + 1:]
        select = select.replace(f"<{name}>", say(""))
    return select.replace("<protocol>", protocol_in_sql())


def protocol_in_sql() -> str:
    """Return the SQL expression for the options that choose a row's scenario."""
    prefix = " ".join([*project.words(), "--protocol "])
    others = [f"WHEN {stem!r} THEN {in_quotes(protocol_words(stem))}" for stem in stems() if named(stem).model]
    usual = f"{in_quotes(prefix)} || r.scenario"
    return f"CASE r.scenario {' '.join(others)} ELSE {usual} END" if others else f"({usual})"


def in_quotes(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


def query(folders: list[Path], sql: str, options: "SessionOptions | None" = None) -> pa.Table:
    """Run one query, on Spark if there are options of a session, else in duckdb. Raises Refused for a wrong query,
    CampaignError for damaged rows, NoSpark."""
    if not READS.match(sql):
        raise Refused(f"{sql.strip()[:60]!r} is not a query: a query begins with SELECT, WITH, FROM, VALUES, DESCRIBE, "
                      "SHOW, or EXPLAIN and one of these")
    return with_spark(folders, sql, options) if options else with_duckdb(folders, sql)


def with_duckdb(folders: list[Path], sql: str) -> pa.Table:
    import duckdb

    with duckdb.connect(config={"autoinstall_known_extensions": False}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        try:
            for statement in statements(folders, "duckdb"):
                connection.execute(statement)
        except duckdb.Error as error:
            raise unreadable(folders, error) from None
        try:
            if (count := len(connection.extract_statements(sql))) != 1:
                raise Refused(f"the query has {count} statements: run one at a time")
            return connection.sql(sql).to_arrow_table()
        except (duckdb.ParserException, duckdb.CatalogException, duckdb.BinderException) as error:
            raise Refused(wrong(error)) from None
        except duckdb.Error as error:
            raise damaged(folders) or Refused(wrong(error)) from None


def with_spark(folders: list[Path], sql: str, options: "SessionOptions") -> pa.Table:
    from pyspark.errors import AnalysisException

    from highwater.dst.spark.session import session

    logging.getLogger("SQLQueryContextLogger").disabled = True  # we report errors of a query ourselves
    with session(options) as spark:
        try:
            for statement in statements(folders, "spark"):
                spark.sql(statement)
        except Refused:
            raise
        except Exception as error:
            raise unreadable(folders, error) from None
        try:
            return spark.sql(sql).toArrow()
        except AnalysisException as error:
            raise Refused(wrong(error)) from None
        except Exception as error:
            raise damaged(folders) or Refused(wrong(error)) from None


def unreadable(folders: list[Path], error: Exception) -> CampaignError:
    return damaged(folders) or CampaignError(f"the rows cannot be read: {first_line(error)}{the_others(folders)}")


def damaged(folders: list[Path]) -> CampaignError | None:
    """Return an error that names the first unreadable file and how to repair it; None if all are readable."""
    found = next(filter(None, (damaged_file(out, SCHEMA.names) for out in folders)), None)
    return found and CampaignError(f"{found}{the_others(folders)}")


def said(value: object) -> str:
    """Format a value of a result."""
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def wrong(error: Exception) -> str:
    """Describe the error of a query, with the names of the views."""
    views = ", ".join(("campaigns", "all_witnesses", *VIEWS))
    return f"{first_line(error)} (the views are {views}; DESCRIBE one for its columns)"


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
