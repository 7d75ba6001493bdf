"""Save rows by Spark's writer, at any URL that the session can write to, in any format that it has.

Safety: nothing is deleted but partitions of the same campaign and wave, which are replaced, so that a repeated save doubles no
row.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds

from highwater.dst.campaign.folder import read_json, write_json
from highwater.dst.campaign.rows import SCHEMA
from highwater.dst.campaign.what import Campaign
from highwater.dst.scenarios import named
from highwater.dst.spark.tasks import watch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FORMATS = ("parquet", "delta", "iceberg")
SAVED = "saved.json"  # in a campaign's folder: which waves were saved where
OF_WAVES = ("protocol", "campaign", "wave")
OF_VERDICTS = ("protocol",)


class SaveOptions(NamedTuple):
    """The place for rows, a URL or for iceberg the name of a table, and one of FORMATS."""

    to: str
    format: str = FORMATS[0]


def save_waves(spark: "SparkSession", campaign: Campaign, out: Path, name: str, options: SaveOptions, shared: bool) -> int:
    """Save the committed waves of a campaign that were not saved there yet. Returns their number. `name` tells the campaigns of
    one table apart. `shared`: workers see the folder `out`; else this process sends the rows. Raises CampaignError."""
    label = f"{options.format} {options.to}"
    done = read_json(out / SAVED)
    saved, protocol = {*done.get(label, [])}, named(campaign.scenario).protocol
    waves = {int(wave.name.partition("=")[2]): wave for wave in (out / "rows").glob("wave=*")}
    for number in sorted(waves.keys() - saved):
        def save(number: int = number) -> None:
            from pyspark.sql.functions import lit

            frame = rows_in(spark, waves[number], shared)
            for column, value in zip(OF_WAVES, (protocol, name, number)):
                frame = frame.withColumn(column, lit(value))
            write(spark, frame, OF_WAVES, options, replace=True)

        watch(spark, f"save {campaign.scenario}, wave {number}", save)
        saved.add(number)
        write_json(out / SAVED, done | {label: sorted(saved)})
    return len(waves)


def rows_in(spark: "SparkSession", wave: Path, shared: bool) -> "DataFrame":
    """Return the rows in the folder of a wave."""
    if shared:
        return spark.read.parquet(f"file://{wave.absolute()}")
    return spark.createDataFrame(ds.dataset(wave, schema=SCHEMA, format="parquet").to_table())


def save_verdicts(spark: "SparkSession", rows: pa.Table, options: SaveOptions) -> None:
    """Save the verdicts of a check. Raises CampaignError, also if there is something at that URL."""
    watch(spark, f"save {rows.num_rows:,} verdicts", lambda: write(spark, spark.createDataFrame(rows), OF_VERDICTS, options,
                                                                   replace=False))


def write(spark: "SparkSession", frame: "DataFrame", by: Sequence[str], options: SaveOptions, replace: bool) -> None:
    """Write a DataFrame, partitioned by columns. `replace`: in place of what the same partitions have, if there are any."""
    if options.format != "iceberg":
        writer = frame.write.format(options.format).partitionBy(*by).option("partitionOverwriteMode", "dynamic")
        writer.mode("overwrite" if replace else "errorifexists").save(options.to)
    elif replace and spark.catalog.tableExists(options.to):
        frame.writeTo(options.to).overwritePartitions()
    else:
        from pyspark.sql.functions import col

        frame.writeTo(options.to).using(options.format).partitionedBy(*map(col, by)).create()
