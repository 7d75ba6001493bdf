"""Safety: what the writers and collectors of the fenced log do, write_ahead_log allows.

A writer that has claimed knows its epoch, and the log from what was flushed then to the id that it has reached. A writer whose
create is done knows that its record is in the log. Checkpoints are not seen: a put that changes nothing else is no step.
"""

from highwater.model.abstract import write_ahead_log as abstract
from highwater.model.abstract.write_ahead_log import Client
from highwater.model.protocols.wal_fencing import Collector, Constants, Manifest, Shared, Writer
from highwater.model.refine import Refinement

ONTO = "write_ahead_log"
INSTANCES = (
    {"ORDER": "list"},
    {"MAX_CRASHES": 1, "FLUSHES": 2},
    {"MAX_LOST": 1},
    {"COLLECTORS": 0, "MAX_PENDING": 1},
    {"WRITERS": 1, "CHECKPOINTS": 1, "MAX_PENDING": 1, "MAX_LOST": 1},
)
OFF = (  # each safeguard switched off, on an instance that shows it
    {"CREATE_IF_ABSENT": False},
    {"MANIFEST_CAS": False},
    {"ORDER": "fence"},
    {"FENCE": False},
    {"FENCE_AHEAD": False},
    {"VALIDATE": "before"},
    {"VALIDATE": "none"},
    {"CHECK": "boundary"},
    {"CHECK": "none"},
    {"RESOLVE_ONCE": False},
    {"MISSING_IS_FENCED": False, "WRITERS": 3},
    {"FLUSH_EXACT": False},
    {"EPOCH_CHECK": False},
    {"GC_BEHIND": False},
    {"UNKNOWN": "skip", "MAX_PENDING": 1},
)
CLAIMED = ("Claimed", "Listed", "Resolve")
REPLAYING = ("Replaying", "Validating")
SERVING = ("Open", "Created", "Doubt", "Refused")


def manifest(m: Manifest) -> abstract.Manifest:
    return abstract.Manifest(m.writer_epoch, m.replay_after, m.flushed)


def shared(c: Constants, s: Shared) -> abstract.Shared:
    flying = frozenset((kind, manifest(where), manifest(what)) if kind == "Manifest" else (kind, where, what)
                       for kind, where, what in s.pool if kind != "Manifest" or manifest(where) != manifest(what))
    return abstract.Shared(manifest(s.manifest), s.wal, flying, s.acked, s.top, s.late)


def writer(c: Constants, me: int, w: Writer) -> Client:
    known = frozenset({manifest(w.base)}) if w.base else frozenset[abstract.Manifest]()
    if not w.epoch:  # Closed, Probed or Ready; Listed, where the fence comes before the claim
        return Client(known, frozenset({w.n} - {0}))
    if w.pc in CLAIMED:
        ids = frozenset({w.n if w.pc == "Listed" else w.base.replay_after})
        return Client(known, ids, epochs=frozenset({w.epoch}), log=frozenset({(w.epoch, w.base.replay_after, w.base.flushed)}))
    if w.pc not in (*REPLAYING, *SERVING, "Reread"):
        return Client()
    serves = w.pc in SERVING or (w.pc == "Reread" and w.n + 1 >= w.end)
    return Client(known if w.pc != "Reread" else frozenset(), epochs=frozenset({w.epoch}),
                  fences=frozenset() if serves else frozenset({(w.epoch, w.fence)}), log=frozenset({(w.epoch, w.n, w.has)}),
                  open=frozenset({w.epoch}) if serves else frozenset(),
                  told=frozenset({(w.n + 1, (me, w.k))}) if w.pc == "Created" else frozenset())


def collector(c: Constants, me: int, g: Collector) -> Client:
    return Client(replayed=frozenset({g.n}) if g.n else frozenset())


STEPS = {
    "Writer": {
        "ReadManifest": ("ReadManifest",), "Claim": ("Claim",), "List": ("List",), "CreateFence": ("Fence",),
        "FenceConflict": ("List",), "ReadNext": ("Read",), "Validate": ("Open",), "CreateNext": ("Append",),
        "ReadOwn": ("ReadOwn",), "Accept": ("Accept",), "FlushNext": ("Flush",), "RereadCurrent": ("ReadManifest",),
        "SendCreate": ("Send",), "LoseCreate": ("Append",), "SendFence": ("Send",), "LoseFence": ("Fence",),
        "SendManifest": ("Send",), "LoseManifest": ("Claim", "Flush"),
    },
    "Collector": {"ReadManifest": ("ReadManifest",), "Delete": ("Delete",)},
    "": {"ApplyPending": ("Apply", "Drop")},
}


def refinement(c: Constants) -> Refinement:
    onto = abstract.model(abstract.Constants(c.WRITERS + c.COLLECTORS, EPOCHS=None))
    return Refinement(onto, shared, {"Writer": writer, "Collector": collector}, STEPS, abstract.forgets, abstract.GIVEN)
