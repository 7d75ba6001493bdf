"""The facts that a search remembers beside the store: what each client knows, and what was taken for granted.

Each fact is an entry of a table, so it can be undone, and the cost of a step does not grow with the log.
"""

from typing import Any, NamedTuple

from highwater.impl.codecs.slatedb.manifest import Manifest, active
from highwater.model.abstract import sequenced_files as files
from highwater.model.abstract import write_ahead_log as log
from highwater.traces.recorded.judge import ME
from highwater.traces.recorded.machine import Machine
from highwater.traces.recorded.s3log import Body, Request
from highwater.traces.recorded.s3store import Key
from highwater.traces.recorded.systems.slatedb_layout import Namespaced, Place, content_of, key_of

NONE = frozenset[Any]()
NO_FILES = files.Shared((), 0, NONE, NONE, NONE)
NO_FACTS = files.Client()


class Knobs(NamedTuple):
    """The safeguards of the recorded programs, named as in the models."""

    BOUNDARY: bool = True  # False: there are no boundary files; a create is acknowledged when it is done
    SKEW_MS: int = 1_000  # the largest difference between the clocks of clients that take and collect checkpoints


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


class Facts:
    """The tables, and the constants of the models. `safeguards` of the models are switched off, to see what they do."""

    def __init__(self, knobs: Knobs, machine: Machine, safeguards: dict[str, bool]):
        self.knobs, self.store, table = knobs, machine.store, machine.store.table
        self.count, self.grant = machine.count, machine.grant
        of_files = fitting(files, {"CHECKED": knobs.BOUNDARY, "BEHIND": knobs.BOUNDARY} | safeguards)
        self.roles = {role: files.Constants(1, FIRST=None, ROLES=(role,), **of_files) for role in (None, 0, 1)}
        self.files = self.roles[None]
        self.log = log.Constants(1, **fitting(log, {"CHECKED": False} | safeguards))
        update = frozenset({(ME, 0)})
        self.sure_at_once = update <= files.knows_put(self.files, ME, NO_FACTS, 1, files.File(update)).sure  # without a check
        self.seen: dict[tuple[str, Key], str] = table()  # (client, key) -> the version that it read or put last
        self.unchecked: dict[tuple[str, Namespaced], tuple[Created, ...]] = table()  # (client, where) -> its creates
        self.refused: dict[tuple[str, Key], int] = table()  # (client, key) -> the boundary that refused its create
        self.committed: dict[Key, Written] = table()
        self.latest: dict[Namespaced, int] = table()  # the highest id that is known to exist
        self.boundary: dict[Namespaced, int] = table()
        self.whole: dict[Namespaced, bool] = table()  # the sequences that the log has from their first file on
        self.epochs: dict[tuple[str, Namespaced, int], int] = table()  # (client, where, role) -> the epoch that it has claimed
        self.fences: dict[tuple[Namespaced, int], int] = table()  # (wal, id) -> the epoch of the fence there

    def manifest(self, place: Place) -> Manifest | None:
        """Return the latest manifest, as far as the log shows its content."""
        where = place.where._replace(folder="manifest")
        latest = self.latest.get(where)
        if latest is None:
            return None
        key = key_of(where, latest)
        found = content_of("manifest", self.store.bodies.get((key, self.store.version(key) or ""), Body(1, "", None)))
        return found if isinstance(found, Manifest) else None


def holds(facts: Facts, request: Request, place: Place) -> str:
    """Return the active checkpoint that refers to a manifest, "" if there is none."""
    manifest = facts.manifest(place) if place.folder == "manifest" and request.times_us[1] else None
    if manifest is None:
        return ""
    now_ms = request.times_us[1] // 1000 + facts.knobs.SKEW_MS
    return next((one.id for one in manifest.checkpoints if one.manifest_id == place.id and active(one, now_ms)), "")


def fitting(model: Any, safeguards: dict[str, bool]) -> dict[str, Any]:
    """Return those that are constants of the model."""
    return {name: value for name, value in safeguards.items() if name in model.Constants._fields}
