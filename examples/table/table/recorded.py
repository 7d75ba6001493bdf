"""Safety: in a log of requests to a store, each PUT of the table and each DELETE of a data file is a step of model.py.

Any client of the log may commit and clean. It is judged by the table that it read last. The log does not show what lies before
its beginning: a client that has read no table is not judged until it has.
"""

from highwater.traces.recorded.judge import no_action, take
from highwater.traces.recorded.machine import Machine
from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3log import Request
from highwater.traces.recorded.s3store import ABSENT, Change, Key

from . import model as m
from .impl import FILES, TABLE, name_of
from .mapping import file_of, table_of

MODELS = {"table": f"{TABLE} and {FILES}"}
CONSTANTS = m.Constants(COMMITS=None)


def is_metadata(key: Key) -> bool:
    return key[1] == TABLE or key[1].startswith(FILES)


def machine() -> Machine:
    return Log().machine


class Log:
    """Remember the table that each client of a log has read, and judge what it puts and deletes."""

    def __init__(self) -> None:
        self.machine = Machine(self.judged)
        self.store = self.machine.store
        self.base: dict[str, m.Table] = self.store.table()  # client -> the table that it read, until it replaces it

    def judged(self, change: Change) -> Refusal | None:
        request, key, op, _ = change
        failed = request.answered and not 200 <= request.status < 300
        if op == "get" and key[1] == TABLE and request.status == 200:
            return self.store.put(self.base, request.client, table_of(request.got_body.data or b""))
        if op == "put" and key[1] == TABLE:
            return self.machine.count("CommitConflict") if failed else self.commits(request, key)
        if op == "put" and key[1].startswith(FILES) and not failed:
            return self.machine.count("StoreFile")
        if op == "delete" and key[1].startswith(FILES) and not failed:
            return self.deletes(request, key)
        return None

    def now(self, bucket: str) -> m.Table | None:
        """Return the table that the store has; None if the log does not show it."""
        key = bucket, TABLE
        body = self.store.bodies.get((key, self.store.version(key) or ABSENT))
        return table_of(body.data) if body and body.data else None

    def commits(self, request: Request, key: Key) -> Refusal | None:
        table, base, now = table_of(request.sent_body.data or b""), self.base.get(request.client), self.now(key[0])
        if base is None or now is None:
            return self.machine.grant("a client has read the table: the log does not show it")
        if not table.files:
            return no_action(f"{request.client} puts a table that names no file")
        # The facts on which the action depends: the table, the files that are there, what the writer read and adds.
        # `take` judges process 0, so the file is that of writer 0.
        number, writer, k = table.files[-1]
        new = key[0], FILES + name_of(number, f"{writer}.{k}")
        there = {(number, 0, k)} if self.store.version(new) != ABSENT else set()
        refusal = take(
            m, CONSTANTS, "Commit", m.Shared(now, frozenset({*base.files, *there})), m.Writer("Stored", base, k),
            lambda: f"{request.client} puts table {table.number}; it read {base.number}, and {now.number} is there",
            shows="NamedIsThere",
            leads=lambda s: (s.table.number, s.table.files[:-1]) == (table.number, table.files[:-1]) and number == table.number)
        if refusal:
            return refusal
        self.store.put(self.base, request.client, None)  # drops the entry: it has to read the table again
        return self.machine.count("Commit")

    def deletes(self, request: Request, key: Key) -> Refusal | None:
        file, base, now = file_of(key[1].removeprefix(FILES)), self.base.get(request.client), self.now(key[0])
        if base is None or now is None:
            return self.machine.grant("a client has read the table: the log does not show it")
        # Only this file: Delete yields a step for each file, and `take` looks at the first.
        names = tuple(one for one in now.files if one == file)
        return take(
            m, CONSTANTS, "Delete", m.Shared(m.Table(now.number, names), frozenset({file})), m.Cleaner("Cleaning", base),
            lambda: f"{request.client} deletes {key[1]}; it read table {base.number}, and {now.number} is there",
            shows="NamedIsThere") or self.machine.count("Delete")
