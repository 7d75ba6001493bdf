"""Read the footers of an index's objects on Spark. Safety: the rows are those of local processes."""

import base64
from collections.abc import Iterator, Sequence
from typing import Any

from highwater.dst.bulk.footers import Listed, Read
from highwater.dst.spark.session import SessionOptions, session, slots
from highwater.dst.spark.shipping import shipped
from highwater.dst.spark.tasks import answers
from highwater.dst.version import code_version

Part = tuple[int, list[Listed]]  # its number; its objects
WAVE = 8  # parts for each task that runs at once, whose rows come to the driver together


def on_spark(options: SessionOptions) -> Any:
    """Return the engine; see `Engine` in highwater/index/rebuild.py. Raises NoSpark, CampaignError."""
    def engine(url: str, endpoint: str, parts: Sequence[Part]) -> Iterator[tuple[int, list[Read]]]:
        if parts:
            with session(options) as spark:
                yield from of_session(spark)(url, endpoint, parts)

    return engine


def of_session(spark: Any) -> Any:
    """Return the engine of a session that runs."""
    def engine(url: str, endpoint: str, parts: Sequence[Part]) -> Iterator[tuple[int, list[Read]]]:
        module = shipped(code_version())
        at_once = WAVE * slots(spark)
        for begin in range(0, len(parts), at_once):
            some = parts[begin:begin + at_once]
            tasks = [(url, endpoint, objects) for _, objects in some]
            what = f"footers of {url}, {sum(len(objects) for _, objects in some):,} objects"
            for (number, _), rows in zip(some, answers(spark, module, "highwater.dst.bulk.footers", "as_json", tasks, what)):
                yield number, [(key, size, reason, base64.b64decode(body)) for key, size, reason, body in rows]

    return engine
