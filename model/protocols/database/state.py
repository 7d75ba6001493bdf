"""The state of the composition: that of each part, the contents of the files, and what a client knows in each part."""

from typing import Any, NamedTuple

from highwater.model.protocols import manifest_compactions, manifest_epochs, wal_fencing
from highwater.model.protocols import sequenced_metadata_boundary as sequence


class Manifest(NamedTuple):
    """The content of a manifest: what it says to each part."""

    epochs: manifest_epochs.Manifest
    claims: manifest_compactions.Manifest
    wal: wal_fencing.Manifest


class Flight(NamedTuple):
    """A create in flight: its kind, and the content of its file."""

    part: str
    request: tuple
    kind: str
    content: Any


class Shared(NamedTuple):
    manifest: sequence.Shared
    compactions: sequence.Shared
    epochs: manifest_epochs.Shared
    claims: manifest_compactions.Shared
    wal: wal_fencing.Shared
    manifests: tuple[Manifest | None, ...]  # manifests[i - 1] is the content of the manifest i
    compacting: tuple[manifest_compactions.Compactions | None, ...]  # the same of the compactions
    flights: tuple[Flight, ...]  # sorted
    flusher: manifest_compactions.Writer  # in claims all writers are one client
    sent: int  # faults so far
    lost: int
    crashes: int
    # ghosts
    apart: tuple[str, ...]  # parts that could not take the step that the files took


class Intent(NamedTuple):
    """An update that was put and whose outcome its client does not know yet, and what the client knew before it was put."""

    part: str
    kind: str
    epochs: Any
    claims: Any
    wal: Any
    flusher: manifest_compactions.Writer


class Writer(NamedTuple):
    manifest: sequence.Writer = sequence.Writer()
    epochs: manifest_epochs.Writer = manifest_epochs.Writer()
    wal: wal_fencing.Writer = wal_fencing.Writer()
    base: Manifest | None = None  # the content of the manifest that its next one is based on
    verdict: str = ""  # what the manifest read says: Fenced, Landed, Current; "": put the next one
    owes: bool = False  # the listing has decided, and the client has not yet read the file that was listed
    intent: Intent | None = None
    heard: bool | None = None  # whether it will hear that its open was applied


class Compactor(NamedTuple):
    manifest: sequence.Writer = sequence.Writer()
    compactions: sequence.Writer = sequence.Writer()
    epochs: manifest_epochs.Compactor = manifest_epochs.Compactor()
    claims: manifest_compactions.Compactor = manifest_compactions.Compactor(task="OpenManifest")
    base: Any = None
    verdict: str = ""
    owes: bool = False
    intent: Intent | None = None
    heard: bool | None = None


class Operator(NamedTuple):
    manifest: sequence.Writer = sequence.Writer()
    base: Manifest | None = None


class Collector(NamedTuple):
    manifest: sequence.Collector = sequence.Collector()


class CompactionsCollector(NamedTuple):
    compactions: sequence.Collector = sequence.Collector()


class WalCollector(NamedTuple):
    manifest: sequence.Reader = sequence.Reader()
    wal: wal_fencing.Collector = wal_fencing.Collector()
    known: wal_fencing.Collector = wal_fencing.Collector()  # what the manifest says that it has read and checked
    next: wal_fencing.Collector = wal_fencing.Collector()  # what the one says that it has not checked yet


class Reader(NamedTuple):
    manifest: sequence.Reader = sequence.Reader()
    epochs: manifest_epochs.Reader = manifest_epochs.Reader()
