"""Lance: `client.py append URL FROM TO` appends rows, one commit each; `check URL`: each row is there once."""

import os
import sys

import lance
import pyarrow as pa

OPTIONS = {"allow_http": "true", "aws_endpoint": os.environ["AWS_ENDPOINT_URL"], "aws_region": "us-east-1"}


def append(url: str, first: str, last: str) -> None:
    for row in range(int(first), int(last)):
        lance.write_dataset(pa.table({"row": [row]}), f"{url}/rows.lance", mode="append" if row else "create",
                            storage_options=OPTIONS)


def check(url: str) -> None:
    rows = sorted(lance.dataset(f"{url}/rows.lance", storage_options=OPTIONS).to_table()["row"].to_pylist())
    assert len(rows) == len(set(rows)), rows


if __name__ == "__main__":
    {"append": append, "check": check}[sys.argv[1]](*sys.argv[2:])
    os._exit(0)
