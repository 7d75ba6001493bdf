"""Renders the queries of docs/simulation/campaign-queries.md, with their answers for three small campaigns that are run here.

DuckDB and Spark SQL both understand each query. No answer holds a time, because times differ from run to run.
"""

import inspect
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.dst.campaign import rows
from highwater.dst.campaign.folder import VERSION, Asked, write_json
from highwater.dst.campaign.rows import SCHEMA, SQL_TYPES, run_range
from highwater.dst.campaign.what import Campaign, Work, campaign_of
from highwater.reports.campaign.sql import VIEWS, query, said

CAMPAIGNS = {  # folder -> what was run, how many seeds
    "monday": (("sequenced_metadata_boundary",), 400),
    "tuesday": (("sequenced_metadata_boundary", "age_ignored"), 400),
    "wednesday": (("sequenced_write",), 200),
}
QUERIES: list[tuple[str, str]] = [
    ("How many runs failed, by scenario and mutant?", """
SELECT campaign, scenario, mutant, sum(failed) AS failed, sum(runs) AS runs
FROM strategies GROUP BY campaign, scenario, mutant ORDER BY campaign"""),
    ("Which strategy finds the bug soonest?", """
SELECT strategy, failed, runs, round(100.0 * failed / runs, 1) AS percent, smallest_seed
FROM strategies WHERE mutant = 'age_ignored' ORDER BY percent DESC, strategy"""),
    ("What kinds of failure are there, and what is the smallest seed of each?", """
SELECT campaign, kind, signature, count(*) AS runs, min(seed) AS smallest_seed
FROM failures GROUP BY campaign, kind, signature ORDER BY runs DESC, signature"""),
    ("Which commands replay the three failures with the fewest requests?", """
SELECT requests, signature, replay FROM failures ORDER BY requests, seed LIMIT 3"""),
    ("On which stores does the mutant fail?", """
SELECT profile, count(*) AS runs, count(*) FILTER (WHERE failed) AS failed
FROM runs WHERE mutant = 'age_ignored' GROUP BY profile ORDER BY profile"""),
    ("How many seeds fail with the mutant, but not without it?", """
SELECT count(*) AS only_with_it
FROM runs bad JOIN runs good ON bad.seed = good.seed
WHERE bad.campaign = 'tuesday' AND good.campaign = 'monday' AND bad.failed AND NOT good.failed"""),
    ("Is a failure of today's campaign known from an earlier one?", """
SELECT t.signature, CASE WHEN count(m.seed) = 0 THEN 'new' ELSE 'known' END AS state
FROM (SELECT DISTINCT signature FROM failures WHERE campaign = 'tuesday') t
LEFT JOIN failures m ON m.signature = t.signature AND m.campaign = 'monday'
GROUP BY t.signature ORDER BY t.signature"""),
    ("How large are failing runs, compared with the others?", """
SELECT failed, count(*) AS runs, round(avg(requests), 1) AS requests, round(avg(steps), 1) AS steps
FROM runs WHERE mutant = 'age_ignored' GROUP BY failed ORDER BY failed"""),
    ("With how many collectors does the mutant fail?", """
SELECT value AS collectors, count(*) AS runs, count(*) FILTER (WHERE kind <> '') AS failed
FROM shapes WHERE campaign = 'tuesday' AND name = 'collectors' GROUP BY value ORDER BY value"""),
    ("Which fields of the shape make a difference? (the largest and the smallest share of failed runs)", """
SELECT name, round(max(share), 2) AS most, round(min(share), 2) AS least
FROM (SELECT name, value, avg(CASE WHEN kind <> '' THEN 1.0 ELSE 0.0 END) AS share
      FROM shapes WHERE campaign = 'tuesday' GROUP BY name, value HAVING count(*) >= 20)
GROUP BY name HAVING count(*) > 1 ORDER BY most - least DESC, name LIMIT 5"""),
    ("Does it matter whether clients crash?", """
SELECT CASE WHEN s.weight IS NULL THEN 'never' ELSE 'sometimes' END AS clients_crash, count(*) AS runs,
       count(*) FILTER (WHERE r.failed) AS failed
FROM runs r LEFT JOIN swarm s ON s.campaign = r.campaign AND s.seed = r.seed AND s.fault = 'crash'
WHERE r.campaign = 'tuesday' GROUP BY 1 ORDER BY 1"""),
    ("Which faults affected creates, and were the creates applied?", """
SELECT fault, phase, sum(times) AS times, count(DISTINCT seed) AS runs
FROM faults WHERE campaign = 'monday' AND operation = 'create' GROUP BY fault, phase ORDER BY fault, phase"""),
    ("In how many runs was a request applied after its client had crashed, by operation?", """
SELECT campaign, operation, count(DISTINCT seed) AS runs
FROM faults WHERE fault = 'crash' AND phase = 'later' GROUP BY campaign, operation ORDER BY campaign, runs DESC, operation"""),
    ("Which witnesses were reached least often?", """
SELECT w.witness, count(x.seed) AS runs, min(x.seed) AS first_seed
FROM all_witnesses w LEFT JOIN witnesses x ON x.campaign = w.campaign AND x.witness = w.witness
WHERE w.campaign = 'monday' GROUP BY w.witness ORDER BY runs, w.witness LIMIT 8"""),
    ("Which strategies reach a rare witness?", """
SELECT strategy, count(*) AS runs FROM witnesses
WHERE campaign = 'monday' AND witness = 'model: StaleCreateLands' GROUP BY strategy ORDER BY runs DESC, strategy"""),
    ("About how many states and steps of the model were reached?", """
SELECT campaign, what, 8 * count(*) AS distinct_ones FROM discoveries GROUP BY campaign, what ORDER BY campaign, what"""),
    ("Does coverage level off? (new states and steps, by tenth of the seeds)", """
SELECT CAST(floor(seed / 40) AS INT) AS tenth, 8 * count(*) AS new_ones
FROM discoveries WHERE campaign = 'monday' GROUP BY 1 ORDER BY 1"""),
    ("How many new states would one more run bring? (Good-Turing: states that one run alone reached, by runs)", """
SELECT d.campaign, round(8.0 * count(*) FILTER (WHERE d.runs = 1) / max(s.sketched), 1) AS new_states
FROM discoveries d JOIN (SELECT campaign, count(DISTINCT seed) AS sketched FROM coverage GROUP BY campaign) s
    ON s.campaign = d.campaign
WHERE d.what = 'state' GROUP BY d.campaign ORDER BY d.campaign"""),
    ("How many states does each strategy reach that no other does?", """
SELECT strategy, 8 * count(*) AS states_of_its_own
FROM (SELECT hash, min(strategy) AS strategy FROM coverage WHERE campaign = 'monday' AND what = 'state'
      GROUP BY hash HAVING count(DISTINCT strategy) = 1)
GROUP BY strategy ORDER BY states_of_its_own DESC, strategy"""),
    ("Which runs were equal, event for event?", """
SELECT count(*) AS runs, count(DISTINCT digest) AS different FROM runs WHERE campaign = 'monday' AND digest <> ''"""),
    ("How long are the longest runs, in virtual time?", """
SELECT seed, virtual_ms, requests, profile FROM runs WHERE campaign = 'monday' ORDER BY virtual_ms DESC, seed LIMIT 3"""),
    ("Does every seed have exactly one row?", """
SELECT c.campaign, c.end_seed - c.first_seed AS asked, count(r.seed) AS there, count(DISTINCT r.seed) AS different
FROM campaigns c JOIN runs r ON r.campaign = c.campaign GROUP BY c.campaign, c.end_seed, c.first_seed ORDER BY c.campaign"""),
    ("How many requests does a run send? (The view also has `cpu_ms_a_run` and `runs_a_cpu_s`, which differ by machine.)", """
SELECT campaign, strategy, runs, round(requests_a_run, 1) AS requests_a_run
FROM rates WHERE campaign <> 'tuesday' ORDER BY campaign, strategy"""),
]


def made(folder: Path) -> list[Path]:
    """Run the small campaigns CAMPAIGNS."""
    return [made_of(folder / name, campaign_of(*what), seeds) for name, (what, seeds) in CAMPAIGNS.items()]


def made_of(out: Path, campaign: Campaign, seeds: int) -> Path:
    wave = out / "rows" / "wave=0"
    wave.mkdir(parents=True)
    pq.write_table(run_range(Work(campaign, 60), (0, seeds)), wave / f"0-{seeds}.parquet")
    write_json(out / "campaign.json", {"version": VERSION, **campaign._asdict(), "asked": Asked((0, seeds))._asdict()})
    return out


def queries() -> str:
    with TemporaryDirectory() as folder:
        campaigns = made(Path(folder))
        return "".join(f"\n**{question}**\n\n```sql\n{sql.strip()}\n```\n\n{markdown(query(campaigns, sql))}"
                       for question, sql in QUERIES)


def markdown(found: pa.Table) -> str:
    rows = [[said(value).replace("|", "\\|") for value in row.values()] for row in found.to_pylist()]
    lines = ["| " + " | ".join(found.column_names) + " |", "|---" * found.num_columns + "|",
             *("| " + " | ".join(row) + " |" for row in rows)]
    return "\n".join(lines) + "\n"


def views() -> str:
    lines = [f"| `{name}` | {what} |\n" for name, (what, _) in VIEWS.items()]
    return "| view | |\n|---|---|\n" + "".join(lines)


def columns() -> str:
    """Render the columns of a row, with the comments of dst/campaign/rows.py."""
    source = inspect.getsource(rows)
    start = source.index("SCHEMA = ")
    lines = source[start:source.index("])\n", start)].splitlines()
    notes = {line.split('"')[1]: line.partition("  # ")[2] for line in lines if '("' in line}
    told = [f"| {field.name} | {SQL_TYPES[field.type]} | {notes[field.name]} |\n" for field in SCHEMA]
    return "| column | type | |\n|---|---|---|\n" + "".join(told)
