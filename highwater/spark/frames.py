"""Verdicts and rows of seeds as DataFrames of a session that is given.

Safety: the session is not stopped, and its settings are not changed. A DataFrame has the code and the parameters of its call,
whenever its rows are computed. Each seed that was run has a row, whatever happens in its run.
"""

import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, cast

from highwater import project as projects
from highwater.dst.bulk.checking import Asked
from highwater.dst.bulk.engines import Work, work_of
from highwater.dst.bulk.rows import BadInput, BulkError
from highwater.dst.bulk.sources import Choice, plan
from highwater.dst.campaign.waves import FEWEST, MOST_SEEDS
from highwater.dst.campaign.what import USUAL, CampaignError, Refused, Seeds, campaign_of
from highwater.dst.campaign.what import Work as CampaignWork
from highwater.dst.spark.bulk import check_visible, verdicts
from highwater.dst.spark.engine import rows_of_seeds
from highwater.dst.spark.errors import report
from highwater.dst.spark.session import is_elsewhere, slots
from highwater.dst.verdict import Options, Unfit, options_of, recorded_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTS = "spark.sql.shuffle.partitions"
URL = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
EVENTS = "EVENTS.parquet"  # stands in commands for a file with the events of a DataFrame


def check_traces(spark: "SparkSession", traces: "DataFrame | str | Path | Iterable[str | Path]", *, protocol: str = "",
                 options: str = "", run: str = "", namespace: str = "", explain: bool = True, parts: int = 0,
                 project: str | Path = "") -> "DataFrame":
    """Return a DataFrame with the verdict of each run, as `highwater trace check` gives it.

    `traces`: files, folders and globs, or URLs of Parquet files (anything that `spark.read.parquet` takes), or a DataFrame of
    events. `protocol` and `options` (as typed: "--root db --page-size 2") are those of runs that do not give their own. `run`
    and `namespace` choose a run. `explain`: fill the column `explanation`. `parts`: tasks that judge, each at most some 250,000
    events. `project`: the folder of a protocol of one's own.

    The call looks into the files, and if workers may be on other machines a small job of it looks for them there. Each action
    on the DataFrame then reads and judges all events again: write it, or cache it. Raises TypeError for a parameter of another
    type, ValueError if the input cannot be judged, RuntimeError if the small job fails."""
    wants(spark=(spark, hasattr(spark, "createDataFrame"), "a SparkSession"), parts=(parts, is_number(parts), "a number"),
          options=(options, is_a(str, options), 'a text, as "--root db --page-size 2"'))
    one = isinstance(traces, str | Path) or hasattr(traces, "columns") or not isinstance(traces, Iterable)
    given = [traces] if one else [*cast("Iterable[str | Path]", traces)]
    for each in given:
        wants(traces=(each, isinstance(each, str | Path) or (is_frame(each) and len(given) == 1),
                      "one DataFrame of Spark, or names of files"))
    with refused():
        use(project)
        usual = options_of(options, Options(protocol=protocol))
        if protocol:
            recorded_of(protocol)
        urls = [str(each) for each in given if isinstance(each, str) and URL.match(each)]
        if urls and len(urls) < len(given):
            raise BadInput(f"{urls[0]} is read by Spark, and other inputs are files: check them one after the other")
        named = [EVENTS] if urls or is_frame(traces) else [*map(str, given)]
        words = ["highwater trace check", *map(quote, named), *projects.words(), *usual.said()]
        asked, choice = Asked(usual, " ".join(words) if explain else ""), Choice(run, namespace)
        if urls or is_frame(traces):
            events = cast("DataFrame", read(spark, urls) if urls else given[0])
            wanted = spark.conf.get(PARTS) or ""  # "auto" on some platforms
            tasks = parts or max(FEWEST * slots(spark), int(wanted) if wanted.isdigit() else 0)
            return verdicts(spark, Work([], tasks, asked, choice), events)
        work = work_of(plan(named), slots(spark), asked, choice)
        work = work._replace(parts=parts or work.parts)
        if is_elsewhere(spark):
            check_visible(spark, work)
        return verdicts(spark, work)


def campaign(spark: "SparkSession", scenario: str, seeds: range, *, mutant: str = "", strategy: str = USUAL, profile: str = "",
             shape: Mapping[str, object] | None = None, faults: Mapping[str, int] | None = None, limit_s: float = 60.0,
             tasks: int = 0, project: str | Path = "") -> "DataFrame":
    """Return a DataFrame with a row for each seed, as `highwater campaign run` writes it.

    The parameters are the verb's options: `shape={"writers": 2}`, `faults={"late": 100}` (of 1,000 requests), `limit_s` is
    --seed-limit-s. `tasks`: by default 4 for each that runs at once, and more if one would have more than 20,000 seeds.
    `project`: the folder of a protocol of one's own.

    The call runs nothing. Each action on the DataFrame runs all seeds again, with the same rows but for `cpu_us`: write it, or
    cache it. After three seeds of a task that did not end, its other seeds have no row. Raises TypeError and ValueError if the
    parameters make no sense."""
    wants(spark=(spark, hasattr(spark, "createDataFrame"), "a SparkSession"), seeds=(seeds, is_a(range, seeds), "a range"),
          tasks=(tasks, is_number(tasks), "a number"))
    with refused():
        use(project)
        if seeds.step != 1 or not seeds or seeds.start < 0:
            raise Refused(f"{seeds}: give a range of seeds with the step 1, from 0 or later, that is not empty")
        of = campaign_of(scenario, mutant, strategy, profile, in_words(shape), in_words(faults))
        return rows_of_seeds(spark, CampaignWork(of, limit_s), ranges(seeds, tasks or FEWEST * slots(spark)))


def ranges(seeds: range, tasks: int) -> list[Seeds]:
    """Cut seeds into as many ranges, unless one would be too large or empty."""
    size = min(-(-len(seeds) // tasks), MOST_SEEDS)
    return [(low, min(low + size, seeds.stop)) for low in range(seeds.start, seeds.stop, size)]


def in_words(given: Mapping[str, object] | None) -> str:
    return " ".join(f"{name}={value}" for name, value in (given or {}).items())


def use(project: str | Path) -> None:
    if project:
        projects.use(str(project))


def wants(**given: tuple[object, bool, str]) -> None:
    """Raise TypeError for the first parameter that is not what it must be: name -> the argument, whether it is, and what."""
    for name, (argument, holds, what) in given.items():
        if not holds:
            raise TypeError(f"{name} is {type(argument).__module__}.{type(argument).__name__} {argument!r:.80}: give {what}")


def is_a(kind: type, given: object) -> bool:
    return isinstance(given, kind)


def is_number(given: object) -> bool:
    return type(given) is int and given >= 0


def read(spark: "SparkSession", urls: list[str]) -> "DataFrame":
    try:
        frame = spark.read.parquet(*urls)
        frame.schema  # noqa: B018  # Spark Connect looks at the files only now
        return frame
    except Exception as error:
        raise BadInput(f"{', '.join(urls)}: {report(error)}") from error


def is_frame(traces: object) -> bool:
    """Return whether this is a DataFrame, of a classic session or of Spark Connect."""
    return hasattr(traces, "mapInArrow")


@contextmanager
def refused() -> Generator[None, None, None]:
    """Raise ValueError for what cannot be used, and RuntimeError for a job that has failed."""
    try:
        yield
    except (BadInput, Refused, Unfit, LookupError, projects.ProjectError) as error:
        raise ValueError(str(error)) from error
    except (BulkError, CampaignError) as error:
        raise RuntimeError(str(error)) from error
