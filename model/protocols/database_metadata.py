"""Safety: the metadata of a whole database keeps what its parts keep: reported flushes, one writer and one compactor at a time,
compactions exactly once, WAL records, and files that checkpoints refer to. This holds although all parts share one manifest.

Writers, compactors, readers, operators and collectors work on one manifest sequence, one compactions sequence and one WAL. Each
sequence has its own boundary, and replay_after in the manifest is the WAL's. The model is made of five parts:

    manifest, compactions   sequenced_metadata_boundary   the files, their creates, boundary checks and deletes
    epochs                  manifest_epochs               who may write the manifest
    claims                  manifest_compactions          which SSTs are merged, and that each is merged once
    wal                     wal_fencing                   the WAL, and what of it the manifest says

The first two are the real stores. The others run on the history of a sequence: a file joins the history when its create is
applied ahead of the boundary. So a create that is applied at or behind the boundary is a step of its sequence only.

A file has a content for each of epochs, claims and wal. A client computes it with the parts' own actions on a store that ends
with the file that it has read. That file may be in nobody's history: between LIST and GET the latest file can be collected, and
a late create can take its id. So a client believes what it read of others (it is fenced, its work is done) only after a GET of
the boundary shows that the file was ahead of it.

A client recognises its update by an id, so it goes on with the same update until it knows the outcome. An open is the
exception. A client that does not hear of its open takes the next epoch. Whether it will hear is not known when the create is
applied, so both are followed, and a branch ends where the other comes true.
"""

from highwater.model.compose import lifted
from highwater.model.core import Model, Property
from highwater.model.parts import clients, store, top
from highwater.model.protocols import manifest_compactions, manifest_epochs, wal_fencing
from highwater.model.protocols import sequenced_metadata_boundary as sequence
from highwater.model.protocols.database.clients import MODULES, ROLES
from highwater.model.protocols.database.constants import LIMITS as LIMITS
from highwater.model.protocols.database.constants import Constants, parts
from highwater.model.protocols.database.requests import JOINT, action
from highwater.model.protocols.database.state import (
    Collector,
    CompactionsCollector,
    Compactor,
    Manifest,
    Operator,
    Reader,
    Shared,
    WalCollector,
    Writer,
)


def parts_follow(c: Constants, s: Shared) -> bool:
    """Each part can take the step that the files take."""
    return not s.apart


def one_history(c: Constants, s: Shared) -> bool:
    """The latest file of each sequence says what the parts say."""
    m = s.manifests[top(s.manifests) - 1]
    return ((m, s.compacting[top(s.compacting) - 1])
            == (Manifest(s.epochs.files[-1], manifest_compactions.latest(s.claims.manifests), s.wal.manifest),
                manifest_compactions.latest(s.claims.compactions)))


def parts_agree(c: Constants, s: Shared) -> bool:
    """The parts have the same epochs and as many flushes, and claims has each update but the opens of writers and those of
    operators. Epochs has merged what claims has, because it merges all of L0."""
    m, n, w = s.epochs.files[-1], manifest_compactions.latest(s.claims.manifests), s.wal.manifest
    flushes, compacted = len(manifest_epochs.ssts(m)), set(n.compacted)
    updates = [who for who, _ in sequence.latest(s.manifest).updates if who < c.WRITERS + c.COMPACTORS]
    return (m.compactor_epoch == n.epoch and flushes == len(n.l0 | compacted) and len(m.compacted) >= len(compacted)
            and len(updates) == m.writer_epoch + len(s.claims.manifests) - 1
            and s.compactions.high == len(s.claims.compactions)
            and (not c.WAL or (m.writer_epoch == w.writer_epoch and (flushes > 0) == (w.replay_after > 0))))


def fenced_is_so(c: Constants, s: Shared, w: Writer) -> bool:
    """A writer that says that it is fenced has been overtaken: the history has a higher epoch."""
    return w.epochs.pc != "Fenced" or w.epochs.epoch < s.epochs.files[-1].writer_epoch


def writer_is_fenced(c: Constants, s: Shared, w: Writer) -> bool:
    return w.epochs.pc == "Fenced"


def flush_is_reported(c: Constants, s: Shared) -> bool:
    return bool(s.epochs.acked)


def compaction_is_reported(c: Constants, s: Shared) -> bool:
    return bool(s.claims.finished)


def file_is_collected(c: Constants, s: Shared) -> bool:
    return s.manifests[0] is None


def record_is_collected(c: Constants, s: Shared) -> bool:
    return any(not one for one in s.wal.wal[:s.wal.manifest.replay_after])


def checkpoint_is_taken(c: Constants, s: Shared) -> bool:
    return bool(sequence.latest(s.manifest).checkpoints)


def inherited() -> dict[str, Property]:
    """Return the properties of the parts, named PART.Property, and with the role where the clients are of several."""
    found = {}
    for part, module in MODULES.items():
        for name, of in module.ALWAYS.items():
            roles = ROLES[part].get(of[0] or "", ())
            found |= {f"{part}.{name}{f' of {role}' if len(roles) > 1 else ''}": each
                      for role, each in lifted(part, parts, of, roles).items()}
    return found


ALWAYS: dict[str, Property] = {
    "PartsFollow": (None, parts_follow), "OneHistory": (None, one_history), "PartsAgree": (None, parts_agree),
    "FencedIsSo": ("Writer", fenced_is_so), **inherited()}
SOMETIMES: dict[str, Property] = {
    "WriterIsFenced": ("Writer", writer_is_fenced),
    "FlushIsReported": (None, flush_is_reported),
    "CompactionIsReported": (None, compaction_is_reported),
    "FileIsCollected": (None, file_is_collected),
    "RecordIsCollected": (None, record_is_collected),
    "CheckpointIsTaken": (None, checkpoint_is_taken),
}


def witnesses(c: Constants) -> dict[str, Property]:
    """Return the witnesses that are possible with these constants."""
    possible = {"WriterIsFenced": c.WRITERS > 1, "FlushIsReported": c.WRITERS > 0,
                "CompactionIsReported": c.WRITERS * c.COMPACTORS > 0, "FileIsCollected": c.COLLECTORS > 0,
                "RecordIsCollected": c.WAL and c.WAL_COLLECTORS > 0, "CheckpointIsTaken": c.OPERATORS > 0}
    return {name: witness for name, witness in SOMETIMES.items() if possible[name]}


def initial() -> Shared:
    nobody, n = sequence.Constants(), manifest_compactions.initial()
    m = manifest_epochs.initial(manifest_epochs.Constants(CHECKPOINTS=0))
    first = Manifest(m.files[0], manifest_compactions.latest(n.manifests), wal_fencing.Manifest())
    return Shared(sequence.initial(nobody), sequence.initial(nobody), m, n, wal_fencing.initial(), (first,),
                  (manifest_compactions.latest(n.compactions),), (), manifest_compactions.Writer(), 0, 0, 0, ())


def model(c: Constants) -> Model:
    actions = {role: {name: action(role, name, of) for name, of in rows.items()} for role, rows in JOINT.items()}
    counts = (("Writer", c.WRITERS, Writer()), ("Compactor", c.COMPACTORS, Compactor()), ("Operator", c.OPERATORS, Operator()),
              ("Collector", c.COLLECTORS, Collector()),
              ("CompactionsCollector", c.COMPACTIONS_COLLECTORS, CompactionsCollector()),
              ("WalCollector", c.WAL_COLLECTORS, WalCollector()), ("Reader", c.READERS, Reader()))
    roles = [(role, number, local, actions[role]) for role, number, local in counts]
    return Model("database_metadata", c, initial(), (*clients(*roles), store(actions[""])), ALWAYS, witnesses(c))
