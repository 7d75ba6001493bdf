"""Safety: the clients of a database send only what they were shown a reason for.

    after the create of a numbered file   its task reads the boundary next
    create of a numbered file             its client was listed the file before, or has put it; an open writer knows it
    create, update of a boundary          its task has just read the boundary
    delete                                its client was listed the object
    a WAL object                          has no batch of which a caller was told that it is not written

What a client was shown is kept here, for the answers to its callers (answers.py). Two facts are of its own and of its tasks:

    a file that is known     the client created it, or got it as the latest one listed, and a boundary read after that is
                             behind it
    a look at the manifest   a listing whose last file is known; or a known file, and a boundary read after it

A response counts once its task goes on, or a caller is told something: until then it may be lost.
"""

import re
from itertools import groupby
from typing import Any, NamedTuple

from highwater.impl.codecs.destroyed import SEALED
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.layout import Namespace
from highwater.traces.event import EMPTY, Event
from highwater.traces.form import MUTATIONS
from highwater.traces.histories.versions import rows_in
from highwater.traces.protocols.database.rows import Rows, digest_of
from highwater.traces.recorded.systems.slatedb_layout import decoded

OWN, CURRENT = "its own", "the latest one that it has read"
LOOKS = ("get", "get_if_changed")  # reads of a boundary
IN_TURN = re.compile(r"/\w+ \d+$").search  # whether a task of a writer is one of those that are done one after the other


class Folder(NamedTuple):
    """A numbered sequence with a boundary: the manifests, or the compactions, of a database."""

    root: str
    name: str
    files: Namespace


class Known(NamedTuple):
    """A file of which a client knows that it is in the history."""

    folder: Folder
    id: int
    how: str  # OWN or CURRENT
    value: Any  # a Manifest, or Compactions
    at: int  # how many requests of this call its client had sent before


class Task:
    """One task of a client, and what it was shown."""

    def __init__(self):
        self.shown = EMPTY  # the last response that has reached it
        self.due = ""  # the boundary that it has to read next
        self.created: tuple[Folder, int, bytes] | None = None  # its file, until it reads the boundary
        # the listing that goes on: its prefix, its last key, and the key after which it began
        self.page: tuple[str, str, str] = ("", "", "")
        self.lost: tuple[str, str] = ("", "")  # the prefix of a page whose response was lost, and the key after which it began
        self.top: dict[str, str] = {}  # prefix -> the last key of its latest listing; "": there was none
        self.sent: dict[str, bytes] = {}  # WAL object -> what this task has asked to put there
        self.put: list[tuple[str, bytes]] = []  # the WAL objects that it has put since its last look


class Session:
    """An open writer."""

    def __init__(self, root: str, epoch: int, last: int):
        self.root, self.epoch = root, epoch
        self.last = last  # the id of the last WAL object that is its own, and acknowledged; the fence at first
        self.closed = False
        self.durable: dict[int, tuple[str, frozenset[bytes], int]] = {}  # number -> digest and values of its rows, WAL id
        self.asked: int | None = None  # `last` when the latest flush began of which its caller is not told yet
        self.flushed = 0  # the last WAL id that is flushed, by a known manifest


class Client:
    """One life of a client, with all its tasks. What is of this call counts from the last answer to its caller on."""

    def __init__(self):
        self.tasks: dict[str, Task] = {}
        self.unheard: dict[str, tuple[Event, int]] = {}  # task -> its last response, which may still be lost; the boundary then
        self.files: dict[str, bytes] = {}  # key -> the numbered files that it has got or put
        self.seen = ""  # the latest manifest that it has listed, and read a boundary after that
        self.session: Session | None = None
        self.reads = False  # it has an open reader
        self.claimed: Known | None = None  # of this call: the last known manifest of its own
        self.fence = 0  # of this call: the id of its last fence
        self.fenced = False  # something has shown it that there is another writer
        self.epoch = 0  # of the compactor that it has open
        self.named: set[str] = set()  # the SSTs that known manifests name since then
        self.compacted: set[str] = set()  # the compactions of which its caller was told
        self._begin()

    def _begin(self) -> None:
        """Begin a call."""
        self.requests, self.looked = 0, False
        self.known: list[Known] = []
        self.got: set[str] = set()  # the objects that it has got or put
        self.sent: dict[str, bytes] = {}  # object -> what it has asked to put there
        self.pages: list[tuple[str, ...]] = []  # the keys on each page that it was listed
        self.listed: dict[str, int] = {}  # prefix that was listed to its end -> number of keys
        self.ended: dict[str, int] = {}  # prefix -> the number of requests before its latest listing ended
        self.whole: set[str] = set()  # those of them that were listed from the first key on
        self.claimed, self.fence = None, 0
        self.sealed = False  # it has read a boundary that is ahead of all ids

    def of(self, root: str = "", name: str = "manifest", how: str = "") -> list[Known]:
        """Return the files of this call that are known, the latest first."""
        return [one for one in reversed(self.known) if one.folder.name == name
                and root in ("", one.folder.root) and how in ("", one.how)]


class Shown:
    """Keeps what the clients of one trace were shown. `roots`: the database, and its clone."""

    def __init__(self, roots: tuple[str, str]):
        self.roots = roots
        self.folders = {(root, name): Folder(root, name, Namespace(root, name))
                        for root in roots for name in ("manifest", "compactions")}
        self.by_prefix = {of.files.prefix: of for of in self.folders.values()}
        self.boundaries = {of.files.boundary_key: of for of in self.folders.values()}
        self.rows = Rows(roots)
        self.logs = self.rows.logs
        self.values = dict.fromkeys(self.boundaries, 0)
        self.clients: dict[str, Client] = {}
        self.written: set[bytes] = set()  # the values of rows that are in a WAL
        self.denied: set[bytes] = set()  # the batches that are in no WAL, as their callers were told

    # --- requests

    def observe(self, e: Event) -> str:
        """Note an event that is no answer to a caller. Return why its client cannot have sent it; "" if it can."""
        _, number, name, kind, op, key, _, status, _, body, _, _, awaited, _ = e
        value = 0
        if kind == "applied":
            if key in self.values and status in (200, 304):
                if status == 200 and op != "delete":
                    self.values[key] = int(body)
                value = self.values[key]
            elif op == "delete" and key in self.values:
                self.values[key] = 0
            elif op == "create" and status == 200 and key[:key.rfind("/") + 1] in self.logs and (
                    why := self._logs(e)):
                return why
            if not awaited:
                return ""
        process = name.partition("/")[0]
        client = self.clients.get(process)
        if client is None:
            client = self.clients[process] = Client()
        task = client.tasks.get(name)
        if task is None:
            task = client.tasks[name] = Task()
            if IN_TURN(name) and (why := self._begins(client, name)):
                return why
        last = client.unheard.pop(name, None)
        if last is not None and not (kind != "applied" and awaited and last[0].request == number):
            self._hears(client, task, *last)
        if kind == "crash":
            del self.clients[process]
            return ""
        client.requests += 1
        if task.due and (key != task.due or op not in LOOKS) and not (kind != "applied" and op == "create"):
            return f"{name} asks for {op} of {key}, and has not read {task.due} since it created a file"
        task.due = ""
        if op in MUTATIONS and (why := self._groundless(client, e, task.shown)):
            return why
        if op == "list":
            prefix, after = task.lost
            if key == prefix and e.condition > after and e.condition not in client.files:
                return f"{name} lists {key} after {e.condition}, and has lost the page that shows that"
            task.lost = ("", "") if kind == "applied" else (key, e.condition)
        if op == "create":
            task.sent[key] = client.sent[key] = body
        if kind == "applied":
            client.unheard[name] = e, value
        else:
            task.created, task.page = None, ("", "", "")
        return ""

    def _groundless(self, client: Client, e: Event, before: Event) -> str:
        """Return which read is missing before a create, a change of a boundary or a delete; "" if none is. `before`: what its
        task was shown last."""
        key = e.key
        if key in self.boundaries:
            if e.op != "delete" and (before.key != key or before.op not in LOOKS):
                return f"{e.client} changes {key}, and has not just read it"
            return ""
        if e.op == "delete":
            return "" if any(key in keys for keys in client.pages) else f"{e.client} deletes {key}, which it was not listed"
        of = self.by_prefix.get(key[:key.rfind("/") + 1])
        if of is None or e.op != "create" or client.session:
            return ""
        i = of.files.file_id(key) or 0
        base = of.files.key(i - 1)
        task = client.tasks[e.client]
        if of.files.prefix in client.listed if i == 1 else (
                task.top.get(of.files.prefix) == base or base in client.sent or any(base in keys for keys in client.pages)):
            return ""
        return f"{e.client} puts {key}, and has not listed the file before it"

    def _begins(self, client: Client, name: str) -> str:
        """A task of a writer begins: those before it have ended. Return which of them has left something out."""
        self._hears_all(client)
        if client.session and "/flush " in name:
            client.session.asked = client.session.last
        for before, task in client.tasks.items():
            if task.due and IN_TURN(before):
                return f"{before} has created a file, and {name} begins before it has read {task.due}"
        return ""

    def _hears_all(self, client: Client) -> None:
        """Note all responses that have arrived, in their order."""
        for name, last in client.unheard.items():
            self._hears(client, client.tasks[name], *last)
        client.unheard.clear()

    def _logs(self, e: Event) -> str:
        """Note the batches in a WAL object. Return which of them was denied."""
        values = {row.value for row in self.rows.log(e.key, e.body) if row.value}
        if denied := values & self.denied:
            return f"{e.client} puts {e.key} with {min(denied).decode()}, and its caller was told that it is not written"
        self.written |= values
        return ""

    def _hears(self, client: Client, task: Task, e: Event, boundary: int) -> None:
        """Note a response that has reached its task."""
        task.shown = e
        _, _, _, _, op, key, condition, status, _, body, keys, truncated, _, _ = e
        if op == "list":
            more = task.page[:2] == (key, condition) and bool(key)
            after = task.page[2] if more else condition
            client.pages.append(keys)
            if keys:
                task.top[key] = keys[-1]
            elif not more:
                task.top[key] = ""
            task.page = (key, keys[-1], after) if truncated and keys else ("", "", "")
            if not truncated:
                client.listed[key] = client.listed.get(key, 0) * more + len(keys)
                client.ended[key] = client.requests
                if not after:
                    client.whole.add(key)
                if client.seen and task.top[key] == client.seen:
                    self._looks(client, task, client.seen)
            elif more or keys:
                client.listed[key] = client.listed.get(key, 0) * more + len(keys)
            return
        if key in self.boundaries:
            if op in ("get", "get_if_changed"):
                self._checks(client, task, self.boundaries[key], boundary)
            return
        prefix = key[:key.rfind("/") + 1]
        if status == 200 and op in ("get", "create"):
            client.got.add(key)
        of = self.by_prefix.get(prefix)
        if of is not None:
            if status == 200 and op in ("get", "create"):
                client.files[key] = body
                if op == "create":
                    task.due, task.created = of.files.boundary_key, (of, of.files.file_id(key) or 0, body)
                elif of.name == "manifest":
                    self._meets(client, of, body)
        elif prefix in self.logs:
            self._hears_log(client, task, e, self.logs[prefix])

    def _meets(self, client: Client, of: Folder, body: bytes) -> None:
        """Note the epoch in a manifest that a client gets."""
        epoch = client.session.epoch if client.session else client.claimed.value.writer_epoch if client.claimed else 0
        value = decoded("manifest", body)
        if epoch and isinstance(value, Manifest) and value.writer_epoch > epoch:
            client.fenced = True

    def _hears_log(self, client: Client, task: Task, e: Event, log: Namespace) -> None:
        if e.op == "create" and e.status == 200:
            if e.body:
                task.put.append((e.key, e.body))
            else:
                client.fence = log.file_id(e.key) or 0
                client.looked = False
        elif e.op == "get" and e.status == 200:
            if e.body and task.sent.get(e.key) == e.body:
                task.put.append((e.key, e.body))
        elif e.op in ("create", "get"):
            client.fenced = True

    def _checks(self, client: Client, task: Task, of: Folder, boundary: int) -> None:
        """A task has read a boundary: it knows its own file, or the latest one."""
        client.sealed = client.sealed or boundary >= SEALED
        if task.created is not None and task.created[0] is of:
            _, i, body = task.created
            task.created = None
            if i > boundary:
                self._knows(client, Known(of, i, OWN, decoded(of.name, body), client.requests))
            return
        top = task.top.get(of.files.prefix, "")
        i = of.files.file_id(top) or 0
        body = client.files.get(top) if top in client.got or client.session else None
        if i > boundary and body is not None:
            self._knows(client, Known(of, i, CURRENT, decoded(of.name, body), client.requests))
            if of.name == "manifest":
                client.seen = top
                self._looks(client, task, top)

    def _knows(self, client: Client, known: Known) -> None:
        client.known.append(known)
        session = client.session
        if known.folder.name != "manifest":
            return
        if client.epoch:
            client.named |= known.value.named_ssts
        if known.how is OWN:
            client.claimed, client.fence = (known, 0) if not session and not client.fence else (client.claimed, client.fence)
        if session and known.folder.root == session.root:
            session.flushed = max(session.flushed, known.value.replay_after_wal_id)

    def _looks(self, client: Client, task: Task, key: str) -> None:
        """A task has seen which manifest is the latest. If that has the writer's epoch, what the task has put is durable."""
        client.looked = True
        session = client.session
        if session is None or not task.put:
            return
        value = decoded("manifest", client.files[key])
        for at, body in task.put if value.writer_epoch == session.epoch else ():
            i = self.logs[at[:at.rfind("/") + 1]].file_id(at) or 0
            for seq, rows in groupby(rows_in(at, body), key=lambda row: row.seq):
                those = [*rows]
                session.durable[seq] = digest_of(those), frozenset([row.value for row in those if row.value]), i
        task.put = []
