"""The options --master and --conf of verbs that work on Spark."""

import os
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from highwater.cli.console import refuse

if TYPE_CHECKING:
    from highwater.dst.spark.saving import SaveOptions
    from highwater.dst.spark.session import SessionOptions

Master = Annotated[str, typer.Option("--master", help="Spark master: local[2], spark://.., yarn, sc://host:port (Connect) "
                                     "[default: that of spark-submit, else local]")]
Save = Annotated[str, typer.Option("--save", metavar="URL", help="also write the rows by Spark's writer, partitioned: to a "
                                   "URL, or for iceberg to a table")]
Format = Annotated[Literal["parquet", "delta", "iceberg"], typer.Option("--format", help="of --save, if the session has it")]
Conf = Annotated[list[str] | None, typer.Option("--conf", metavar="NAME=VALUE", help="a setting of Spark, which precedes all "
                                                "others; may be repeated")]


def session_options(verb: str, on_spark: bool, jobs: int | None, master: str, conf: list[str] | None,
                    remedy: str = "add --engine spark") -> "SessionOptions | None":
    """Return how to start a session for a verb, whose name the application gets; None for an engine that is not Spark. Refuses
    options of Spark for another engine, with a remedy, and settings that Spark does not have."""
    from highwater.dst.spark.session import SessionOptions

    if not on_spark and (master or conf):
        refuse(f"{'--master' if master else '--conf'} is for Spark: {remedy}")
    pairs = [each.partition("=") for each in conf or ()]
    for each, (name, separator, _) in zip(conf or (), pairs):
        if not separator or not name.startswith("spark."):
            refuse(f"--conf {each}: write NAME=VALUE, where NAME begins with spark.")
    settings = tuple((name, value) for name, _, value in pairs)
    return SessionOptions(jobs or os.cpu_count() or 1, master, settings, f"highwater {verb}") if on_spark else None


def save_options(save: str, format_: str, of_spark: "SessionOptions | None", remedy: str = "add --engine spark"
                 ) -> "SaveOptions | None":
    """Return where to save rows by Spark; None: nowhere. Refuses --save for another engine."""
    from highwater.dst.spark.saving import SaveOptions

    if save and not of_spark:
        refuse(f"--save is for Spark: {remedy}")
    return SaveOptions(save, format_) if save else None
