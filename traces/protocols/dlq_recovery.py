"""Safety: every request to the store or to the index is an action of model/protocols/dlq_recovery.py, and a writer is told
that its block is kept only if it is.

A letter is an object of the store. The index stands behind the key `index`: a PUT of it proposes an entry. Its version in the
reply shows the index after the entry: the entry's number, digest and answer, the time of the log, and which of the writer's
blocks are visible, or known as removed. Blocks have numbers in the order in which their writer begins with them.

    PUT of the index       Add, AddLate; ReAdd, ReAddLate; of a compactor: Remove of what is no longer visible. Before it Age of
                           what is too old by now; after it Forget of what the index does not know any more
    create of a letter     PutLetter; a GET of it by its writer: FindLetter
    GET of a letter        by a sweeper: List and Get. Each of a sweeper's tasks has one letter, and is a sweeper of the model
    create of a copy       Copy, CopyConflict
    DELETE of a letter     Delete
    a writer's next block  GiveUp, if it was told nothing of the one before

A reply may be lost after its request was applied. So both are followed, that the client has it and that it has not, until the
client's next event.
"""

import json
import re
from hashlib import sha256
from typing import Any, NamedTuple

from highwater.impl.codecs.codec import Undecodable
from highwater.impl.codecs.index import names, ulids
from highwater.impl.codecs.index.entries import command_of
from highwater.impl.codecs.index.messages import AddBlock, BlockMeta, decode
from highwater.impl.codecs.index.rows import U64
from highwater.impl.codecs.index.strings import tenant_of
from highwater.impl.errors import StoreError
from highwater.model.protocols import dlq_recovery as m
from highwater.traces import trace
from highwater.traces.calls import content, of_call
from highwater.traces.event import Event
from highwater.traces.form import Keys
from highwater.traces.protocols.dlq_recovery_calls import CALLS, ENDED_BY, JUDGES
from highwater.traces.refine import Match, Refiner
from highwater.traces.trace import AGAIN, refiner_without_witnesses, sent

INDEX = "index"
QUEUE, REJECTED, ASIDE = "dlq/", "dlq-rejected/", "dlq-aside/"
KEYS = Keys("", listed=(QUEUE, REJECTED, ASIDE), single=(INDEX,))
HORIZON_NS = 300 * 1_000_000_000
SWEEPERS, AT_ONCE = 2, 2  # nodes that sweep, and letters that each handles beside each other
OK, TOO_LATE = "OK", "FAILED_PRECONDITION"
WRITER = "Writer#0"
KEY = re.compile(r"(?P<folder>dlq/|dlq-rejected/|dlq-aside/)(?P<place>\d+/[^/]+/(?P<ulid>[0-9A-Z]{26})/meta\.pb)"
                 r"(?:\.(?P<of>[0-9a-f]{16}))?")  # the last: of a copy with another content than the one before
MOVES = {"Reject": "Bad", "Aside": "Late"}  # a copy -> where a sweeper is then
SENDS = {"Add": ("SendAdd", "SendReAdd"), "Letter": ("SendLetter",), "Reject": ("SendCopy",), "Aside": ("SendCopy",),
         "Delete": ("SendDelete",)}
NOT_OURS = ("Compact", -1)  # a request in flight that is no writer's and no sweeper's
Step = tuple[Any, ...]  # process, actions, choices, and what the step must show


class Shown(NamedTuple):
    """The blocks that the index shows after an entry, of the writers' blocks."""

    index: int
    mark: str  # of the entry: its digest
    code: str
    now_ns: int
    visible: tuple[str, ...]  # ULIDs
    removed: tuple[str, ...]


def version_of(shown: Shown) -> str:
    """Write what the index shows as the version of its object."""
    return json.dumps(shown, separators=(",", ":"))


def shown_in(version: str) -> Shown:
    index, mark, code, now_ns, visible, removed = json.loads(version)
    return Shown(index, mark, code, now_ns, tuple(visible), tuple(removed))


def constants(blocks: int, bad: int) -> m.Constants:
    """Return the constants of the model for this number of blocks, of which the first have damaged letters."""
    return m.Constants(BLOCKS=blocks, BAD=bad, SWEEPERS=SWEEPERS * AT_ONCE, AGES=None, MAX_PENDING=None, MAX_CRASHES=None)


def refiner(c: m.Constants) -> Refiner:
    return refiner_without_witnesses(m.model(c))


def process_of(client: str) -> str:
    """Return the model's process of a client; "" if it has none: a sweeper that lists, and a compactor."""
    of, _, task = client.partition("/letters ")
    if not task:
        return of if of == WRITER else ""
    return f"Sweeper#{int(of.partition('#')[2]) * AT_ONCE + int(task)}"


ASKS = {  # role -> its requests: op, and where
    "writer": {("put", INDEX), ("create", QUEUE), ("get", QUEUE)},
    "lister": {("list", QUEUE)},
    "sweeper": {("put", INDEX), ("delete", QUEUE), *((op, place) for op in ("create", "get") for place in (REJECTED, ASIDE)),
                ("get", QUEUE)},
    "compactor": {("put", INDEX)},
}


def role_of(client: str) -> str:
    if client == WRITER:
        return "writer"
    return "compactor" if client.startswith("Compactor") else "sweeper" if "/" in client else "lister"


def is_letter_of(key: str, body: bytes) -> bool:
    """Return whether an object is a letter of the block that its key names."""
    try:
        block = decode(BlockMeta, body, "letter")
        return key == names.dead_letter_path(block.shard, tenant_of(block), block.id)
    except Undecodable:
        return False


class Open(NamedTuple):
    """A request that was applied, and whose reply its client may have or not."""

    request: int
    process: str
    local: str  # the field of the local state that shows it
    value: object  # of the field if the client has the reply


class Pages(NamedTuple):
    """The pages of a listing so far."""

    keys: tuple[str, ...] = ()  # letters that nobody has read yet
    last: str = ""
    more: bool = True  # whether another page follows


class Trace(trace.Trace):
    """Refines one trace of the dead letters."""

    alien = (*trace.UNCHECKED, StoreError)
    calls, claims = CALLS, JUDGES
    aside = (INDEX,)
    collector = "Compactor"
    bodiless = ("swept", "not swept")

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.c: m.Constants = refiner.model.constants
        self.blocks: dict[str, m.Block] = {}  # by ULID
        self.letters: dict[str, bytes] = {}  # key -> its content, as it was put last
        self.open: dict[str, Open] = {}  # client -> its request
        self.shown = Shown(0, "", OK, 0, (), ())
        self.over: set[str] = set()  # ULIDs of blocks with which the writer does not go on, because it crashed
        self.ended = True  # the writer's call for its latest block has ended, or the writer
        self.pages: dict[str, Pages] = {}  # sweeper -> the listing of its present call

    def knows(self, client: str) -> bool:
        role, _, number = client.partition("/")[0].partition("#")
        return client in (WRITER, "Compactor#0") or (role == "Sweeper" and int(number) < SWEEPERS)

    # --- events

    def _take(self, e: Event) -> None:
        if not self.knows(e.client) or (e.kind == "told" and "/" in e.client):
            raise self._refused("form", f"there is no client {e.client}")
        late = e.kind == "applied" and not e.awaited  # an earlier request
        if not late and (of := self.open.pop(e.client, None)) is not None:
            lost = e.kind in ("timeout", "crash") and e.awaited and e.request == of.request
            if not self.refiner.keep(of.process, lambda s, l: (getattr(l, of.local) == of.value) != lost):
                raise self._refused("order", f"{e.client} has had the reply to request {of.request}, or has not")
        if e.client == WRITER and not late:
            self._begins(e)
        if e.kind != "told" and (e.op, self._folder(e)) not in ASKS[role_of(e.client)]:
            raise self._no_action(e, e.client)
        super()._take(e)

    def _folder(self, e: Event) -> str:
        """Return the folder of a request's key: INDEX for a request to the index."""
        return INDEX if e.key == INDEX else f"{e.key.partition('/')[0]}/"

    def _begins(self, e: Event) -> None:
        """Give a writer's block a number, when it is met first. The one before is given up then, unless it was settled."""
        ulid, ended = e.body.decode() if e.kind == "told" else self._ulid(e), self.ended
        self.ended = e.kind in ("told", "crash") or (ulid in self.blocks and ended)
        if ulid in self.over and e.kind != "crash":
            raise self._refused("form", f"the writer goes on with {ulid} after a crash")
        self.over |= {*self.blocks, ulid} if e.kind == "crash" else set()
        if ulid in self.blocks:
            return
        b = self.blocks[ulid] = len(self.blocks)
        if b >= self.c.BLOCKS or not ended:
            raise self._refused("form", f"the writer has more than {b} blocks, or begins with the next one before it is told")
        ulids.time_ns(ulid)
        while any(w.at < b for w in self.refiner.locals(WRITER)):
            self._do(WRITER, "GiveUp")

    def _ulid(self, e: Event) -> str:
        """Return the ULID of the block that a request is about."""
        if e.key != INDEX:
            if (of := KEY.fullmatch(e.key)) is None or (of["of"] and of["folder"] == QUEUE):
                raise self._no_action(e, "a writer or sweeper")
            return of["ulid"]
        command = command_of(e.body[U64.size:])
        if not isinstance(command, AddBlock):
            raise self._no_action(e, "a writer or sweeper")
        return command.metadata.id

    def _step(self, e: Event) -> None:
        self._well_formed(e)
        me = process_of(e.client)
        if e.kind == "applied":
            self._applied(e, me)
        elif me and me != WRITER and e.op != "get" and not e.pending and next(self._same(e), None) is None:
            self._has(me, self.blocks[self._ulid(e)])
        if e.kind == "crash":
            self.pages.pop(e.client.partition("/")[0], None)
            if me and me != WRITER:
                self._do(me, "Crash", stays=True)

    def _applied(self, e: Event, me: str) -> None:
        """Take the request of a client that still waits."""
        if e.key == INDEX:
            self._index_before(e)
            if me:
                self._adds(e, me)
            self._index_after(e)
        elif me == WRITER:
            self._of_writer(e)
        elif me:
            self._of_sweeper(e, me)
        else:
            self._lists(e)

    def _lists(self, e: Event) -> None:
        """Take a page of a sweeper's listing, which follows its page before."""
        before = self.pages.get(e.client, Pages())
        if e.client not in self.pages:
            for me in self._begin_anew(e.client):
                self._do(me, "List", stays=True)
        if not before.more or e.condition != before.last or (e.client in self.pages and not e.condition):
            raise self._refused("Sweeper.List", f"{e.client} lists after {e.condition!r}, and has listed up to {before.last!r}")
        last = e.keys[-1] if e.keys else before.last
        self.pages[e.client] = Pages((*before.keys, *e.keys), last, e.truncated and bool(e.keys))

    def _begin_anew(self, sweeper: str) -> list[str]:
        """Forget what a sweeper's tasks knew. Return the model's processes of them."""
        tasks = [f"{sweeper}/letters {number}" for number in range(AT_ONCE)]
        for task in tasks:
            self.open.pop(task, None)
            self._do(process_of(task), "Crash", stays=True)
        return [process_of(task) for task in tasks]

    def _adds(self, e: Event, me: str) -> None:
        b, late = self.blocks[self._ulid(e)], self.shown.code == TOO_LATE
        if not late and self.shown.code != OK:
            raise self._refused("Add", f"block {b} is answered {self.shown.code}")
        lost = [] if late else [(me, SENDS["Add"][me != WRITER], (), ("Add", b)), ("", "ApplyPending", (("Add", b),))]
        if me == WRITER:
            self._either(e, me, ("at", b + 1), [(me, "AddLate" if late else "Add")], lost)
        else:
            self._has(me, b)
            self._either(e, me, ("pc", "Late" if late else "Settled"), [(me, "ReAddLate" if late else "ReAdd")], lost)

    def _has(self, me: str, b: m.Block) -> None:
        """Check that a sweeper has read the letter of a block."""
        if not self.refiner.keep(me, lambda s, w: w.at == b):
            raise self._refused("Sweeper.Get", f"{me} has the letter of {self.refiner.local(me).at}, and not of {b}")

    def _of_writer(self, e: Event) -> None:
        b = self.blocks[self._ulid(e)]
        if e.op == "create" and e.status == 200:
            self._letter(e, b)
            self._either(e, WRITER, ("at", b + 1), [(WRITER, "PutLetter")],
                         [(WRITER, "SendLetter", (), ("Letter", b)), ("", "ApplyPending", (("Letter", b),))])
        elif e.op == "get" and e.status == 200:
            self._either(e, WRITER, ("at", b + 1), [(WRITER, "FindLetter")], [])

    def _letter(self, e: Event, b: m.Block) -> None:
        """Note the content of a letter. Only the first blocks have damaged ones."""
        if is_letter_of(e.key, e.body) != (b >= self.c.BAD):
            raise self._refused("PutLetter", f"the letter of block {b} {'is' if b >= self.c.BAD else 'is not'} damaged")
        if self.letters.setdefault(e.key, e.body) != e.body:
            raise self._refused("PutLetter", f"{e.key} has another content than before")

    def _of_sweeper(self, e: Event, me: str) -> None:
        b = self.blocks[self._ulid(e)]
        queued = e.key.startswith(QUEUE)
        if e.op == "get":
            if not queued:
                self._found_copy(e, me, b)
                return
            listed = self.pages.get(e.client.partition("/")[0], Pages())
            if e.key not in listed.keys:
                raise self._refused("Sweeper.Get", f"{e.client} reads {e.key}, which its sweeper has not listed, or had read")
            self.pages[e.client.partition("/")[0]] = listed._replace(keys=tuple(key for key in listed.keys if key != e.key))
            if e.status == 404:
                self._do(me, "GetGone", (b,), stays=True)
                return
            if not self.refiner.keep(me, lambda s, w: w.pc == "Listed" and b in w.todo):
                self._do(me, "Crash", stays=True)  # it has left a letter, or has listed another page since
                self._do(me, "List")
            self._do(me, "Get", (b,))
        elif e.op == "create":
            self._has(me, b)
            request = self._copied(e, b)
            self._do(me, None, shows=("pc", MOVES[request[0]]))
            if e.status == 200:
                self._either(e, me, ("pc", "Settled"), [(me, "Copy")],
                             [(me, "SendCopy", (), request), ("", "ApplyPending", (request,))])
        else:
            self._has(me, b)
            self._do(me, "Delete")

    def _found_copy(self, e: Event, me: str, b: m.Block) -> None:
        """Take a look at a copy that is there. If it has another content, it is no copy."""
        self._has(me, b)
        if e.status == 200:
            self._do(me, None, shows=("pc", MOVES[self._copied(e, b)[0]]))
            self._either(e, me, ("pc", "Settled"), [(me, "CopyConflict")], [])

    def _copied(self, e: Event, b: m.Block) -> tuple[str, m.Block]:
        """Return the request that copies a letter, which has the letter's content."""
        of = KEY.fullmatch(e.key)
        assert of is not None
        if self.letters[QUEUE + of["place"]] != e.body or of["of"] not in (None, sha256(e.body).hexdigest()[:16]):
            raise self._refused("Sweeper.Copy", f"{e.key} is no copy of the letter")
        return ("Reject" if of["folder"] == REJECTED else "Aside"), b

    # --- requests that nobody waits for

    def _sent(self, e: Event) -> None:
        me, request = process_of(e.client), self._request(e)
        if request != NOT_OURS:
            if me and me != WRITER:
                self._has(me, request[1])
            action = SENDS[request[0]][-1 if me != WRITER else 0]
            self._do(me, action, request=request)
        self.pending[e.client, e.request] = request, sent(e)

    def _request(self, e: Event) -> tuple[str, m.Block]:
        me = process_of(e.client)
        if not me:
            return NOT_OURS
        b = self.blocks[self._ulid(e)]
        if e.key == INDEX:
            return "Add", b
        if me == WRITER:
            self._letter(e, b)
            return "Letter", b
        return self._copied(e, b) if e.op == "create" else ("Delete", b)

    def _arrived(self, e: Event) -> None:
        if e.key == INDEX:
            self._index_before(e)
        super()._arrived(e)
        if e.key == INDEX:
            self._index_after(e)

    def _arrives(self, event: tuple) -> Match | None:
        *_, request, _ = event
        return None if request == NOT_OURS else Match("", ("ApplyPending",), (request,))

    # --- the index

    def _index_before(self, e: Event) -> None:
        """Let blocks become too old by the time of an entry."""
        shown, before = shown_in(e.version), self.shown
        if shown.mark != content(e.body):
            raise self._refused("index", f"entry {shown.index} is not the one whose digest is told")
        if (shown.index, shown.now_ns > before.now_ns) != (before.index + 1, True):
            raise self._refused("index", f"entry {shown.index} at {shown.now_ns} follows entry {before.index} at "
                                f"{before.now_ns}")
        self.shown = shown
        for ulid, b in self.blocks.items():
            if b not in self.refiner.shared().old and ulids.time_ns(ulid) < shown.now_ns - HORIZON_NS:
                self._do("", "Age", (b,))

    def _index_after(self, e: Event) -> None:
        """Let blocks be removed and forgotten as the index shows it, and compare it with the model."""
        visible, removed = ({self.blocks[ulid] for ulid in several} for several in (self.shown.visible, self.shown.removed))
        if not process_of(e.client):
            for b in sorted(self.refiner.shared().visible - visible):
                self._do("", "Remove", (b,))
        for b in sorted(self.refiner.shared().removed - removed):
            self._do("", "Forget", (b,))
        s = self.refiner.shared()
        if not self.refiner.keep("", lambda s, _: (s.visible, s.removed) == (visible, removed)):
            raise self._refused("index.blocks", f"the index shows {sorted(visible)} and knows {sorted(removed)} as removed, "
                                f"the model {sorted(s.visible)} and {sorted(s.removed)}")

    # --- steps

    def _do(self, me: str, action: str | None, choices: tuple = (), request: tuple = (), stays: bool = False,
            shows: tuple = ()) -> None:
        """Take an action. `request`: what it puts into the pool. With `stays` nothing happens if it is not possible. Without an
        action the local state must have a field with a value, as `shows` says."""
        self.refiner.event(me, (0, 0, me, action, choices, request, stays, shows), matched)

    def _either(self, e: Event, me: str, shows: tuple[str, object], had: list[Step], lost: list[Step]) -> None:
        """Follow both: that the client has the reply to its request, and that it has not."""
        before, after = self.refiner.states, []
        for steps in (had, lost):
            self.refiner.states = before
            for step in steps:
                self._do(*step)
            after += self.refiner.states
        self.refiner.states = tuple(dict.fromkeys(after))
        self.open[e.client] = Open(e.request, me, *shows)

    # --- responses to callers

    def kept_wrongly(self, ulid: str, how: str) -> str:
        """Return why a block is not kept as its writer is told; "" if it is."""
        b = self.blocks[ulid]
        if how == "added":
            so = self.refiner.keep(WRITER, lambda s, w: b in s.kept and b in s.shown)
        else:
            so = how == "kept" and any(ulid in key for key in self.letters) and self.refiner.keep(
                WRITER, lambda s, w: b in s.kept)
        s = self.refiner.shared()
        return "" if so else f"the model keeps {sorted(s.kept)}, and had {sorted(s.shown)}"

    def _told_of(self, e: Event) -> str | None:
        if e.op in self.bodiless:
            if not e.client.startswith("Sweeper") or (self.pages.pop(e.client, Pages()).more and e.op == "swept"):
                raise self._misled(e, "it has not listed all letters")
            before = self._last_of(e)
            ends = ENDED_BY.get(e.keys[1] if e.keys else "", ENDED_BY[""])
            if e.op == "not swept" and (before is None or before.kind not in ends):
                raise self._misled(e, "its last request of the call ended otherwise")
            self._begin_anew(e.client)
            return AGAIN
        if e.client != WRITER or e.op not in ("stored", "refused", "invalid", "failed", "unknown"):
            raise self._misled(e, "nobody has such a response")
        b = self.blocks[e.body.decode()]
        if e.op in ("stored", "refused") and not any(of_call(self, e.client)):
            raise self._misled(e, "its call has sent no request")
        if e.op == "stored":
            return self._says(e, lambda s, w: w.at == b + 1 and b in s.kept)
        if e.op == "refused":
            return self._says(e, lambda s, w: w.at == b + 1 and b in s.old and b not in s.kept)
        return self._says(e, lambda s, w: w.at == b)


def matched(event: tuple) -> Match:
    _, _, me, action, choices, request, stays, shows = event
    if action is None:
        return Match(me, (None,), (), lambda a, s, l, s2, l2: getattr(l, shows[0]) == shows[1])
    if request:
        return Match(me, (action,), choices, lambda a, s, l, s2, l2: s2.pool == tuple(sorted((*s.pool, request))))
    return Match(me, (action, None) if stays else (action,), choices)
