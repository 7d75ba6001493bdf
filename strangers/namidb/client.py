"""NamiDB: `client.py insert URL FROM TO` creates a node for each row, a commit each; `check URL`: each row is there once."""

import os
import sys

import namidb


def opened(url: str) -> namidb.Client:
    return namidb.Client(f"{url}?ns=rows&endpoint={os.environ['AWS_ENDPOINT_URL']}&allow_http=true&region=us-east-1")


def insert(url: str, first: str, last: str) -> None:
    client = opened(url)
    for row in range(int(first), int(last)):
        client.cypher("CREATE (r:Row {row: $row})", params={"row": row})


def check(url: str) -> None:
    rows = sorted(row["row"] for row in opened(url).cypher("MATCH (r:Row) RETURN r.row AS row").rows())
    assert len(rows) == len(set(rows)), rows


if __name__ == "__main__":
    {"insert": insert, "check": check}[sys.argv[1]](*sys.argv[2:])
