"""deltalake: `client.py append URL FROM TO` appends rows, one commit each; `compact URL`; `check URL` wants each row once."""

import os
import sys

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake


def append(url: str, first: str, last: str) -> None:
    for row in range(int(first), int(last)):
        write_deltalake(url, pa.table({"row": [row]}), mode="append")


def compact(url: str) -> None:
    DeltaTable(url).optimize.compact()


def check(url: str) -> None:
    rows = sorted(DeltaTable(url).to_pyarrow_table()["row"].to_pylist())
    assert len(rows) == len(set(rows)), f"rows {rows}"


if __name__ == "__main__":
    {"append": append, "compact": compact, "check": check}[sys.argv[1]](*sys.argv[2:])
    os._exit(0)  # deltalake 1.6.6 with pyarrow sometimes aborts when Python ends
