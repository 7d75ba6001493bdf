"""Safety: a client does only what it was shown a reason for, and its caller hears only what the client was shown.

Several requests of a client are often one action of a model: it lists the files of a sequence, gets the latest one, and creates
the next. The model sees the create alone. So it does not notice that a read is missing, or that another client received the
response. A mapping asks here.

    the next page of a listing   goes on from the last key of the page before, and is the client's next request; a listing
                                 begins with its first key, or for some roles after one that it knows
    after the create of a file   the client reads the boundary next
    create of a file             the client has listed the file before as the latest one, and got it since; the first file: it
                                 has listed that there is none
    create, update of a boundary the client has just read the boundary; the value is a file that it was listed, or SEALED
    a condition with a version   the client has met that version
    delete of a file             the client was listed it, and it is behind the boundary
    the response to a caller     a file that its client may conclude from: see `Evidence.unfounded`

Responses to callers end a call. What a client was listed and has got counts until then; the versions that it has met count
until it crashes. A response that was lost counts for nothing.
"""

from collections.abc import Iterable
from copy import copy
from typing import Any, NamedTuple

from highwater.impl.codecs.destroyed import SEALED
from highwater.impl.layout import Namespace
from highwater.traces.calls import own
from highwater.traces.event import Event
from highwater.traces.form import MUTATIONS, PUTS, READS

LOOKS = ("get", "get_if_changed")  # reads of a boundary
# What a response needs: see `Evidence.unfounded`.
LISTED, STANDS, CURRENT, KNOWN, TRUSTED = "listed", "stands", "current", "known", "trusted"
# The class of an answer -> what it needs.
BY_ANSWER = {"Committed": STANDS, "NoLatest": LISTED, "Recognised": CURRENT, **dict.fromkeys((
    "CheckpointEnded", "CheckpointMissing", "DatabaseDestroyed", "FencedInDoubt", "GraceRuns", "InputMissing",
    "InvalidDeletion", "NotInitialized", "NotMarked", "SstTooOld", "UpdateConflict"), KNOWN)}
OF_THE_CLONE = "OtherParent"  # the class of an answer that rests on the clone's own manifest
POLLER = "/poller"  # the name of a task that looks for later files of a sequence: it lists after one that it knows
NONE: frozenset[str] = frozenset()


class Heard(NamedTuple):
    """The knowledge of one sequence that a client has from this call."""

    shown: int = -1  # the largest id on the pages of the listing so far; 0: none; -1: it has listed nothing
    latest: int = -1  # the same, once the listing is complete
    base: int = 0  # the latest file listed, if it was read since
    current: int = 0  # the same file, if the boundary was read after it and is behind it
    created: int = 0  # the file of its last create, until the boundary is read
    stands: int = 0  # the same file, if the boundary was read after the create and is behind it


NOTHING = Heard()


class Client(NamedTuple):
    """The responses of this call that a client has received."""

    heard: tuple[Heard, ...]  # one for each sequence
    page: tuple[str, str] = ("", "")  # the prefix and the last key of a page after which the listing goes on
    begun: bool = False  # that listing began with the first key
    failed: str = ""  # the prefix of a page whose response was lost: the listing fails, and only another one may follow
    looked: str = ""  # the key of the boundary that its last response was about
    due: str = ""  # the boundary that it has to read next: its last response was that of a create
    listed: frozenset[str] = NONE  # the keys
    got: frozenset[str] = NONE  # the keys of objects whose content it has received or put
    whole: frozenset[str] = NONE  # the prefixes that it has listed to the end,
    empty: frozenset[str] = NONE  # of these, those that had no key the last time
    trusted: frozenset[str] = NONE  # the prefixes of the sequences of which it has had a file that it could conclude from


class Evidence:
    """Keeps what the clients of a trace were shown. `namespaces`: those of its sequences with a boundary. `listed`: prefixes of
    other objects that are deleted only if they were listed. `keeps`: a client may build on any file that it has read or put in
    this call, without listing again, if it had one that it could conclude from. `after`: the roles that also list
    after an object that they know."""

    def __init__(self, namespaces: Iterable[Namespace], listed: tuple[str, ...] = (), keeps: bool = False,
                 after: tuple[str, ...] = ()):
        self.namespaces, self.listed, self.keeps, self.after = tuple(namespaces), listed, keeps, after
        self.index = {of.prefix: n for n, of in enumerate(self.namespaces)}
        self.boundaries = {of.boundary_key: n for n, of in enumerate(self.namespaces)}
        self.values: dict[tuple[str, str], int] = {}  # (key of a boundary, version) -> its value
        self.now: dict[str, int] = {}  # key of a boundary -> its value
        self.clients: dict[str, Client] = {}
        self.before: dict[str, tuple[int, Client]] = {}  # client -> its last request, and what it was shown before
        self.last: dict[str, int] = {}  # client -> its last request
        self.met: dict[str, frozenset[tuple[str, str]]] = {}  # process -> (key, version) of each response; "": without one
        self.told: dict[str, str] = {}  # clients whose callers were told something
        self.crashed: dict[str, int] = {}  # process -> when it crashed: then the requests of all its tasks end
        self.nobody = Client((NOTHING,) * len(self.namespaces))

    def __copy__(self) -> "Evidence":
        """Return a copy that shares nothing that changes."""
        again = object.__new__(type(self))
        vars(again).update({name: copy(value) if isinstance(value, dict) else value for name, value in vars(self).items()})
        return again

    # --- questions

    def of(self, client: str) -> Client:
        return self.clients.get(client, self.nobody)

    def heard(self, client: str, namespace: Namespace) -> Heard:
        return self.of(client).heard[self.index[namespace.prefix]]

    def known(self, client: str, namespace: Namespace) -> int:
        """Return the id of the file that the client may draw conclusions from: its own create that stands, or the latest one,
        which it has read; and a boundary behind it since. 0: there is none."""
        heard = self.heard(client, namespace)
        return heard.stands or heard.current

    def unfounded(self, client: str, namespaces: Iterable[Namespace], need: str) -> str:
        """Return why a response has no ground in any of these sequences; "" if it has.

        `stands`: its client has created a file, and then read a boundary behind it. `current`: it has listed the files, read
        the latest one, and then a boundary behind it. `known`: one of the two. `trusted`: one of the two earlier in this call.
        `listed`: it has listed the files. "" needs nothing."""
        of = self.of(client)
        for namespace in namespaces if need else ():
            heard = of.heard[self.index[namespace.prefix]]
            if {STANDS: heard.stands, CURRENT: heard.current, KNOWN: heard.stands or heard.current,
                    LISTED: namespace.prefix in of.whole, TRUSTED: namespace.prefix in of.trusted}[need]:
                return ""
        return need and f"it has no file that is {need}: its own or the latest, and then a boundary behind it"

    def unplanned(self, client: str, whole: Iterable[str], compactions: Namespace) -> str:
        """Return what a collector of a database has not looked at before it deletes; "" if it has looked at everything."""
        of = self.of(client)
        if left := {*whole} - of.whole:
            return f"it has not listed {min(left)} to its end"
        return "" if compactions.prefix in of.trusted | of.empty else "it has not read the latest compactions"

    def has_met(self, client: str, key: str) -> bool:
        """Return whether the client has asked for this object, or put it, since it started."""
        return (key, "") in self.met.get(client.partition("/")[0], ())

    # --- events

    def is_new(self, e: Event) -> bool:
        """Return whether the event is the first end of a request of its client, before it is observed."""
        return e.awaited and e.request > self.last.get(e.client, 0)

    def observe(self, e: Event) -> str:
        """Note an event. Return why its client has no reason for it; "" if it has. Raises InvalidName."""
        if e.kind == "applied" and e.status == 200 and e.key in self.boundaries and e.op != "delete":
            if e.op in PUTS:
                self.now[e.key] = int(e.body)
            self.values[e.key, e.version] = int(e.body) if e.body else self.values.get((e.key, e.version), 0)
        if e.kind == "applied" and not e.awaited:
            return ""
        client, process = e.client, e.client.partition("/")[0]
        if process in self.crashed and (e.kind != "crash" or e.t_ms != self.crashed[process]):  # of its next life
            del self.crashed[process]
            self._forget(process)
        number, before = self.before.get(client, (0, self.nobody))
        if e.kind == "told":
            self.told[client] = client
            due = self.clients.pop(client, self.nobody).due
            if due and e.keys and e.keys[1] != "TimedOut":  # a caller may stop waiting at any moment
                return f"{client} has created a file, and its caller is told something before it has read {due}"
            return ""
        why = ""
        if self.is_new(e):
            self.last[client] = e.request
            why = self._groundless(e, self.of(client))
            if self.of(client).due:
                self.clients[client] = self.of(client)._replace(due="")
        if e.kind == "crash":
            self.crashed[process] = e.t_ms
        elif e.kind == "applied":
            self.before[client] = e.request, self.of(client)
            self.clients[client] = self._after(self.of(client), e)
        elif e.request == number:  # nobody has had the response; if it was a page, the listing fails
            self.clients[client] = before._replace(page=("", ""), failed=e.key * (e.op == "list"))
        elif e.awaited and (self.of(client).page[0] or e.op == "list"):
            self.clients[client] = self.of(client)._replace(page=("", ""), failed=e.key * (e.op == "list"))
        return why

    def _forget(self, process: str) -> None:
        for of in (self.clients, self.before, self.met):
            for one in [one for one in (*of,) if one.partition("/")[0] == process]:
                del of[one]

    def _groundless(self, e: Event, of: Client) -> str:
        """Return why a client cannot have sent this request by what it was shown; "" if it can."""
        if of.due and (e.key != of.due or e.op not in LOOKS) and e.kind != "crash":
            return f"{e.client} asks for {e.op} of {e.key}, and has not read {of.due} since it created a file"
        prefix, last = of.page
        follows = bool(prefix) and (e.op, e.key, e.condition) == ("list", prefix, last)
        # a task may have been cancelled in the middle, and not every trace has the end of each call
        begins = e.op == "list" and ("/" in e.client or (e.client not in self.told and not e.condition))
        if prefix and not follows and not begins:
            return f"{e.client} has not listed {prefix} to its end: the next page begins after {last}"
        if of.failed and e.op != "list" and e.kind != "crash":
            return f"{e.client} asks for {e.op} of {e.key}, and has not received the page of {of.failed} that it asked for"
        if e.op == "list":
            polls = e.client.endswith(POLLER) and self.has_met(e.client, e.condition)
            knows = e.client.startswith(self.after or " ") and (polls or e.key not in self.index)
            if follows or not e.condition or knows:
                return ""
            return f"{e.client} lists {e.key} after {e.condition}, which it has not met"
        if e.op == "head":
            return f"{e.client} asks only whether {e.key} is there, which no call does"
        n, i = self._file(e.key)
        if e.op == "create" and i:
            heard = of.heard[n]
            namespace = self.namespaces[n]
            kept = self.keeps and i > 1 and heard.latest < 0 and (
                namespace.key(i - 1) in of.got and namespace.prefix in of.trusted)
            if heard.base != i - 1 and not kept and not (i == 1 and heard.latest == 0):
                return f"{e.client} puts {e.key}, and has not read the file before it as the latest one"
        elif e.op == "delete" and (i or e.key.startswith(self.listed or "/")) and e.key not in of.listed:
            return f"{e.client} deletes {e.key}, which it was not listed"
        elif e.op == "delete" and i > self.now.get(self.namespaces[n].boundary_key, 0):
            return f"{e.client} deletes {e.key}, which is ahead of the boundary"
        process = e.client.partition("/")[0]
        if e.op in ("get_if_changed", "update") and (e.key, e.condition) not in self.met.get(process, ()):
            return f"{e.client} names version {e.condition} of {e.key}, which it has not met"
        if e.key in self.boundaries and e.op in MUTATIONS:
            if of.looked != e.key:
                return f"{e.client} changes {e.key}, and has not just read it"
            value = int(e.body)
            if value != SEALED and self.namespaces[self.boundaries[e.key]].key(value) not in of.listed:
                return f"{e.client} puts {value} into {e.key}, and was not listed such a file"
        return ""

    def _file(self, key: str) -> tuple[int, int]:
        """Return the place of the sequence of which this is a file, and its id; (0, 0) for any other key."""
        n = self.index.get(key[:key.rfind("/") + 1])
        return (0, 0) if n is None else (n, self.namespaces[n].file_id(key) or 0)

    def _after(self, of: Client, e: Event) -> Client:
        """Return what a client was shown after a response."""
        if e.op == "list":
            return self._listed(of, e)
        if e.op in READS or e.op in PUTS:
            process = e.client.partition("/")[0]
            self.met[process] = self.met.get(process, frozenset()) | {(e.key, e.version), (e.key, "")}
            if e.status in (200, 206, 304):
                of = of._replace(got=of.got | {e.key})
        if of.looked:
            of = of._replace(looked="")
        if e.key in self.boundaries:
            n = self.boundaries[e.key]
            if e.op not in LOOKS:
                return of
            heard = self._checked(of.heard[n], e)
            trusted = {self.namespaces[n].prefix} if heard.stands or heard.current else NONE
            return self._with(of._replace(trusted=of.trusted | trusted, looked=e.key), n, heard)
        n, i = self._file(e.key)
        if not i:
            return of
        heard = of.heard[n]
        if e.op == "create":
            of = of._replace(due=self.namespaces[n].boundary_key) if e.status == 200 else of
            return self._with(of, n, Heard(created=i if e.status == 200 else 0))
        if e.op == "get" and e.status == 200 and i == heard.latest != heard.base:
            return self._with(of, n, heard._replace(base=i, current=0))
        return of

    def _listed(self, of: Client, e: Event) -> Client:
        more = of.page == (e.key, e.condition) and bool(of.page[0])
        page = (e.key, e.keys[-1]) if e.truncated and e.keys else ("", "")
        begun = of.begun if more else not e.condition
        of = of._replace(page=page, begun=begun, failed="", looked="", listed=of.listed.union(e.keys))
        if begun and not e.truncated:
            nothing = {e.key} if not (e.keys or more or e.condition) else NONE
            of = of._replace(whole=of.whole | {e.key}, empty=of.empty - {e.key} | nothing)
        n = self.index.get(e.key)
        if n is None:
            return of
        heard, file_id = of.heard[n], self.namespaces[n].file_id
        begun = heard.shown if more else -1 if e.condition else 0  # after a file that it knows there may be none
        shown = max((begun, *(file_id(key) or 0 for key in e.keys)))
        return self._with(of, n, Heard(shown, -1 if e.truncated else shown))

    def _checked(self, heard: Heard, e: Event) -> Heard:
        """Return what a client has heard after it has read the boundary."""
        value = 0 if e.status == 404 else self.values.get((e.key, e.version), 0)
        if heard.created:
            return heard._replace(created=0, stands=heard.created if heard.created > value else 0)
        return heard._replace(current=heard.base if heard.base > value else 0)

    @staticmethod
    def _with(of: Client, n: int, heard: Heard) -> Client:
        return of._replace(heard=(*of.heard[:n], heard, *of.heard[n + 1:]))


def has_put(trace: Any, client: str, prefix: str) -> str:
    """Return the key under this prefix that a client's last request has put, or met; "" if it was another request."""
    last = next((old for old in own(trace, client) if old.awaited), None)
    if last is None or (last.kind, last.op) != ("applied", "create"):
        return ""
    return last.key if last.key.startswith(prefix) else ""
