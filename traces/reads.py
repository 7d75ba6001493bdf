"""Safety: a client builds on a file, or says that its own file stands, only after the reads that this takes.

In a sequence with a boundary a client lists, gets the latest file listed, and creates the next one. It reads the boundary next:
its file stands if that is behind it. The file that it got is current if a boundary read after the GET is behind it. If several
of these requests are one action of a model, the model does not notice that one is missing. Its mapping asks here.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from highwater.traces.event import Event
from highwater.traces.form import READS


class Heard(NamedTuple):
    """The knowledge of a client, from the responses that it received."""

    prefix: str = ""  # of its last listing or create
    listed: tuple[int, ...] = ()  # the ids of that listing
    asked: tuple[int, ...] = ()  # the files that it asked for since
    base: int = 0  # the latest file listed, if it was read; 0: not read
    current: bool = False  # the boundary, read after that, is behind that file
    created: int = 0  # the file of its last create, until the boundary is read
    stands: int = 0  # the same file, if the boundary was read after the create, and is behind it


NOTHING = Heard()


class Reads:
    """Keeps what each client of a trace has learned. `boundaries`: the key of each boundary -> the prefix of its files."""

    def __init__(self, file_id: Callable[[str], int | None], boundaries: Mapping[str, str]):
        self.file_id, self.boundaries = file_id, boundaries
        self.values = dict.fromkeys(boundaries, 0)
        self.keys = {prefix: key for key, prefix in self.boundaries.items()}
        self.due: dict[str, str] = {}  # client -> the boundary that it has to read next: it has created a file
        self.now: dict[str, Heard] = {}
        self.before: dict[str, tuple[int, Heard]] = {}  # client -> its last request, and what it had learned before

    def __copy__(self) -> "Reads":
        """Return a copy that shares nothing that changes."""
        again = Reads(self.file_id, self.boundaries)
        again.values, again.now, again.before = dict(self.values), dict(self.now), dict(self.before)
        again.due = dict(self.due)
        return again

    def of(self, client: str) -> Heard:
        return self.now.get(client, NOTHING)

    def boundary(self, key: str) -> int:
        """Return the boundary of a file's sequence."""
        return next((self.values[of] for of, prefix in self.boundaries.items() if key.startswith(prefix)), 0)

    def observe(self, e: Event) -> str:
        """Note a request that its client waits for, or the end of its waiting. A response to the caller ends a call. Return
        which boundary its client should have read; "" if none."""
        due = self.due.pop(e.client, "")
        if e.kind == "applied" and e.op == "create" and e.status == 200:
            self.due[e.client] = self.keys.get(e.key[:e.key.rfind("/") + 1], "")
        self._note(e)
        if not due or (e.key == due and e.op in READS) or e.keys[1:2] == ("TimedOut",) or e.kind == "crash" or (
                e.kind != "applied" and e.op == "create"):
            return ""
        return f"{e.client} has not read {due} since it created a file: its next event is {e.kind} {e.op} {e.key}"

    def end(self, client: str) -> None:
        """End a call of a client, of which another judge has the response."""
        self.now[client] = NOTHING
        self.due.pop(client, None)

    def _note(self, e: Event) -> None:
        if e.kind in ("crash", "told"):
            self.now[e.client] = NOTHING
        elif e.kind == "applied":
            heard = self.of(e.client)
            self.before[e.client] = e.request, heard
            self.now[e.client] = self._after(heard, e)
        elif e.awaited and self.before.get(e.client, (0, NOTHING))[0] == e.request:  # nobody has had the response
            self.now[e.client] = self.before[e.client][1]

    def _after(self, heard: Heard, e: Event) -> Heard:
        if e.op == "list":
            ids = tuple([i for i in map(self.file_id, e.keys) if i is not None])
            return Heard(e.key, ids, stands=heard.stands)
        if e.key in self.boundaries:
            if e.status == 200 and e.body:
                self.values[e.key] = int(e.body)
            return self._checked(heard, self.values[e.key], self.boundaries[e.key]) if e.op in READS else heard
        i, prefix = self.file_id(e.key) or 0, e.key[:e.key.rfind("/") + 1]
        if e.op == "create":
            return Heard(prefix, created=i if e.status == 200 else 0)
        if e.op != "get" or prefix != heard.prefix:
            return heard
        is_latest = e.status == 200 and i == max(heard.listed, default=0)
        return heard._replace(asked=(*heard.asked, i), base=i if is_latest else heard.base)

    @staticmethod
    def _checked(heard: Heard, boundary: int, prefix: str) -> Heard:
        if prefix != heard.prefix:
            return heard
        if heard.created:
            return heard._replace(created=0, stands=heard.created if heard.created > boundary else 0)
        return heard._replace(current=heard.base > boundary)
