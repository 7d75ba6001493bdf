"""Safety: every request of a trace is an action of model.py, and each response to a caller agrees with the model.

A data file's name has the number of the commit and the update, "writer.k". Whether the
response to a PUT of the table arrives shows only later: the model's writer waits in "Committed", and either Acknowledge or
LoseReply follows.
"""

from highwater import Event, Match, Refiner
from highwater.traces import trace
from highwater.traces.form import Keys
from highwater.traces.refine import STUTTER
from highwater.traces.trace import refiner_without_witnesses, update_of

from . import model as m
from .impl import FILES, TABLE, decode, name_of, number_of

KEYS = Keys("db/", listed=(FILES,), single=(TABLE,))  # each object that the protocol touches


def refiner(roles: tuple[int, int]) -> Refiner:
    """Return a refiner whose model has no bounds, for so many writers and cleaners."""
    writers, cleaners = roles
    return refiner_without_witnesses(m.model(m.Constants(
        WRITERS=writers, CLEANERS=cleaners, COMMITS=None, MAX_PENDING=None, MAX_LOST=None, MAX_CRASHES=None)))


def file_of(name: str) -> m.File:
    """Return the model's file of a name. Raises ValueError for a name of another form."""
    file = (number_of(name), *update_of(name.partition("-")[2]))
    if name != name_of(file[0], name.partition("-")[2]):
        raise ValueError(f"{name!r} is no name of a file")
    return file


def table_of(body: bytes) -> m.Table:
    """Return the model's table of a content. Raises ValueError for a content of another form."""
    number, names = decode(body)
    return m.Table(number, tuple(map(file_of, names)))


class Trace(trace.Trace):
    """Checks one trace."""

    def _updates(self, e: Event) -> list[str]:
        return [name.partition("-")[2] for name in decode(e.body).names] if e.key == TABLE else []

    # --- a request that was applied, whose client waits for the response

    def _answered(self, e: Event) -> Match:
        if e.key == TABLE and e.op == "get":
            table = table_of(e.body)
            return Match(e.client, ("ReadTable",), (), lambda a, s, l, s2, l2: s.table == table)
        if e.key == TABLE and e.op == "update":
            table = table_of(e.body)
            action = "Commit" if e.status == 200 else "CommitConflict"
            return Match(e.client, (action,), (), lambda a, s, l, s2, l2: puts(e.client, l, table))
        if e.op == "list":
            return Match(e.client, (STUTTER,))  # the store's rules say what a page shows; it gives a cleaner no right to delete
        if e.op == "put" and e.key != TABLE:
            file = file_of(e.key.removeprefix(FILES))
            return Match(e.client, ("StoreFile",), (), lambda a, s, l, s2, l2: stores(e.client, l, file))
        if e.op == "delete":
            return Match(e.client, ("Delete",), (file_of(e.key.removeprefix(FILES)),))
        raise self._no_action(e, status=True)

    # --- a request whose client got no response, or a status that says nothing about the object

    def _unanswered(self, e: Event) -> Match:
        if e.key != TABLE or e.op == "get" or e.pending or (e.kind == "refused" and e.status < 500):
            return Match(e.client, (STUTTER,), op=e.op)  # it is asked again; or it is in the pool; or nothing has happened
        table = table_of(e.body)
        return Match(e.client, ("LoseReply", "GiveUp", "SendCommit"), (), lambda a, s, l, s2, l2: (
            table.files[-1][2] == l.k if a == "GiveUp" else l.pc == "Committed" or puts(e.client, l, table)))

    # --- a mutation that may be applied after its client has stopped waiting: it is in the model's pool

    def _request(self, e: Event) -> tuple:
        if e.key == TABLE:
            return "Commit", *table_of(e.body)
        return "Store" if e.op == "put" else "Delete", 0, (file_of(e.key.removeprefix(FILES)),)

    def _sends(self, event: tuple) -> Match:
        *_, client, request = event
        choices = request[2] if request[0] == "Delete" else ()
        return Match(client, (f"Send{SENT[request[0]]}",), choices, lambda a, s, l, s2, l2: (
            s2.pool.count(request) > s.pool.count(request)))

    def _arrives(self, event: tuple) -> Match:
        *_, request, status = event
        return Match("", ("ApplyPending",), (request,), lambda a, s, l, s2, l2: (
            request[0] != "Commit" or (s2.table != s.table) == (status == 200)))

    # --- what callers were told

    def _told_of(self, e: Event) -> str:
        writer, k = update_of(e.body.decode())
        if e.client != f"Writer#{writer}" or e.key:
            raise self._misled(e, "that is another writer's commit")
        if e.op == "committed":
            return self._tells(e, Match(e.client, ("Acknowledge",), (), lambda a, s, l, s2, l2: l.k == k))
        if e.op == "failed":
            return self._says(e, lambda s, l: l.k == k and l.pc != "Committed" and is_nowhere(s, (writer, k)))
        return self._says(e, lambda s, l: l.k == k + 1 and all(file[1:] != (writer, k) for file in s.acked))


SENT = {"Store": "File", "Commit": "Commit", "Delete": "Delete"}  # request in the pool -> the action that sends it


def number(client: str) -> int:
    return int(client.partition("#")[2])


def stores(client: str, w: m.Writer, file: m.File) -> bool:
    """Return whether this is the file that the writer stores next."""
    return file == m.file_of(number(client), w)


def puts(client: str, w: m.Writer, table: m.Table) -> bool:
    """Return whether this is the table that the writer puts next."""
    return w.pc == "Stored" and table == m.table_of(number(client), w)


def is_nowhere(s: m.Shared, update: tuple[int, int]) -> bool:
    """Return whether the commit is not in the table, and no request in flight can bring it there."""
    tables = (s.table.files, *(files for op, _, files in s.pool if op == "Commit"))
    return all(file[1:] != update for files in tables for file in files)
