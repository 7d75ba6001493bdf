"""Safety: an event of a node is refused if no machine, no disk and no network can have caused it.

The nodes' machines, by what the trace shows of them: which nodes are up, which messages are under way, and what the files of
each disk have, as far as that is known. A message that arrives was sent. An operation of a disk is answered as the operations
before say. After a crash that lost bytes a disk is unknown, until it is read again.
"""

from functools import cache
from typing import Self

from highwater.traces.event import Event
from highwater.traces.trace import copied

OK, MISSING, LOCKED, FAILED, FULL = 200, 404, 423, 500, 507
OF_A_FILE = (OK, MISSING, FAILED)
ANSWERS = {  # operation of a disk -> statuses
    "lock": (OK, LOCKED, FAILED), "names": (OK, FAILED), "read": OF_A_FILE, "create": (OK, FAILED),
    "append": (*OF_A_FILE, FULL), "truncate": OF_A_FILE, "sync": OF_A_FILE, "rename": OF_A_FILE, "remove": OF_A_FILE,
    "sync_names": (OK, FAILED),
}
OF_THE_FOLDER = ("lock", "names", "sync_names")
RESTART = "Restart"  # the first step of a node: it needs all that its disk has. Its tasks end in the moment of a failure
LIVES = {"started": ("process",), "died": ("process", "machine")}
ANY = ""  # among the names of a folder: there may be further files
Files = dict[str, bytes | None]  # name -> content; None: unknown


@cache
def node_of(client: str) -> str:
    """Return the node that a client is, or is a task of."""
    return client.partition("/")[0]


class Machines:
    """The machines of one trace. Files and messages are replaced, never changed, so a copy is cheap."""

    def __init__(self) -> None:
        self.up: set[str] = set()
        self.last: dict[tuple[str, str], int] = {}  # client, kind -> number of its latest message or operation
        self.under_way: dict[int, tuple[str, str, bytes]] = {}  # message -> sender, receiver and content
        self.files: dict[str, Files] = {}  # node -> its files
        self.dirty: dict[str, frozenset[str]] = {}  # node -> files that no sync has covered since they were written
        self.unsynced: dict[str, frozenset[str]] = {}  # node -> names that no sync of its folder has covered
        self.locked: set[str] = set()  # nodes that have locked their folder
        self.failed: dict[str, int] = {}  # node -> when an operation of its disk failed
        self.ended: set[str] = set()  # nodes and tasks with an operation that failed
        self.arrived: dict[str, tuple[str, bytes]] = {}  # node -> sender and content of the latest message, until its step

    def __copy__(self) -> Self:
        return copied(self)

    def judge(self, e: Event) -> str:
        """Take an event of a node, or what a caller on its machine was told. Return why it is impossible; "" if it is not."""
        kind, client = e.kind, e.client
        node = node_of(client)
        if e.truncated or not e.awaited or e.pending or e.version:
            return f"an event that is {kind!r} has no version, page or request"
        if kind in LIVES:
            return self._lives(e, node)
        if node not in self.up:
            return f"{kind} {e.op} of {client}, and {node} is not up"
        if kind == "disk":
            return self._numbered(e) or operation(e) or self._on_disk(e, node)
        if kind in ("step", "sent") and node in self.failed and (e.t_ms > self.failed[node] or e.op == RESTART):
            return f"{kind} {e.op} of {client} after an operation of its disk has failed"
        if kind in ("sent", "received"):
            return self._on_message(e, client)
        if e.request or e.key or e.condition or e.status:
            return f"{kind} {e.op} of {client} with a request, a key, a condition or a status"
        return f"a step of {client} that lists {e.keys}" if kind == "step" and e.keys else ""

    def uncovered(self, node: str) -> frozenset[str]:
        """Return the files and the names of a node that no sync has covered since they were written."""
        return self.dirty.get(node, frozenset()) | self.unsynced.get(node, frozenset())

    # --- lives

    def _lives(self, e: Event, node: str) -> str:
        if node != e.client or e.op not in LIVES[e.kind] or e[1] or e.key or e.condition or e.status or e.body:
            return f"{e.client} {e.kind} as {e.op}"
        if e.keys and e.op == "process":
            return f"the disk of {node} lost something, and only its process ended"
        if e.kind == "started" and node in self.up:
            return f"{node} starts, and it is up"
        if e.kind == "started":
            self.up.add(node)
            return ""
        self.up.discard(node)
        self.locked.discard(node)
        self.failed.pop(node, None)
        self.ended = {client for client in self.ended if node_of(client) != node}
        self.arrived.pop(node, None)
        if e.keys:
            self.files[node] = {ANY: None}
        if e.op == "machine":  # what is left is durable
            self.dirty[node] = self.unsynced[node] = frozenset()
        return ""

    # --- messages

    def _numbered(self, e: Event) -> str:
        """Check that a client's messages, or its operations, have rising numbers."""
        of = e.client, e.kind
        before, self.last[of] = self.last.get(of, 0), e.request
        return "" if e.request > before else f"{e.kind} {e.op} of {e.client} has number {e.request}, after {before}"

    def _on_message(self, e: Event, client: str) -> str:
        if e.op != "message" or not e.key or e.condition or e.status or e.keys or bool(e.body) != (e.kind == "sent"):
            return f"a message of {client} that is none"
        if e.kind == "received":
            sender, receiver, content = self.under_way.get(e.request, ("", "", b""))
            if (sender, receiver) != (e.key, client):
                return f"{client} received message {e.request} of {e.key}, which nobody sent to it"
            self.arrived[client] = sender, content
            return ""
        if e.request in self.under_way:
            return f"{client} sends a message {e.request}, which is another one's number"
        self.under_way[e.request] = client, e.key, e.body
        return self._numbered(e)

    # --- disks

    def _on_disk(self, e: Event, node: str) -> str:
        op, name, status = e.op, e.key, e.status
        files = self.files.get(node, {})
        if (node in self.locked) == (op == "lock"):
            return f"{op} of {name!r} by {node}, which has {'' if node in self.locked else 'not '}locked its folder"
        if e.client in self.ended:
            return f"{op} of {name!r} by {e.client} after an operation of its has failed"
        if op == "lock" and status == OK:
            self.locked.add(node)
        if status not in (OK, MISSING):
            self.failed.setdefault(node, e.t_ms)
            self.ended.add(e.client)
        if op == "names":
            if status == OK:
                if any(name not in e.keys for name in files if name) or (ANY not in files and len(e.keys) != len(files)):
                    return f"{node} lists {', '.join(e.keys) or 'no file'}, and has {', '.join(sorted(files)) or 'none'}"
                self.files[node] = {name: files.get(name) for name in e.keys}
            return ""
        if op in OF_THE_FOLDER:
            if op == "sync_names" and status == OK:
                self.unsynced[node] = frozenset()
            return ""
        if op != "create" and (name in files if status == MISSING else status == OK and name not in files and ANY not in files):
            return f"{op} of {name} by {node} is answered with {status}, and the file is {'' if name in files else 'not '}there"
        if op == "read":
            known = files.get(name)
            if status == OK and known is not None and known != e.body:
                return f"{node} reads {len(e.body)} bytes of {name} that are not what was written there"
            if status == OK:
                self.files[node] = {**files, name: e.body}
        elif op == "sync":
            self.dirty[node] = self.dirty.get(node, frozenset()) - ({name} if status == OK else frozenset())
        elif status in (OK, FAILED):
            self.files[node] = changed(files, e) if status == OK else doubtful(files, e)
            self._wrote(e, node)
            if op == "rename" or (op == "create" and name not in files):
                self.unsynced[node] = self.unsynced.get(node, frozenset()) | {e.condition or name}
        return ""

    def _wrote(self, e: Event, node: str) -> None:
        """Note which files have bytes that no sync has covered. A rename takes them along."""
        dirty, name = self.dirty.get(node, frozenset()), e.key
        left = dirty - {name, e.condition if e.op == "rename" else name}
        written = e.op == "append" or (name in dirty and e.op in ("rename", "truncate"))
        self.dirty[node] = left | {e.condition if e.op == "rename" else name} if written else left


def operation(e: Event) -> str:
    """Return why an operation of a disk is none; "" if it is one."""
    op = e.op
    if e.status not in ANSWERS.get(op, ()) or (op in OF_THE_FOLDER) == bool(e.key):
        return f"{op} of {e.key!r} with status {e.status}"
    if bool(e.condition) != (op in ("rename", "truncate")) or (op == "truncate" and not e.condition.isdigit()):
        return f"{op} of {e.key!r} with {e.condition!r}"
    if e.keys and (op != "names" or e.status != OK or list(e.keys) != sorted({*e.keys}) or not all(e.keys)):
        return f"{op} of {e.key!r} that lists {', '.join(e.keys)}"
    if op == "append" and not e.body:
        return f"nothing is appended to {e.key!r}"
    if e.body and not (op == "append" or (op == "read" and e.status == OK)):
        return f"{op} of {e.key!r} with {len(e.body)} bytes"
    return ""


def changed(files: Files, e: Event) -> Files:
    """Return the files after an operation that took effect."""
    op, name, content = e.op, e.key, files.get(e.key)
    if op == "create":
        return {**files, name: b""}
    if op == "append":
        return {**files, name: None if content is None else content + e.body}
    if op == "truncate":
        size = int(e.condition)
        return {**files, name: None if content is None else content[:size].ljust(size, b"\0")}
    others = {of: held for of, held in files.items() if of != name}
    return others if op == "remove" else {**others, e.condition: content}


def doubtful(files: Files, e: Event) -> Files:
    """Return the files after an operation that failed: it may have taken effect, or a part of it."""
    if e.op in ("append", "truncate"):
        return {**files, e.key: None}
    return {ANY: None, **{name: held for name, held in files.items() if name not in (e.key, e.condition)}}
