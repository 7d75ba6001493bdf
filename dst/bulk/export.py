"""Write the events of runs as Parquet or NDJSON, in the form that `trace check` reads."""

import json
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from highwater.dst.bulk.sources import EVENT_VERSION
from highwater.dst.scenarios import named
from highwater.dst.simulate import Outcome
from highwater.traces.event import Event, to_json, version_of

TEXT = pa.string()
SCHEMA = pa.schema([
    ("run", TEXT), ("protocol", TEXT), ("options", TEXT), ("index", pa.int64()), ("t_ms", pa.int64()), ("request", pa.int64()),
    ("client", TEXT), ("kind", TEXT), ("op", TEXT), ("key", TEXT), ("condition", TEXT), ("status", pa.int64()),
    ("version", TEXT), ("body", pa.binary()), ("keys", pa.list_(TEXT)), ("truncated", pa.bool_()), ("awaited", pa.bool_()),
    ("pending", pa.bool_()),
])
GROUP_EVENTS = 100_000  # in a row group


class Export:
    """A file that is written run by run. It appears under its name only when it is closed without an exception."""

    def __init__(self, file: Path):
        self.file, self.half = file, file.with_name(f".{file.name}.writing")
        self.parquet = file.suffix == ".parquet"
        self.columns: list[list] = [[] for _ in SCHEMA]
        self.version = 1  # of the events
        self.out: Any = None

    def __enter__(self) -> "Export":
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.out = pq.ParquetWriter(self.half, SCHEMA) if self.parquet else open(self.half, "w")
        return self

    def outcome(self, outcome: Outcome) -> None:
        """Write a run of the simulator, with the options that `trace check` needs for it."""
        options = named(outcome.scenario).trace_options(outcome.shape)
        self.add(str(outcome.seed), outcome.scenario, " ".join(options), outcome.events)

    def add(self, run: str, protocol: str, options: str, events: list[Event]) -> None:
        self.version = max(self.version, *map(version_of, events), 1)
        if not self.parquet:
            ours = {"run": run, "protocol": protocol, "options": options}
            for index, event in enumerate(events):
                fields = json.loads(to_json(event)) | ours | {"index": index}
                self.out.write(json.dumps(fields, sort_keys=True, separators=(",", ":")) + "\n")
            return
        for column, values in zip(self.columns, zip(*((run, protocol, options, index, *event)
                                                      for index, event in enumerate(events)))):
            column += values
        if len(self.columns[0]) >= GROUP_EVENTS:
            self.flush()

    def flush(self) -> None:
        self.out.write_table(pa.Table.from_arrays([pa.array(column, field.type) for column, field in zip(self.columns, SCHEMA)],
                                                  schema=SCHEMA))
        self.columns = [[] for _ in SCHEMA]

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.parquet and kind is None and self.columns[0]:
            self.flush()
        if self.parquet and self.version > 1:
            self.out.add_key_value_metadata({EVENT_VERSION: str(self.version)})
        self.out.close()
        if kind is None:
            self.half.replace(self.file)
        else:
            self.half.unlink(missing_ok=True)
