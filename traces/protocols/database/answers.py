"""Safety: what a call on a database returns to its caller rests on requests that were applied for this call before.

The models judge the requests of a database, and know no callers. So nobody else notices that a caller is told of a write whose
object is not there yet, or of another one's. Here each answer is tied to the requests of its own client and of its tasks. What
a known manifest is, and a look, is in shown.py:

    write                 its rows, with the number that is claimed, are in a WAL object that a task put, and a look after that
                          shows no other writer
    open                  a known manifest has the claimed epoch; then a fence was put, and then a look was taken
    flush                 a known manifest has flushed all that was written before
    checkpoint, take ..   a known manifest lists the claimed checkpoint, or lacks it
    other calls           see RULES

What reads show is not judged here, but at the end of a run (traces/histories/versions.py).
"""

from collections.abc import Callable

from highwater.impl.codecs.destroyed import SEALED, mark_of
from highwater.impl.codecs.manifest import Manifest
from highwater.impl.codecs.slatedb.tables import COMPLETED
from highwater.impl.layout import Namespace
from highwater.traces.calls import RETURNED
from highwater.traces.event import Event
from highwater.traces.protocols.database.shown import CURRENT, OWN, Client, Folder, Known, Session, Shown
from highwater.traces.recorded.systems.slatedb_layout import decoded

OF_A_WRITER = ("open", "write", "flush", "poll", "checkpoint", "get", "scan")
CALLS_OF = {  # role -> its calls
    "Writer": OF_A_WRITER, "Reader": ("follow", "get", "scan"), "Compactor": ("begin", "compact"), "Collector": ("collect",),
    "Operator": ("take", "refresh", "delete", "view", "get", "scan"), "Destroyer": ("mark", "fence", "finish"),
    "Cloner": (*OF_A_WRITER, "follow", "begin", "compact", "clone", "take", "detach"),
}
IN_SESSION = OF_A_WRITER[1:]  # the calls of an open writer; a reader has the last two
ENDS = ("FencedUnapplied", "Closed")  # after these answers a writer is closed
KNOWN_BY = (  # errors that rest on a file that is known
    "CheckpointMissing", "CheckpointEnded", "DatabaseDestroyed", "InvalidDeletion", "NotInitialized", "NotMarked", "GraceRuns",
    "FencedInDoubt", "OtherParent")
Rule = Callable[["Answers", Client, Event, dict[str, str]], str]  # -> why an answer is untrue; "" if it is true


class Answers(Shown):
    """Ties the answers to the callers of one trace to requests."""

    def told(self, e: Event, claims: tuple[str, ...]) -> str:
        """Note an answer to a caller, whose claims have these names. Return why it is untrue; "" if it is true."""
        client = self.clients.get(e.client)
        if client is None:
            client = self.clients[e.client] = Client()
        self._hears_all(client)
        why = self._untrue(e, client, claims)
        client._begin()
        return why

    def _untrue(self, e: Event, client: Client, claims: tuple[str, ...]) -> str:
        role = e.client.partition("#")[0]
        own = client.tasks.get(e.client)
        if own is not None and own.due:
            due, own.due = own.due, ""
            if e.keys[1:2] != ("TimedOut",):  # the caller may stop waiting at any moment
                return f"it has not read {due} since it created a file"
        if not e.keys:
            return self._closes(client, role) if e.op == "closed" else "it does not say which call it answers"
        call, result, kind, *rest = e.keys
        if call not in CALLS_OF.get(role, ()):
            return f"no {role} makes this call"
        values = {name: value for name, _, value in (claim.partition("=") for claim in rest)}
        if (*values,) != claims or len(rest) != len(claims):
            return f"by the table of calls its claims are {', '.join(claims) or 'none'}"
        session = client.session
        if call in IN_SESSION and not (session or (client.reads and call in ("get", "scan"))):
            return "it has not opened anything"
        if kind != RETURNED:
            return self._fails(e, client, call, result)
        if session and session.closed and call in IN_SESSION and not client.reads:
            return "its writer is closed"
        rule = RULES.get(call)
        return rule(self, client, e, values) if rule else ""

    def _closes(self, client: Client, role: str) -> str:
        """A caller closes its writer, or its reader."""
        if not (client.session or client.reads) or role not in ("Writer", "Reader", "Cloner"):
            return "it has not opened anything"
        for name, task in client.tasks.items():
            if task.due:
                return f"{name} has not read {task.due} since it created a file"
        client.session, client.reads, client.tasks = None, False, {}
        return ""

    def _fails(self, e: Event, client: Client, call: str, result: str) -> str:
        """A call has raised an error."""
        if call not in IN_SESSION and not client.requests:
            return "this call has sent no request"
        if result == "FencedUnapplied" and not client.fenced:
            return "nothing has shown it that there is another writer"
        if result in KNOWN_BY and call not in IN_SESSION and not client.known:
            return "it knows no file that says so"
        if result == "InvalidBoundary" and call not in IN_SESSION and not client.sealed:
            return "it has read no boundary that is ahead of all ids"
        if client.session and result in ENDS:
            client.session.closed = True
        if call == "write" and e.keys[2] == "definite":
            if e.body in self.written:
                return "it is in the WAL"
            self.denied.add(e.body)
        return ""


# --- the rules of the calls that return

def opens(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    claimed = client.claimed
    if claimed is None or str(claimed.value.writer_epoch) != claims["epoch"]:
        return "it knows no manifest of its own with this epoch"
    if not client.fence:
        return "it has put no fence since then"
    if not client.looked:
        return "it has not looked at the manifest after it had put its fence"
    log = Namespace(claimed.folder.root, "wal")
    if left := [i for i in range(claimed.value.replay_after_wal_id + 1, client.fence) if log.key(i) not in client.got]:
        return f"it has not read {log.key(left[0])}"
    client.session, client.fenced = Session(claimed.folder.root, claimed.value.writer_epoch, client.fence), False
    return ""


def writes(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    session = client.session
    assert session is not None, "it is open"
    seq, _, digest = claims["rows"].partition(" ")
    found = session.durable.pop(int(seq), None)
    if found is None:
        return f"it has put no object with number {seq} into the WAL, and then looked at the manifest"
    if found[0] != digest or not found[1] <= {e.body}:
        return f"the rows with number {seq} are not those of this batch"
    session.last = max(session.last, found[2])
    return ""


def flushes(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    session = client.session
    assert session is not None, "it is open"
    last, session.asked = session.last if session.asked is None else session.asked, None
    if session.flushed < last:
        return f"WAL object {last} is its own, and no manifest that it knows has flushed more than {session.flushed}"
    return ""


def polls(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    return "" if client.looked else "it has not looked at the manifest"


def checkpoints(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    session = client.session
    assert session is not None, "it is open"
    if not client.looked:
        return "it has not looked at the manifest"
    if (found := listing(client, claims["checkpoint"], session.root)) is None or not is_taken(client, found, claims):
        return "no manifest that it knows lists this checkpoint, or it has not put the one that the checkpoint keeps"
    return "" if found.value.wal_id_last_seen >= session.last or found.value.replay_after_wal_id >= session.last else (
        f"that manifest has not seen WAL object {session.last}")


def is_taken(client: Client, known: Known, claims: dict[str, str]) -> bool:
    """Return whether this call has asked to put the manifest that a listed checkpoint keeps, and that lists it."""
    kept = next(one.manifest_id for one in known.value.checkpoints if one.id == claims["checkpoint"])
    body = client.sent.get(known.folder.files.key(kept))
    return body is not None and lists(decoded("manifest", body), claims["checkpoint"])


def lists(manifest: Manifest, checkpoint: str) -> bool:
    return any(one.id == checkpoint for one in manifest.checkpoints)


def listing(client: Client, checkpoint: str, root: str = "", how: str = "") -> Known | None:
    """Return the last manifest that a client knows by this call, if it lists a checkpoint."""
    found = next(iter(client.of(root, how=how)), None)
    return found if found and lists(found.value, checkpoint) else None


def changes(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    """A checkpoint is taken, renewed or deleted."""
    how = OWN if e.keys[1] == "Committed" else CURRENT
    last = next(iter(client.of(how=how)), None)
    if last is None:
        return f"it knows no manifest that is {how}"
    call, checkpoint = e.keys[0], claims["checkpoint"]
    listed = lists(last.value, checkpoint)
    if listed == (call == "delete"):
        return f"manifest {last.id} {'lists' if listed else 'does not list'} the checkpoint"
    if call == "take":
        return "" if is_taken(client, last, claims) else "it has not put the manifest that the checkpoint keeps"
    before = client.files.get(last.folder.files.key(last.id - 1)) if how is OWN else None
    if before is not None and not lists(decoded("manifest", before), checkpoint):
        return "that manifest is its own, and the one before does not list the checkpoint"
    return ""


def follows(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    """A reader has opened: it has the manifest that a checkpoint keeps, and the WAL objects that this has seen."""
    found = listing(client, claims["checkpoint"])
    if found is None:
        return "no manifest that it knows lists its checkpoint"
    folder, log = found.folder, Namespace(found.folder.root, "wal")
    if e.keys[0] == "follow" and (log.prefix not in client.listed or not is_taken(client, found, claims)):
        return f"it has not listed {log.prefix}, or has not put the manifest that its checkpoint keeps"
    kept = next(one.manifest_id for one in found.value.checkpoints if one.id == claims["checkpoint"])
    if folder.files.key(kept) not in client.got:
        return f"it has not read manifest {kept}, which its checkpoint keeps"
    manifest = decoded("manifest", client.files[folder.files.key(kept)])
    for i in range(manifest.replay_after_wal_id + 1, manifest.wal_id_last_seen + 1):
        if log.key(i) not in client.got:
            return f"it has not read {log.key(i)}, which its checkpoint has seen"
    client.reads = True
    return ""


def begins(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    epoch = int(claims["epoch"])
    if not any(one.value.compactor_epoch == epoch for one in client.of(how=OWN)):
        return "it knows no manifest of its own with this epoch"
    if not any(one.value.compactor_epoch == epoch for one in client.of(name="compactions")):
        return "it knows no compactions file with this epoch"
    client.epoch = epoch
    return ""


def compacts(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    if not client.epoch:
        return "it has opened no compactor"
    if e.keys[1] == "NoneType":
        return "" if client.of(how=CURRENT) else "it has not read the latest manifest"
    files = client.of(name="compactions")
    job = claims["compaction"]
    if not files or any(one.id == job and one.status != COMPLETED for one in files[0].value.recent_compactions):
        return "it knows no compactions file in which this one is completed"
    if job in client.compacted or not has_completed(client, e.client, files[0].folder, job):
        return "it is another one's, or an earlier call has compacted it"
    client.compacted.add(job)
    return "" if client.named >= {*claims["outputs"].split()} else "no manifest that it knows names the outputs"


def has_completed(client: Client, name: str, folder: Folder, compaction: str) -> bool:
    """Return whether a client has asked to put a file in which a compaction is completed, and in the one before it is not."""
    for key, body in client.tasks[name].sent.items():
        before = client.files.get(folder.files.key((folder.files.file_id(key) or 1) - 1)) if key.startswith(
            folder.files.prefix) else None
        if before and status_of(folder, body, compaction) == COMPLETED != status_of(folder, before, compaction):
            return True
    return False


def status_of(folder: Folder, body: bytes, compaction: str) -> int | None:
    """Return the status of a compaction in a file; None if it is not listed."""
    return next((one.status for one in decoded(folder.name, body).recent_compactions if one.id == compaction), None)


def collects(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    why = "it knows no manifest"
    for last in {one.folder.root: one for one in reversed(client.of())}.values():  # of each database the latest
        root = last.folder.root
        left = sorted({f"{root}/{name}/" for name in ("manifest", "compactions", "compacted", "wal")} - client.whole)
        late = not left and last.at < client.ended[f"{root}/compacted/"]
        if not (left or late):
            return ""
        why = f"it has not listed {left[0]} to its end" if left else (
            f"it has listed {root}/compacted/ after it had read the latest manifest")
    return why


def clones(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    how = OWN if e.keys[1] == "Committed" else CURRENT
    last = next(iter(client.of(of.roots[1], how=how)), None)
    if last is None or not last.value.initialized:
        return "it knows no manifest of the clone that is initialized"
    for one in last.value.external_dbs:
        needed = last.value.uses(one) or (how is OWN and one == last.value.external_dbs[0])
        if needed and listing(client, one.final_checkpoint_id or "", one.path) is None:
            return f"no manifest of {one.path} that it knows lists the final checkpoint"
    if how is OWN:
        log = Namespace(last.folder.root, "wal")
        for i in range(last.value.replay_after_wal_id + 1, last.value.wal_id_last_seen + 1):
            if log.key(i) not in client.tasks[e.client].sent:
                return f"it has not copied {log.key(i)}"
    return ""


def detaches(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    if not (known := client.of(of.roots[1])):
        return "it knows no manifest of the clone"
    for final in claims["finals"].split():
        for one in (*known[-1].value.external_dbs, *known[0].value.external_dbs):
            if one.final_checkpoint_id == final and (
                    one in known[0].value.external_dbs or not client.of(one.path) or listing(client, final, one.path)):
                return f"final checkpoint {final} may still be listed in {one.path}, or its entry in the clone"
    return ""


def marks(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    last = next(iter(client.of(e.body.decode(), how=OWN if e.keys[1] == "Committed" else CURRENT)), None)
    return "" if last and mark_of(last.value) else "it knows no manifest that is marked"


def fences(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    return "" if client.fence else "it has put no fence"


def finishes(of: Answers, client: Client, e: Event, claims: dict[str, str]) -> str:
    root = e.body.decode()
    folder = of.folders[root, "manifest"]
    if of.values[folder.files.boundary_key] < SEALED:
        return "the boundary is not ahead of all ids"
    for name in ("compacted", "compactions", "wal"):
        if client.listed.get(f"{root}/{name}/", 1) or f"{root}/{name}/" not in client.whole:
            return f"it has not listed {root}/{name}/ to its end, and found nothing"
    return "" if folder.files.prefix in client.whole else f"it has not listed {folder.files.prefix} to its end"


RULES: dict[str, Rule] = {
    "open": opens, "write": writes, "flush": flushes, "poll": polls, "checkpoint": checkpoints, "follow": follows,
    "view": follows, "take": changes, "refresh": changes, "delete": changes, "begin": begins, "compact": compacts,
    "collect": collects, "clone": clones, "detach": detaches, "mark": marks, "fence": fences, "finish": finishes,
}
