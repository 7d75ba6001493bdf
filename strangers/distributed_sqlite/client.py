"""distributed-sqlite: `client.py create URL`; `insert URL FROM TO`: a commit for each row; `check URL`: each row once."""

import sqlite3
import sys
from typing import Any

from distributed_sqlite.cache import SnapshotCache
from distributed_sqlite.engine import bootstrap, open_connection

put = SnapshotCache.put


def put_if_possible(*arguments: Any) -> None:
    """SQLite 3.40 cannot serialize an empty database, so its snapshot is not cached."""
    try:
        put(*arguments)
    except sqlite3.OperationalError:
        pass


SnapshotCache.put = put_if_possible


def place(url: str) -> tuple[str, str]:
    bucket, _, prefix = url.removeprefix("s3://").partition("/")
    return bucket, prefix or "db"


def create(url: str) -> None:
    bootstrap(*place(url))
    with open_connection(*place(url)) as connection:
        connection.cursor().execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT)")
        connection.commit()


def insert(url: str, first: str, last: str) -> None:
    for row in range(int(first), int(last)):
        with open_connection(*place(url)) as connection:
            connection.cursor().execute(f"INSERT INTO rows (name) VALUES ('row {row}')")
            connection.commit()


def check(url: str) -> None:
    with open_connection(*place(url)) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT name FROM rows")
        names = [name for name, in cursor.fetchall()]
    assert len(names) == len(set(names)), names


if __name__ == "__main__":
    {"create": create, "insert": insert, "check": check}[sys.argv[1]](*sys.argv[2:])
