"""Safety: what the instances of the manifest with epochs do, sequenced_files allows, with an epoch for each role.

An instance that is ready to put knows the manifest that it read. An instance that is open knows the epoch that it has claimed.
Flushes belong to their writers. A compaction, and a checkpoint that is gone, may be anybody's change.
"""

from highwater.model.abstract import sequenced_files as abstract
from highwater.model.abstract.sequenced_files import Client, File
from highwater.model.protocols.manifest_epochs import Constants, Instance, Manifest, Reader, Shared, initial, ssts
from highwater.model.refine import Refinement

ONTO = "sequenced_files"
COVERS = {"ENDLESS": (False,)}  # endless updates have no content
ROLES = ("Writer", "Compactor", "Collector")
INSTANCES = (
    {"READERS": 1},
    {"COMPACTORS": 1, "COLLECTORS": 1, "WRITERS": 1},
    {"COMPACTORS": 1, "WRITERS": 1, "MAX_PENDING": 1, "MAX_LOST": 1},
    {"COLLECTORS": 1, "WRITERS": 1, "MAX_PENDING": 1, "MAX_LOST": 1},
    {"MAX_PENDING": 1, "MAX_LOST": 1, "MAX_CRASHES": 1, "OPEN_RETRIES": 1},
)
OFF = (  # each safeguard switched off, on an instance that shows it
    {"CREATE_IF_ABSENT": False},
    {"OPEN_ANEW": False, "OPEN_RETRIES": 1},
    {"BUMP_OWN_ONLY": False},
    {"EPOCH_CHECK": False},
    {"CHECK_AFTER_CONFLICT": False},
    {"COMPACTOR_EPOCH": False, "WRITERS": 1, "COMPACTORS": 2},
    {"REREAD": False},
    {"REAPPLY": False, "COMPACTORS": 1},
    {"UNKNOWN_IS_DONE": True, "MAX_PENDING": 1},
)


def flush(writer: int, k: int) -> abstract.Update:
    return writer, ("flush", k)


def file(c: Constants, m: Manifest) -> File:
    gone = frozenset(range(1, c.CHECKPOINTS + 1)) - m.checkpoints
    changes = {("compacted", sst) for sst in m.compacted} | {("collected", checkpoint) for checkpoint in gone}
    updates = frozenset(flush(*sst) for sst in ssts(m)) | {(None, change) for change in changes}
    return File(updates, epochs=(m.writer_epoch, m.compactor_epoch, m.collector_epoch))


def counts(c: Constants) -> tuple[int, ...]:
    return c.WRITERS, c.COMPACTORS, c.COLLECTORS


def shared(c: Constants, s: Shared) -> abstract.Shared:
    first = {role: sum(counts(c)[:place]) for place, role in enumerate(ROLES)}
    return abstract.Shared(
        tuple(file(c, m) for m in s.files), 0, frozenset(("Create", n, file(c, m)) for n, m, _ in s.pool),
        frozenset(flush(*sst) for sst in s.acked),
        frozenset((ROLES.index(role), first[role] + index, epoch) for role, index, epoch in s.opened))


def instance(c: Constants, me: int, i: Instance) -> Client:
    read = frozenset({(i.n, file(c, i.base))}) if i.pc == "Ready" and i.base else frozenset()
    return Client(read=read, epochs=frozenset({i.epoch}) if i.open else frozenset())


def reader(c: Constants, me: int, r: Reader) -> Client:
    return Client()


INSTANCE = {"ReadLatest": ("Read",), "ReadLanded": ("Read", "Acknowledge"), "CreateNext": ("Create", "Acknowledge", "Open"),
            "SendCreate": ("Send",), "LoseReply": ("Create",)}
STEPS = {**dict.fromkeys(ROLES, INSTANCE), "": {"ApplyPending": ("Apply", "Drop")}}


def refinement(c: Constants) -> Refinement:
    roles = tuple(place for place, number in enumerate((*counts(c), c.READERS)) for _ in range(number))
    first = file(c, initial(c).files[0])
    onto = abstract.model(abstract.Constants(len(roles), FIRST=first, ROLES=roles, BOUNDARY=False))
    locals_ = {**dict.fromkeys(ROLES, instance), "Reader": reader}
    return Refinement(onto, shared, locals_, STEPS, abstract.forgets, abstract.GIVEN)
