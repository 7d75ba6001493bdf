"""The facts that a search remembers beside the store: what each client knows, and what was taken for granted.

Each fact is an entry of a table, so it can be undone, and the cost of a step does not grow with the log. A `System` says what
the contents mean.
"""

from typing import Any, NamedTuple, Protocol

from highwater.model.abstract import one_object, shared_files
from highwater.model.abstract import sequenced_files as files
from highwater.model.abstract import write_ahead_log as log
from highwater.model.abstract.sequenced_files import File
from highwater.traces.recorded.judge import ME
from highwater.traces.recorded.machine import Machine
from highwater.traces.recorded.s3log import Body, Request
from highwater.traces.recorded.s3store import Key

NONE = frozenset[Any]()
NO_FILES = files.Shared((), 0, NONE, NONE, NONE)
NO_FACTS = files.Client()
UNKNOWN = File()
WRITER = 0  # the place of the writer's epoch
NOBODY = 1  # not the client that is judged


class Namespaced(NamedTuple):
    """A sequence of files: those of one folder below a root."""

    bucket: str
    root: str
    folder: str


class Place(Protocol):
    """The meaning of a key: a file of a sequence, whose kind is `folder`; or a boundary, of the sequence `name`."""

    @property
    def where(self) -> Namespaced: ...
    @property
    def folder(self) -> str: ...
    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    def key(self, file_id: int) -> Key: ...


class Edit(NamedTuple):
    """A file after the one that it is based on. `role` is the place of the epoch that the client needs, or claims."""

    base: File = UNKNOWN
    file: File = UNKNOWN
    role: int | None = None
    claimed: int | None = None


class Flushed(Protocol):
    """A manifest, as far as it tells about the write-ahead log beside it."""

    @property
    def initialized(self) -> bool: ...
    @property
    def replay_after_wal_id(self) -> int: ...


class System(Protocol):
    """The meaning of keys and contents in one program's files."""

    def first(self, facts: "Facts", place: Place) -> int:
        """Return the id of the first file of a sequence."""
        ...

    def change(self, facts: "Facts", place: Place, before: Body | None, after: Body) -> Edit | str:
        """Map a file and the one that it is based on; a text if it cannot be decoded. None: the log does not show it."""
        ...

    def boundary_key(self, where: Namespaced) -> Key: ...

    def pinned_by(self, facts: "Facts", request: Request, place: Place) -> str:
        """Return what still refers to a file that the request deletes, "" if nothing does."""
        ...

    def flushed(self, facts: "Facts", place: Place) -> Flushed | None:
        """Return the latest manifest beside an object of a write-ahead log, as far as the log shows its content."""
        ...

    def known_log(self, facts: "Facts", place: Place) -> int:
        """Return the id up to which a client that puts this object may know the log."""
        ...

    def is_fence(self, body: Body) -> bool: ...

    def writer_epoch(self, facts: "Facts", client: str, place: Place) -> int | None:
        """Return the epoch of a client that puts into a write-ahead log, as far as the log shows it."""
        ...


class Knobs(NamedTuple):
    """The safeguards of the recorded programs, named as in the models."""

    BOUNDARY: bool = True  # False: there are no boundary files; a create is acknowledged when it is done
    SKEW_MS: int = 1_000  # the largest difference between the clocks of clients that take and collect checkpoints
    FENCES: bool = True  # fences stay in the WAL. False: they are collected, and a writer checks the manifest after each put


class Written(NamedTuple):
    """A file of a sequence: its version, the client that put it, and the number of that request."""

    version: str
    client: str
    number: int


class Created(NamedTuple):
    """A create whose client has not asked for the boundary since. `looked`: the client has read the file, though."""

    id: int
    version: str
    number: int  # the number of the request
    answered: int
    looked: bool = False


class Final(NamedTuple):
    """A final checkpoint, as the manifest of the clone has it that reads the SSTs."""

    clone: tuple[str, str]  # (bucket, root)
    source: str  # the id of the checkpoint that it was made from


class Facts:
    """The tables, and the constants of the models. `safeguards` of the models are switched off, to see what they do."""

    def __init__(self, system: System, knobs: Knobs, machine: Machine, safeguards: dict[str, bool]):
        self.system, self.knobs, self.store, table = system, knobs, machine.store, machine.store.table
        self.count, self.grant = machine.count, machine.grant
        of_files = fitting(files, {"CHECKED": knobs.BOUNDARY, "BEHIND": knobs.BOUNDARY} | safeguards)
        self.roles = {role: files.Constants(1, FIRST=None, ROLES=(role,), **of_files) for role in (None, 0, 1)}
        self.files = self.roles[None]
        self.log = log.Constants(1, **fitting(log, {"CHECKED": False} | safeguards))
        self.shared = shared_files.Constants(**fitting(shared_files, safeguards))
        self.object = one_object.Constants(1, **fitting(one_object, safeguards))
        update = frozenset({(ME, 0)})
        self.sure_at_once = update <= files.knows_put(self.files, ME, NO_FACTS, 1, files.File(update)).sure  # without a check
        self.seen: dict[tuple[str, Key], str] = table()  # (client, key) -> the version that it read or put last
        self.unchecked: dict[tuple[str, Namespaced], tuple[Created, ...]] = table()  # (client, where) -> its creates
        self.refused: dict[tuple[str, Key], int] = table()  # (client, key) -> the boundary that refused its create
        self.committed: dict[Key, Written] = table()
        self.latest: dict[Namespaced, int] = table()  # the highest id that is known to exist
        self.boundary: dict[Namespaced, int] = table()
        self.first: dict[Namespaced, int] = table()  # the first id of each sequence that the log has from its beginning on
        self.epochs: dict[tuple[str, Namespaced, int], int] = table()  # (client, where, role) -> the epoch that it has claimed
        self.fences: dict[tuple[Namespaced, int], int] = table()  # (wal, id) -> the epoch of the fence there
        self.finals: dict[tuple[str, str, str], Final] = table()  # (bucket, root, final checkpoint) -> whose it is
        self.shown: dict[tuple[str, str, str], frozenset[str]] = table()  # (bucket, root, SST) -> final checkpoints for it
        self.copied: dict[Key, bool] = table()  # objects of a clone's WAL that are copies


def done(request: Request) -> bool:
    return 200 <= request.status < 300 or not request.answered


def heard(request: Request) -> bool:
    """Return whether the client was told that the request is done."""
    return request.answered > 0 and 200 <= request.told < 300


def fitting(model: Any, safeguards: dict[str, bool]) -> dict[str, Any]:
    """Return those that are constants of the model."""
    return {name: value for name, value in safeguards.items() if name in model.Constants._fields}
