"""Safety: a query ends once it is above a limit, or once nobody waits for it, within few steps.

A query counts what it reads and holds as it goes. The counts depend on rows and request only, so they are the same in every
run. Its time is its caller's: `stop` ends it from outside, also if its steps run in a thread.
"""

from highwater.impl.errors import Definite

PAIR_BYTES = 160  # in memory, of a name and a value in a label set
DATASET_BYTES = 128  # of a dataset in columns
ROWS = 10_000_000
HELD_BYTES = 256 << 20


class QueryTooCostly(Definite):
    """The query reads or holds more than this node allows one query. The message says what, and what to narrow."""


class QueryStopped(Definite):
    """Nobody waits for the answer any more."""


class Meter:
    """The rows that one query has read, and the memory that it holds. `most_rows`: that it may read; `most_bytes`: that it may
    hold at a time, estimated."""

    def __init__(self, most_rows: int = ROWS, most_bytes: int = HELD_BYTES):
        self.most_rows, self.most_bytes = most_rows, most_bytes
        self.rows = self.held = 0
        self.stopped = False

    def stop(self) -> None:
        """Let the next step raise QueryStopped."""
        self.stopped = True

    def check(self) -> None:
        """Raises QueryStopped."""
        if self.stopped:
            raise QueryStopped("the query was stopped")

    def read(self, rows: int = 1) -> None:
        """Count rows. Raises QueryTooCostly, QueryStopped."""
        self.check()
        self.rows += rows
        if self.rows > self.most_rows:
            raise QueryTooCostly(f"the query reads more than {self.most_rows:,} rows: ask for a shorter time, or for fewer "
                                 "tenants or shards")

    def hold(self, size_bytes: int) -> None:
        """Count memory until `release`. Raises QueryTooCostly, QueryStopped."""
        self.check()
        self.held += size_bytes
        if self.held > self.most_bytes:
            raise QueryTooCostly(f"the query needs more than {self.most_bytes:,} bytes of memory: ask for a shorter time, or "
                                 "for fewer tenants, shards or labels")

    def release(self, size_bytes: int) -> None:
        self.held -= size_bytes
