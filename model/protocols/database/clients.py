"""Know which client of each part a client of the composition is, and what a file says to a part."""

from typing import Any

from highwater.model.compose import Actor
from highwater.model.protocols import manifest_compactions, manifest_epochs, wal_fencing
from highwater.model.protocols import sequenced_metadata_boundary as sequence
from highwater.model.protocols.database.constants import Constants, parts

CLIENT = {  # role -> part -> the actions of the client of the part that it is
    "Writer": {"manifest": sequence.WRITER, "epochs": manifest_epochs.WRITER, "claims": manifest_compactions.WRITER,
               "wal": wal_fencing.WRITER},
    "Compactor": {"manifest": sequence.WRITER, "compactions": sequence.WRITER, "epochs": manifest_epochs.COMPACTOR,
                  "claims": manifest_compactions.COMPACTOR},
    "Operator": {"manifest": sequence.WRITER},
    "Collector": {"manifest": sequence.COLLECTOR},
    "CompactionsCollector": {"compactions": sequence.COLLECTOR},
    "WalCollector": {"manifest": sequence.READER, "wal": wal_fencing.COLLECTOR},
    "Reader": {"manifest": sequence.READER, "epochs": manifest_epochs.READER},
    "": {"manifest": sequence.STORE, "compactions": sequence.STORE, "epochs": manifest_epochs.STORE,
         "claims": manifest_compactions.STORE, "wal": wal_fencing.STORE},
}

ROLES: dict[str, dict[str, tuple[str, ...]]] = {  # part -> role there -> roles of the composition
    "manifest": {"Writer": ("Writer", "Compactor", "Operator"), "Collector": ("Collector",),
                 "Reader": ("Reader", "WalCollector")},
    "compactions": {"Writer": ("Compactor",), "Collector": ("CompactionsCollector",)},
    "epochs": {"Writer": ("Writer",), "Compactor": ("Compactor",), "Reader": ("Reader",)},
    "claims": {"Compactor": ("Compactor",)},
    "wal": {"Writer": ("Writer",), "Collector": ("WalCollector",)},
}
MODULES = {"manifest": sequence, "compactions": sequence, "epochs": manifest_epochs,
           "claims": manifest_compactions, "wal": wal_fencing}


def actor(c: Constants, role: str, me: int, part: str) -> Actor:
    """Return the client of a part that a composed client is."""
    before = {("manifest", "Compactor"): c.WRITERS, ("manifest", "Operator"): c.WRITERS + c.COMPACTORS,
              ("manifest", "WalCollector"): c.READERS}.get((part, role), 0)
    if (part, role) == ("claims", "Writer"):
        return Actor(part, CLIENT[role][part], 0, held="flusher")
    return Actor(part, CLIENT[role][part], before + me)


def view(c: Constants, part: str, kept: str, content: Any) -> Any:
    """Return a part's state in which the latest file of the sequence `kept` has this content."""
    of = parts(c)
    if part == "epochs":
        return manifest_epochs.initial(of.epochs)._replace(files=(content.epochs,))
    if part == "wal":
        return wal_fencing.initial()._replace(manifest=content.wal)
    if kept == "manifest":
        return manifest_compactions.initial()._replace(manifests=(content.claims,))
    return manifest_compactions.initial()._replace(compactions=(content,))


def latest(part: str, kept: str, s: Any) -> Any:
    """Return the content of the latest file in a part's state."""
    if part == "wal":
        return s.manifest
    if part == "epochs":
        return s.files[-1]
    return manifest_compactions.latest(s.manifests if kept == "manifest" else s.compactions)
