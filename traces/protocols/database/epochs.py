"""Safety: the history of the manifest is one of model/protocols/manifest_epochs.py: of each role only the instance that opened
last changes it, and an instance is fenced only by a higher epoch of its role.

The model sees the manifests of the history that concern it: claims of an epoch, flushes and compactions. It takes an instance's
reads when the instance's manifest joins the history, or when its caller is told that it is fenced. That is late enough, because
a higher epoch stays. The SST "w.k" is flush k of writer w.

In the model a compaction moves all of L0. In the history it may leave newer SSTs there, which the next one finds. So only the
number of SSTs is compared, and manifest_compactions checks which of them a compaction moves. A compaction is no step of the
model if the model's L0 is empty. Checkpoints are left out, and so are reads by readers.
"""

from typing import Any

from highwater.impl.codecs.manifest import Manifest
from highwater.model.protocols.manifest_epochs import ssts
from highwater.traces.protocols.database.contents import BUMP, CLAIM, COMPACTION, FLUSH, Change
from highwater.traces.refine import Match, Refiner

View = tuple[int, int, int]  # what is compared: writer epoch, compactor epoch, number of SSTs
READ = "ReadLatest", "ReadLanded", "ReadFenced"


def view_of(m: Manifest) -> View:
    return m.writer_epoch, m.compactor_epoch, len(m.l0) + len(m.compacted)


def viewed(m: Any) -> View:
    """Return the same of the model's manifest."""
    return m.writer_epoch, m.compactor_epoch, len(ssts(m))


class Epochs:
    """The history of the manifest against the model."""

    def __init__(self, refiner: Refiner):
        self.refiner = refiner

    def concerns(self, change: Change) -> bool:
        if change.kind == COMPACTION:
            return bool(self.refiner.shared().files[-1].l0)
        return change.kind in (CLAIM, BUMP) or (change.kind == FLUSH and bool(change.ssts))

    def _read(self, client: str) -> None:
        """Let an instance list, and read the latest manifest."""
        self.refiner.event(client, (0, 0, client, "list"), lists)
        self.refiner.event(client, (0, 0, client, "get"), reads)

    def _prepare(self, client: str) -> None:
        """Let an instance read until it is about to put. It may first find that its last update is in the manifest."""
        self._read(client)
        if all(l.pc == "Idle" for l in self.refiner.locals(client)):
            self._read(client)

    def put(self, client: str, view: View) -> None:
        """Put a manifest that joins the history. Both cases are followed, that its client learns this and that it does not."""
        self._prepare(client)
        self.refiner.event(client, (0, 0, client, "put", view), puts)

    def decide(self, client: str, accepted: bool) -> None:
        """Keep the states in which the client has learned whether its manifest stands."""
        locals_ = self.refiner.locals(client)
        kept = [state for state, l in zip(self.refiner.states, locals_) if (l.open and l.tries == 0) == accepted]
        self.refiner.states = tuple(kept) or self.refiner.states

    def send(self, client: str, view: View) -> None:
        """Put a manifest into the pool: it joins the history if it arrives in time."""
        self._prepare(client)
        self.refiner.event(client, (0, 0, client, "send", view), sends)

    def arrive(self, client: str, view: View) -> None:
        role, _, number = client.partition("#")
        self.refiner.event("", (0, 0, "arrive", role, int(number), view), arrives)

    def fenced(self, client: str) -> bool:
        """Return whether an instance that reads now is fenced."""
        if all(l.pc in ("Failed", "Fenced", "Dead") for l in self.refiner.locals(client)):
            return all(l.pc == "Fenced" for l in self.refiner.locals(client))
        self._read(client)
        return all(l.pc == "Fenced" for l in self.refiner.locals(client))

    def has_opened(self, client: str, epoch: int) -> bool:
        return all(l.open and l.epoch == epoch for l in self.refiner.locals(client))


# --- steps, each a function of the pseudo-event that names it

def lists(event: tuple) -> Match:
    return Match(event[2], ("List",), ())


def reads(event: tuple) -> Match:
    return Match(event[2], READ, ())


def puts(event: tuple) -> Match:
    *_, client, _, view = event
    return Match(client, ("CreateNext", "LoseReply"), (), lambda a, s, l, s2, l2: (
        len(s2.files) > len(s.files) and viewed(s2.files[-1]) == view))


def sends(event: tuple) -> Match:
    *_, client, _, view = event
    return Match(client, ("SendCreate",), (), lambda a, s, l, s2, l2: viewed(s2.pool[-1][1]) == view)


def arrives(event: tuple) -> Match:
    *_, role, number, view = event
    return Match("", ("ApplyPending",), None, lambda a, s, l, s2, l2: (
        len(s2.files) > len(s.files) and s2.by[-1][:2] == (role, number) and viewed(s2.files[-1]) == view))
