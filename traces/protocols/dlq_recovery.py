"""Safety: every request to the store or to the index is an action of model/protocols/dlq_recovery.py, and a writer is told
that its block is kept only if it is.

A letter is an object of the store. The index stands behind the key `index`: a PUT of it proposes an entry. Its version in the
reply shows the index after the entry: the entry's number and answer, the time of the log, and which of the writer's blocks are
visible, or known as removed. Blocks have numbers in the order in which their writer begins with them.

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
from highwater.traces.event import Event
from highwater.traces.form import PUTS, Keys
from highwater.traces.protocols.dlq_recovery_calls import CALLS, JUDGES
from highwater.traces.refine import Match, Refiner
from highwater.traces.trace import AGAIN, refiner_without_witnesses, sent

INDEX = "index"
QUEUE, REJECTED, ASIDE = "dlq/", "dlq-rejected/", "dlq-aside/"
KEYS = Keys("", listed=(QUEUE, REJECTED, ASIDE), single=(INDEX,))
HORIZON_NS = 300 * 1_000_000_000
SWEEPERS, AT_ONCE = 2, 2  # nodes that sweep, and letters that each handles beside each other
OK, TOO_LATE = "OK", "FAILED_PRECONDITION"
WRITER = "Writer#0"
SENDS = {"Add": ("SendAdd", "SendReAdd"), "Letter": ("SendLetter",), "Reject": ("SendCopy",), "Aside": ("SendCopy",),
         "Delete": ("SendDelete",)}
NOT_OURS = ("Compact", -1)  # a request in flight that is no writer's and no sweeper's
Step = tuple[Any, ...]  # process, actions, choices, and what the step must show


class Shown(NamedTuple):
    """What the index shows after an entry, of the writers' blocks."""

    index: int
    code: str
    now_ns: int
    visible: tuple[str, ...]  # ULIDs
    removed: tuple[str, ...]


def version_of(shown: Shown) -> str:
    """Write what the index shows as the version of its object."""
    return json.dumps(shown, separators=(",", ":"))


def shown_in(version: str) -> Shown:
    index, code, now_ns, visible, removed = json.loads(version)
    return Shown(index, code, now_ns, tuple(visible), tuple(removed))


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


class Trace(trace.Trace):
    """Refines one trace of the dead letters."""

    alien = (*trace.ALIEN, StoreError)
    calls, claims = CALLS, JUDGES
    aside = (INDEX,)
    bodiless = ("swept", "not swept")

    def __init__(self, refiner: Refiner, namespace: Keys = KEYS, skew_ms: int = 0):
        super().__init__(refiner, namespace, skew_ms)
        self.c: m.Constants = refiner.model.constants
        self.blocks: dict[str, m.Block] = {}  # by ULID
        self.letters: dict[str, bytes] = {}  # key -> its content, as it was put last
        self.open: dict[str, Open] = {}  # client -> its request
        self.shown = Shown(0, OK, 0, (), ())

    def knows(self, client: str) -> bool:
        role, _, number = client.partition("/")[0].partition("#")
        return client == WRITER or role == "Compactor" or (role == "Sweeper" and int(number) < SWEEPERS)

    # --- events

    def _take(self, e: Event) -> None:
        if not self.knows(e.client) or (e.kind == "told" and "/" in e.client):
            raise self._refused("form", f"there is no client {e.client}")
        late = e.kind == "applied" and not e.awaited  # an earlier request
        if not late and (of := self.open.pop(e.client, None)) is not None:
            lost = e.kind in ("timeout", "crash") and e.awaited and e.request == of.request
            if not self.refiner.keep(of.process, lambda s, l: (getattr(l, of.local) == of.value) != lost):
                raise self._refused("order", f"{e.client} has had the reply to request {of.request}, or has not")
        if e.client == WRITER:
            self._begins(e)
        super()._take(e)

    def _begins(self, e: Event) -> None:
        """Give a writer's block a number, when it is met first. The one before is given up then, unless it was settled."""
        ulid = e.body.decode() if e.kind == "told" else self._ulid(e)
        if ulid in self.blocks:
            return
        b = self.blocks[ulid] = len(self.blocks)
        if b >= self.c.BLOCKS:
            raise self._refused("form", f"the writer has more than {b} blocks")
        ulids.time_ns(ulid)
        while any(w.at < b for w in self.refiner.locals(WRITER)):
            self._do(WRITER, "GiveUp")

    def _ulid(self, e: Event) -> str:
        """Return the ULID of the block that a request is about."""
        if e.key != INDEX:
            return e.key.split("/")[3]
        command = command_of(e.body[U64.size:])
        if not isinstance(command, AddBlock):
            raise self._no_action(e, "a writer or sweeper")
        return command.metadata.id

    def _step(self, e: Event) -> None:
        self._well_formed(e)
        me = process_of(e.client)
        if e.kind == "applied":
            self._applied(e, me)
        elif e.kind == "crash" and me and me != WRITER:
            self._do(me, "Crash", stays=True)

    def _applied(self, e: Event, me: str) -> None:
        """Take the request of a client that still waits."""
        if e.key == INDEX and e.op == "put":
            self._index_before(e)
            if me:
                self._adds(e, me)
            elif not e.client.startswith("Compactor"):
                raise self._no_action(e, e.client)
            self._index_after(e)
        elif me == WRITER:
            self._of_writer(e)
        elif me:
            self._of_sweeper(e, me)
        elif not (e.op == "list" and e.key == QUEUE and e.client.startswith("Sweeper")):
            raise self._no_action(e, e.client)

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
        if not e.key.startswith(QUEUE) or e.op not in ("create", "get"):
            raise self._no_action(e, "a writer")
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
            if queued and e.status == 200:
                self._do(me, "Crash", stays=True)  # it has done with the letter before
                self._do(me, "List")
                self._do(me, "Get", (b,))
        elif e.op == "create" and not queued:
            self._has(me, b)
            request = self._copied(e, b)
            self._do(me, None, shows=("pc", "Bad" if request[0] == "Reject" else "Late"))
            if e.status == 200:
                self._either(e, me, ("pc", "Settled"), [(me, "Copy")],
                             [(me, "SendCopy", (), request), ("", "ApplyPending", (request,))])
            else:
                self._either(e, me, ("pc", "Settled"), [(me, "CopyConflict")], [])
        elif e.op == "delete" and queued:
            self._has(me, b)
            self._do(me, "Delete")
        else:
            raise self._no_action(e, "a sweeper")

    def _copied(self, e: Event, b: m.Block) -> tuple[str, m.Block]:
        """Return the request that copies a letter, which has the letter's content."""
        folder, _, name = e.key.rpartition("/")
        for prefix, kind in ((REJECTED, "Reject"), (ASIDE, "Aside")):
            if folder.startswith(prefix) and self.letters.get(f"{QUEUE}{folder.removeprefix(prefix)}/{name[:7]}") == e.body:
                return kind, b
        raise self._no_action(e, "a sweeper")

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
        if e.key == INDEX and e.op == "put":
            return "Add", b
        if me == WRITER and e.op == "create" and e.key.startswith(QUEUE):
            self._letter(e, b)
            return "Letter", b
        if me != WRITER and e.op == "create":
            return self._copied(e, b)
        if me != WRITER and e.op == "delete" and e.key.startswith(QUEUE):
            return "Delete", b
        raise self._no_action(e)

    def _arrived(self, e: Event) -> None:
        of_index = e.key == INDEX and e.op == "put"
        if of_index:
            self._index_before(e)
        super()._arrived(e)
        if of_index:
            self._index_after(e)

    def _arrives(self, event: tuple) -> Match | None:
        *_, request, _ = event
        return None if request == NOT_OURS else Match("", ("ApplyPending",), (request,))

    # --- the index

    def _index_before(self, e: Event) -> None:
        """Let blocks become too old by the time of an entry."""
        shown, before = shown_in(e.version), self.shown
        if (shown.index, shown.now_ns > before.now_ns) != (before.index + 1, True):
            raise self._refused("index", f"entry {shown.index} at {shown.now_ns} follows entry {before.index} at {before.now_ns}")
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
            raise self._refused("index.blocks", f"the index shows {sorted(visible)} and knows {sorted(removed)} as removed, the "
                                f"model {sorted(s.visible)} and {sorted(s.removed)}")

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
        return "" if so else f"the model keeps {sorted(self.refiner.shared().kept)}, and had {sorted(self.refiner.shared().shown)}"

    def _told_of(self, e: Event) -> str | None:
        if e.op in self.bodiless:
            if not e.client.startswith("Sweeper"):
                raise self._misled(e, "it does not sweep")
            return AGAIN
        if e.client != WRITER or e.op not in ("stored", "refused", "invalid", "failed", "unknown"):
            raise self._misled(e, "nobody has such a response")
        b = self.blocks[e.body.decode()]
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
