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

A client recognises its update by an id, so it goes on with the same update until it knows the outcome. An open is the exception.
A client that does not hear of its open takes the next epoch. Whether it will hear is not known when the create is applied, so
both are followed, and a branch ends where the other comes true.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any, NamedTuple

from highwater.model.compose import Actor, Follow, Names, Ways, alone, first_way, lifted, ordered, taken, within
from highwater.model.core import Action, Model, Property
from highwater.model.parts import MANY, below, clients, one_more, store, top
from highwater.model.protocols import manifest_compactions, manifest_epochs, wal_fencing
from highwater.model.protocols import sequenced_metadata_boundary as sequence


class Constants(NamedTuple):
    """None for a bound means unbounded and not counted."""

    WRITERS: int = 1  # writers over time
    COMPACTORS: int = 0  # compactors over time
    OPERATORS: int = 0  # clients that take and drop checkpoints
    READERS: int = 0
    COLLECTORS: int = 0  # collectors of the manifest
    COMPACTIONS_COLLECTORS: int = 0
    WAL_COLLECTORS: int = 0
    WAL: bool = True  # False: flushes come from nowhere, so that instances stay small
    APPENDS: int | None = 1  # records of a writer
    FLUSHES: int | None = 1  # of a writer
    TAKES: int = 1  # updates of an operator
    CHECKPOINTS: int | None = 0  # checkpoints in one manifest
    MAX_ID: int | None = 4  # of a manifest
    # Faults, each bounded
    MAX_PENDING: int | None = 0  # requests in all that are in flight when their clients stop waiting
    MAX_LOST: int | None = 0  # responses lost
    MAX_CRASHES: int | None = 0
    # Safeguards: switch one off and a property or the refinement of a part must fail
    VERDICT_CHECKED: bool = True  # a client checks the boundary before it believes that it is fenced
    WAL_CHECKED: bool = True  # a WAL collector deletes by a manifest that it has checked to be in the history
    OWN_BOUNDARY: bool = True  # files of the compactions are collected behind their own boundary; False: behind the manifest's
    FENCE_CHECKED: bool = True  # a writer puts its fence after it has checked that its claim is in the history
    OFF: str = ""  # a safeguard of a part that is switched off; WITHOUT has their names


# a safeguard -> the parts that have it -> the constants with which it is off
WITHOUT: dict[str, dict[str, dict[str, Any]]] = {
    "": {},
    **{f"{part}.{name}": {part: {name: value}} for part in ("manifest", "compactions") for name, value in (
        ("BOUNDARY", False), ("CHECK", "off"), ("OLD_WRITERS", 1), ("FRESH_BOUNDARY", False), ("BOUNDARY_FIRST", False),
        ("CONDITIONAL_ADVANCE", False), ("KEEP_LATEST", False), ("ON_REFUSAL", "unchecked"))},
    **{f"manifest.{name}": {"manifest": {name: False}} for name in ("SPARE_CHECKPOINTS", "SPARE_LISTED", "CHECK_READS")},
    **{f"epochs.{name}": {"epochs": {name: value}} for name, value in (
        ("BUMP_OWN_ONLY", False), ("EPOCH_CHECK", False), ("SWALLOW_FENCED", True), ("UNKNOWN_IS_DONE", True),
        ("POLL_LIST", False))},
    "COMPACTOR_EPOCH": {"epochs": {"COMPACTOR_EPOCH": False}, "claims": {"EPOCH_CHECK": False}},  # one check, in two parts
    **{f"claims.{name}": {"claims": {name: False}} for name in ("HEAL", "APPLY_FIRST", "RECOGNISE", "TAKE_OVER")},
    **{f"wal.{name}": {"wal": {name: value}} for name, value in (
        ("CREATE_IF_ABSENT", False), ("FENCE", False), ("FENCE_AHEAD", False), ("VALIDATE", "none"), ("CHECK", "none"),
        ("RESOLVE_ONCE", False), ("MISSING_IS_FENCED", False), ("FLUSH_EXACT", False), ("GC_BEHIND", False),
        ("UNKNOWN", "skip"))},
}

LIMITS = {  # the values that an instance may have
    **dict.fromkeys(("WRITERS", "COMPACTORS", "OPERATORS", "READERS", "COLLECTORS", "COMPACTIONS_COLLECTORS", "WAL_COLLECTORS",
                     "APPENDS", "FLUSHES", "TAKES", "CHECKPOINTS", "MAX_PENDING", "MAX_LOST", "MAX_CRASHES"), MANY),
    "MAX_ID": MANY[1:],
    "OFF": tuple(WITHOUT),
}


class Parts(NamedTuple):
    """The constants of each part."""

    manifest: sequence.Constants
    compactions: sequence.Constants
    epochs: manifest_epochs.Constants
    claims: manifest_compactions.Constants
    wal: wal_fencing.Constants


class Manifest(NamedTuple):
    """What a manifest says to each part."""

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


# --- the parts

CONTENTS = {"manifest": "manifests", "compactions": "compacting"}
CLIENT = {  # role -> part -> the actions of the client of the part that it is
    "Writer": {"manifest": sequence.WRITER, "epochs": manifest_epochs.WRITER, "claims": manifest_compactions.WRITER, "wal": wal_fencing.WRITER},
    "Compactor": {"manifest": sequence.WRITER, "compactions": sequence.WRITER, "epochs": manifest_epochs.COMPACTOR,
                  "claims": manifest_compactions.COMPACTOR},
    "Operator": {"manifest": sequence.WRITER},
    "Collector": {"manifest": sequence.COLLECTOR},
    "CompactionsCollector": {"compactions": sequence.COLLECTOR},
    "WalCollector": {"manifest": sequence.READER, "wal": wal_fencing.COLLECTOR},
    "Reader": {"manifest": sequence.READER, "epochs": manifest_epochs.READER},
    "": {"manifest": sequence.STORE, "compactions": sequence.STORE, "epochs": manifest_epochs.STORE, "claims": manifest_compactions.STORE,
         "wal": wal_fencing.STORE},
}
UNBOUNDED: dict[str, Any] = dict.fromkeys(("MAX_PENDING", "MAX_LOST", "MAX_CRASHES"))


@cache
def parts(c: Constants) -> Parts:
    """Return the constants of each part. The composition bounds the faults, so they do not."""
    off = WITHOUT[c.OFF]
    files = {"COMMITS": None, "ON_REFUSAL": "recognised", **UNBOUNDED}
    return Parts(
        sequence.Constants(**{**files, "WRITERS": c.WRITERS + c.COMPACTORS + c.OPERATORS, "COLLECTORS": c.COLLECTORS,
                              "READERS": c.READERS + c.WAL_COLLECTORS, "MAX_ID": c.MAX_ID, "CHECKPOINTS": c.CHECKPOINTS,
                              **off.get("manifest", {})}),
        sequence.Constants(**{**files, "WRITERS": c.COMPACTORS, "COLLECTORS": c.COMPACTIONS_COLLECTORS, "MAX_ID": None,
                              **off.get("compactions", {})}),
        manifest_epochs.Constants(**{"WRITERS": c.WRITERS, "COMPACTORS": c.COMPACTORS, "READERS": c.READERS, "FLUSHES": None,
                            "COMPACTIONS": None, "CHECKPOINTS": 0, "OPEN_RETRIES": -1, **UNBOUNDED, **off.get("epochs", {})}),
        manifest_compactions.Constants(**{"WRITERS": 1, "COMPACTORS": c.COMPACTORS, "FLUSHES": None, **UNBOUNDED, **off.get("claims", {})}),
        wal_fencing.Constants(**{"WRITERS": c.WRITERS, "COLLECTORS": c.WAL_COLLECTORS, "APPENDS": c.APPENDS, "FLUSHES": None,
                         **UNBOUNDED, **off.get("wal", {})}))


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
    return s.files[-1] if part == "epochs" else manifest_compactions.latest(s.manifests if kept == "manifest" else s.compactions)


# --- what the parts do when an update joins the history

PUT, CLAIM = (("List", "ReadLatest", "CreateNext"),), (("Read", "CreateNext", "Accept"),)
LANDS: dict[str, Follow] = {  # kind of update -> part -> what it does
    "Open": {"epochs": PUT, "wal": (("ReadManifest", "Claim"),)},
    "Flush": {"epochs": PUT, "claims": (*CLAIM, ("ReadLanded", *CLAIM[0])), "wal": (("FlushNext",),)},
    "OpenCompactor": {"epochs": PUT, "claims": CLAIM},
    "Apply": {"epochs": (*PUT, ("List", "ReadLatest")), "claims": CLAIM},  # epochs merges all of L0, so perhaps before
    "Compactions": {"claims": CLAIM},
    "Checkpoint": {},
}
UNHEARD: dict[str, Follow] = {  # the same, if the client will not hear of it
    "Open": {"epochs": (("List", "ReadLatest", "LoseReply"),), "wal": (("ReadManifest", "LoseManifest"),)},
    "OpenCompactor": {"epochs": (("List", "ReadLatest", "LoseReply"),), "claims": (("Read", "CreateNext", "LoseReply"),)},
}
SEND, SEND_CLAIM = (("List", "ReadLatest", "SendCreate"),), (("Read", "SendCreate"),)
SENDS: dict[str, Follow] = {  # what the parts do when the client stops waiting for its create
    "Open": {"epochs": SEND, "wal": (("ReadManifest", "SendManifest"),)},
    "Flush": {"epochs": SEND, "claims": (*SEND_CLAIM, ("ReadLanded", *SEND_CLAIM[0])), "wal": (("SendManifest",),)},
    "OpenCompactor": {"epochs": SEND, "claims": SEND_CLAIM},
    "Apply": {"epochs": (*SEND, ("List", "ReadLatest")), "claims": SEND_CLAIM},
    "Compactions": {"claims": SEND_CLAIM},
    "Checkpoint": {},
}
KINDS = {("Writer", "manifest"): ("Open", "Flush"), ("Compactor", "manifest"): ("OpenCompactor", "Apply"),
         ("Compactor", "compactions"): ("Compactions",), ("Operator", "manifest"): ("Checkpoint",)}


def kind_of(role: str, part: str, w: Any) -> str:
    """Return the kind of the update that the client puts next."""
    if getattr(w, "intent", None):
        return w.intent.kind
    opens, *rest = KINDS[role, part]
    return rest[0] if rest and w.epochs.open else opens


def used(c: Constants, follow: Follow) -> Follow:
    return follow if c.WAL else {part: ways for part, ways in follow.items() if part != "wal"}


def intent_of(role: str, part: str, s: Shared, w: Any) -> Intent:
    """Return what the client is about to put, and what it knows: if it puts it again, what it knew the first time."""
    return getattr(w, "intent", None) or Intent(part, kind_of(role, part, w), getattr(w, "epochs", None),
                                                getattr(w, "claims", None), getattr(w, "wal", None), s.flusher)


def known_of(role: str, part: str, intent: Intent) -> Any:
    """Return what the client of a part knew before the update was put."""
    return intent.flusher if (role, part) == ("Writer", "claims") else getattr(intent, part)


def content_of(c: Constants, role: str, me: int, intent: Intent, base: Any) -> Any:
    """Return the content that a client puts over `base`: each part puts it on a store that ends with `base`."""
    for part, ways in used(c, LANDS[intent.kind]).items():
        found = alone(actor(c, role, me, part), ways, parts(c), view(c, part, intent.part, base), known_of(role, part, intent))
        if found:
            new = latest(part, intent.part, found[0])
            base = base._replace(**{part: new}) if intent.part == "manifest" else new
    return base


def follows(c: Constants, role: str, me: int, s: Shared, w: Any, follow: Follow) -> tuple[Shared, Any]:
    """Let each part follow. A part that cannot is noted."""
    for part, ways in used(c, follow).items():
        found = first_way(actor(c, role, me, part), ways, parts(c), s, w)
        s, w = found or (s._replace(apart=tuple(sorted({*s.apart, part}))), w)
    return s, w


def may_follow(c: Constants, role: str, me: int, s: Shared, w: Any, follow: Follow) -> tuple[Shared, Any]:
    """Let each part follow that can."""
    for part, ways in used(c, follow).items():
        s, w = first_way(actor(c, role, me, part), ways, parts(c), s, w) or (s, w)
    return s, w


# --- the contents of files

def created(before: sequence.Shared, after: sequence.Shared) -> int:
    """Return the id of the file that a step creates, or 0."""
    if before.files is after.files:
        return 0
    return next((i for i, file in enumerate(after.files, 1)
                 if file and not (i <= len(before.files) and before.files[i - 1])), 0)


def with_contents(s: Shared, s2: Shared, part: str, content: Any = None) -> Shared:
    """Keep the contents of the files that are there, and add that of a file that a step creates."""
    before, after = getattr(s, part), getattr(s2, part)
    if before.files is after.files or before.files == after.files:
        return s2
    new, old = created(before, after), getattr(s, CONTENTS[part])
    found = tuple(None if not file else content if i == new else old[i - 1] for i, file in enumerate(after.files, 1))
    return s2._replace(**{CONTENTS[part]: found})


# --- one request of a composed client

def always(c: Constants, me: int, s: Shared, w: Any) -> bool:
    return True


def any_part(role: str, part: str, s: Shared, w: Any) -> bool:
    return True


def no_more(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: Any) -> tuple[Shared, Any]:
    return s2, w2


class Joint(NamedTuple):
    """One request: the part whose store it reaches and what its client does there, and what the other parts do with it."""

    part: str = "manifest"
    takes: Names = ()
    when: Callable[..., bool] = always  # f(constants, own index, shared, local): the composition's own condition
    puts: Mapping[str, Follow] = {}  # kind of update -> what the parts do when it joins the history, or is sent
    unheard: Mapping[str, Follow] = {}  # the same, if the client will not hear of it
    must: Follow = {}  # what other parts do with it
    may: Follow = {}  # the same, if they can
    whose: Callable[..., bool] = any_part  # f(role, part, shared, local): which of `may`
    then: Callable[..., tuple[Shared, Any]] = no_more  # f(constants, own index, shared, local, both after)


def request(role: str, of: Joint, c: Constants, me: int, s: Shared, w: Any) -> Iterator:
    """Take a joint step: first the client's own part, then the others."""
    if not of.when(c, me, s, w):
        return
    for choices, s2, w2 in within(actor(c, role, me, of.part), of.takes, parts(c), s, w):
        if of.part in CONTENTS and not of.puts:
            s2 = with_contents(s, s2, of.part)
        for chosen, s3, w3 in put(role, of, c, me, s, w, s2, w2) if of.puts else [((), s2, w2)]:
            if not allowed(role, choices):
                continue
            s3, w3 = follows(c, role, me, s3, w3, of.must)
            s3, w3 = may_follow(c, role, me, s3, w3, {part: ways for part, ways in of.may.items() if of.whose(role, part, s, w)})
            yield (*choices, *chosen), *settled(of.part, w, *of.then(c, me, s, w, s3, w3))


def allowed(role: str, choices: tuple) -> bool:
    """Only an operator changes checkpoints."""
    change = choices[0][0] if choices and isinstance(choices[0], tuple) else ""
    return change not in ("Take", "Drop", "Renew") if role in ("Writer", "Compactor") else change != "Keep"


def settled(part: str, w: Any, s2: Shared, w2: Any) -> tuple[Shared, Any]:
    """Forget a base that is no longer needed, and an update whose outcome is known."""
    if part not in CONTENTS or not hasattr(w2, "base"):
        return s2, w2
    before, after = getattr(w, part), getattr(w2, part)
    if w2.base is not None and after.pc not in ("Ready", "Prechecked"):
        w2 = w2._replace(base=None)
    if after.k > before.k and getattr(w2, "intent", None):
        w2 = w2._replace(intent=None, heard=None)
    return s2, w2


def put(role: str, of: Joint, c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: Any) -> Iterator:
    """A create: it joins the history, or it is applied at or behind the boundary, or it is in flight."""
    intent = intent_of(role, of.part, s, w)
    content = content_of(c, role, me, intent, w.base)
    if hasattr(w2, "intent"):
        w2 = w2._replace(intent=intent)
    files, i = getattr(s, of.part), created(getattr(s, of.part), getattr(s2, of.part))
    if not i:
        pool = getattr(s2, of.part).pool
        flight = Flight(of.part, next(one for one in pool if pool.count(one) > files.pool.count(one)), intent.kind, content)
        s2 = s2._replace(flights=tuple(sorted((*s.flights, flight), key=lambda one: one[:3])))
        latest_is_base = getattr(w, of.part).n == top(files.files)
        yield (), *follows(c, role, me, s2, w2, of.puts[intent.kind] if latest_is_base else {})
        return
    s2 = with_contents(s, s2, of.part, content)
    if i <= files.boundary:
        yield (), s2, w2 if c.FENCE_CHECKED or intent.kind != "Open" else believes_claim(c, me, w, w2)
        return
    if intent.kind not in of.unheard:
        yield (), *follows(c, role, me, s2, w2, of.puts[intent.kind])
        return
    yield ("heard",), *follows(c, role, me, s2, w2._replace(heard=True), of.puts[intent.kind])
    if getattr(w2, of.part).k == getattr(w, of.part).k:
        yield ("unheard",), *follows(c, role, me, s2, w2._replace(heard=False), of.unheard[intent.kind])


def believes_claim(c: Constants, me: int, w: Writer, w2: Writer) -> Writer:
    """Return the writer with the claim that it would have if its file were in the history."""
    found = alone(actor(c, "Writer", me, "wal"), LANDS["Open"]["wal"], parts(c), view(c, "wal", "manifest", w.base), w.wal)
    return w2._replace(wal=found[1]) if found else w2


# --- what a client makes of the file that it has read

def judged(c: Constants, role: str, me: int, part: str, s: Shared, w: Any) -> Any:
    """Return the client with its verdict on the content that it has read. "": it puts the next file."""
    intent = intent_of(role, part, s, w)

    def says(of: str, names: Names) -> bool:
        return alone(actor(c, role, me, of), (names,), parts(c), view(c, of, part, w.base), known_of(role, of, intent)) is not None

    if part == "manifest" and says("epochs", ("List", "ReadFenced")):
        return w._replace(verdict="Fenced", base=w.base if not c.VERDICT_CHECKED else None)
    if role == "Compactor" and says("claims", ("ReadFenced",)):
        return w._replace(verdict="Fenced", base=w.base if not c.VERDICT_CHECKED else None)
    if role == "Compactor" and not w.intent and says("claims", ("ReadLanded",)):
        return w._replace(verdict="Landed", base=None)
    return w._replace(verdict="Current", base=None) if w.owes or only_looks(c, role, w) else w


def only_looks(c: Constants, role: str, w: Any) -> bool:
    """Tell whether the client reads the file for what it says, and not to put the next one."""
    if w.intent:
        return False
    return w.wal.pc in WAITING if role == "Writer" else w.claims.task == "Pick"


WAITING = ("Validating", "Created")
STOPPED = ("Fenced", "Dead")


def is_stopped(w: Any) -> bool:
    return w.epochs.pc in STOPPED or (isinstance(w, Compactor) and w.claims.pc in STOPPED)


def is_ahead(part: str, s: Shared, w: Any) -> bool:
    """GET the boundary: was the file that was read before ahead of it?"""
    return getattr(w, part).n > getattr(s, part).boundary


def has_work(c: Constants, me: int, s: Shared, w: Any) -> bool:
    """Tell whether a writer has a reason to read the manifest."""
    if is_stopped(w) or w.intent or not w.epochs.open:
        return not is_stopped(w)
    if c.WAL and (w.owes or w.wal.pc in (*WAITING, "Reread")):
        return True
    return below(w.epochs.k, c.FLUSHES) and (not c.WAL or may_flush(c, me, w))


def may_flush(c: Constants, me: int, w: Writer) -> bool:
    """Tell whether the writer has something to flush."""
    return w.wal.base is not None and alone(actor(c, "Writer", me, "wal"), (("FlushNext",),), parts(c),
                                            wal_fencing.initial()._replace(manifest=w.wal.base), w.wal) is not None


def works_on(part: str, c: Constants, me: int, s: Shared, w: Compactor) -> bool:
    """Tell whether a compactor's current task concerns this sequence."""
    on = w.intent.part if w.intent else "manifest" if w.owes or manifest_compactions.is_manifest(w.claims) else "compactions"
    return on == part and not is_stopped(w)


# --- the loop of a client that writes a sequence: LIST, GET the latest, PUT the next if absent, GET the boundary

def listed(c: Constants, me: int, s: Shared, w: Writer, s2: Shared, w2: Writer) -> tuple[Shared, Writer]:
    """The listing shows the latest file. Once a writer has read it, it takes what it says for true at this moment."""
    return s2, w2._replace(owes=w.owes or (w.wal.pc in WAITING and w2.wal.pc not in WAITING))


def picked(c: Constants, me: int, s: Shared, w: Compactor, s2: Shared, w2: Compactor) -> tuple[Shared, Compactor]:
    """The listing shows a file with work. The compactor will read that file."""
    return s2, w2._replace(owes=True)


def read(role: str, part: str, c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: Any) -> tuple[Shared, Any]:
    w2 = w2._replace(base=getattr(s, CONTENTS[part])[getattr(w, part).n - 1])
    return s2, judged(c, role, me, part, s, w2) if role != "Operator" else w2


def has_base(c: Constants, me: int, s: Shared, w: Any) -> bool:
    return not getattr(w, "verdict", "")


def may_send(c: Constants, me: int, s: Shared, w: Any) -> bool:
    return below(s.sent, c.MAX_PENDING) and not getattr(w, "verdict", "")


def sent(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: Any) -> tuple[Shared, Any]:
    return s2._replace(sent=one_more(s.sent, c.MAX_PENDING)), w2


def hears(c: Constants, me: int, s: Shared, w: Any) -> bool:
    return getattr(w, "heard", None) is not False


def hears_not(c: Constants, me: int, s: Shared, w: Any) -> bool:
    return getattr(w, "heard", None) is not True


def may_lose(part: str, c: Constants, me: int, s: Shared, w: Any) -> bool:
    return getattr(w, part).pc == "Created" and hears_not(c, me, s, w) and below(s.lost, c.MAX_LOST)


def lost(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: Any) -> tuple[Shared, Any]:
    return s2._replace(lost=one_more(s.lost, c.MAX_LOST)), w2


RECOGNISED: dict[str, Ways] = {"epochs": (("List", "ReadLanded"),), "claims": (("ReadLanded",),), "wal": (("RereadCurrent",),)}


def is_behind(role: str, part: str, s: Shared, w: Any) -> bool:
    """Tell whether the part has not taken the update for done. The client learns that it is in the history."""
    intent = getattr(w, "intent", None)
    if not intent or part not in CLIENT[role] or part == "wal":
        return bool(intent) and part in CLIENT[role]
    if (role, part) == ("Writer", "claims"):
        return s.flusher.k == intent.flusher.k
    return w.epochs.k == intent.epochs.k if part == "epochs" else w.claims.task == intent.claims.task


def may_conclude(part: str, verdict: str, c: Constants, me: int, s: Shared, w: Any) -> bool:
    return w.verdict == verdict and is_ahead(part, s, w) and (verdict != "Fenced" or c.VERDICT_CHECKED)


def concluded(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: Any) -> tuple[Shared, Any]:
    return s2, w2._replace(verdict="", owes=False)


def may_believe(c: Constants, me: int, s: Shared, w: Any) -> bool:
    return w.verdict == "Fenced" and not c.VERDICT_CHECKED


def believed(part: str, role: str, c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: Any) -> tuple[Shared, Any]:
    """The client stops because of a file that may be in nobody's history."""
    of = "epochs" if part == "manifest" else "claims"
    found = alone(actor(c, role, me, of), TELLS_FENCED[role, part][0][of], parts(c), view(c, of, part, w.base), getattr(w, of))
    return s2, w2._replace(verdict="", owes=False, **{of: found[1]} if found else {})


FENCED: Ways = (("List", "ReadFenced"),)
TELLS_FENCED: dict[tuple[str, str], tuple[Follow, Follow]] = {  # what the parts must do, and what they do if they can
    ("Writer", "manifest"): ({"epochs": FENCED}, {"wal": (("Reject",), ("ValidateFenced",), ("RereadFenced",))}),
    ("Compactor", "manifest"): ({"epochs": FENCED}, {"claims": (("ReadFenced",),)}),
    ("Compactor", "compactions"): ({"claims": (("ReadFenced",),)}, {"epochs": FENCED}),
}


def confirmed(role: str, c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: Any) -> tuple[Shared, Any]:
    """What the listing decided was right: the file listed is the one that was read. A writer that waits must have decided."""
    if role == "Writer" and w.wal.pc in WAITING:
        s2 = s2._replace(apart=tuple(sorted({*s2.apart, "wal"})))
    return concluded(c, me, s, w, s2, w2)


def may_doubt(part: str, c: Constants, me: int, s: Shared, w: Any) -> bool:
    """The file read may be in nobody's history, so it says nothing. A compactor that has picked cannot have read it."""
    return bool(w.verdict) and not is_ahead(part, s, w) and not (isinstance(w, Compactor) and w.owes) and not (
        w.verdict == "Fenced" and not c.VERDICT_CHECKED)


def doubted(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: Any) -> tuple[Shared, Any]:
    return s2, w2._replace(verdict="")


def may_miss(c: Constants, me: int, s: Shared, w: Any) -> bool:
    """A compactor that has picked has read the file that was listed."""
    return not (isinstance(w, Compactor) and w.owes)


def puts_of(role: str, part: str, table: Mapping[str, Follow]) -> dict[str, Follow]:
    return {kind: table[kind] for kind in KINDS[role, part] if kind in table}


def has_work_for(part: str, role: str, c: Constants, me: int, s: Shared, w: Any) -> bool:
    """Tell whether the client has a reason to read the latest file of this sequence."""
    if role == "Writer":
        return has_work(c, me, s, w)
    return w.manifest.k < c.TAKES if role == "Operator" else works_on(part, c, me, s, w)


def may_pick(c: Constants, me: int, s: Shared, w: Compactor) -> bool:
    """Tell whether the file that the listing shows has work for a compactor that looks for some."""
    return (works_on("manifest", c, me, s, w) and w.claims.task == "Pick" and not w.intent
            and first_way(actor(c, "Compactor", me, "claims"), PICKS["claims"], parts(c), s, w) is not None)


PICKS: Follow = {"claims": (("Read",),)}
SHOWS: Follow = {"wal": (("Accept",), ("Validate",), ("RereadCurrent",))}  # the listing shows that the epoch is a writer's own


def loop(role: str, part: str = "manifest") -> dict[str, Joint]:
    """The requests of a client that writes files of a sequence: LIST, GET the latest, PUT the next if absent, GET the boundary."""
    one, begins = partial(Joint, part), partial(has_work_for, part, role)
    rows = {
        "List": one(("List",), when=begins, may=SHOWS, then=listed) if role == "Writer" else one(("List",), when=begins),
        "ReadLatest": one(("ReadLatest",), then=partial(read, role, part)),
        "ReadApplied": one(("ReadApplied",)),
        "ReadMissing": one(("ReadMissing",), when=may_miss),
        "CreateNext": one(("CreateNext",), when=has_base, puts=puts_of(role, part, LANDS), unheard=puts_of(role, part, UNHEARD)),
        "CreateConflict": one(("CreateConflict",), when=has_base),
        "Accept": one(("Accept",), when=hears),
        "Reject": one(("Reject",), when=hears_not),
        "Recognise": one(("Recognise",), may=RECOGNISED, whose=is_behind),
        "RecogniseReject": one(("RecogniseReject",)),
        "SendCreate": one(("SendCreate",), when=may_send, puts=puts_of(role, part, SENDS), then=sent),
        "LoseReply": one(("LoseReply",), when=partial(may_lose, part), then=lost),
    }
    if role == "Operator":
        return rows
    again = partial(one, ("LoseReply",))  # the client starts over, as after a lost response to a read
    must, may = TELLS_FENCED[role, part]
    rows |= {
        "Fenced": again(when=partial(may_conclude, part, "Fenced"), must=must, may=may, then=concluded),
        "Believe": again(when=may_believe, then=partial(believed, part, role)),
        "Current": again(when=partial(may_conclude, part, "Current"), then=partial(confirmed, role)),
        "Doubt": again(when=partial(may_doubt, part), then=doubted),
    }
    if role == "Compactor":
        rows["Landed"] = again(when=partial(may_conclude, part, "Landed"), must={"claims": (("ReadLanded",),)}, then=concluded)
    if (role, part) == ("Compactor", "manifest"):
        rows["Pick"] = one(("List",), when=may_pick, must=PICKS, then=picked)
    return rows


# --- the other requests

def on_wal(c: Constants, me: int, s: Shared, w: Writer) -> bool:
    """A writer uses the WAL between its updates of the manifest."""
    free = w.manifest.pc == "Idle" and not w.intent and not w.owes
    return (free or (w.manifest.pc == "Created" and not c.FENCE_CHECKED)) and not is_stopped(w)


def may_lose_wal(c: Constants, me: int, s: Shared, w: Writer) -> bool:
    return on_wal(c, me, s, w) and below(s.lost, c.MAX_LOST)


def may_send_wal(c: Constants, me: int, s: Shared, w: Writer) -> bool:
    return on_wal(c, me, s, w) and below(s.sent, c.MAX_PENDING)


def may_crash(c: Constants, me: int, s: Shared, w: Any) -> bool:
    return below(s.crashes, c.MAX_CRASHES) and not is_stopped(w)


def crashed(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: Any) -> tuple[Shared, Any]:
    return (s2._replace(crashes=one_more(s.crashes, c.MAX_CRASHES)),
            w2._replace(base=None, verdict="", owes=False, intent=None, heard=None))


CRASH: Ways = (("Crash",),)
WAL = {"WalList": "List", "CreateFence": "CreateFence", "FenceConflict": "FenceConflict", "ListAgain": "ListAgain",
       "ReadNext": "ReadNext", "WalReadMissing": "ReadMissing", "Append": "CreateNext", "AppendConflict": "CreateConflict",
       "ReadOwn": "ReadOwn", "ReadOther": "ReadOther", "ReadGone": "ReadGone"}  # the requests to it
WRITER: dict[str, Joint] = {
    **loop("Writer"),
    **{name: Joint("wal", (action,), on_wal) for name, action in WAL.items()},
    **{f"{action}{'' if action.endswith('Fence') else 'OfWal'}": Joint("wal", (action,), may_lose_wal, then=lost)
       for action in ("LoseCreate", "LoseFence")},
    **{f"{action}{'' if action.endswith('Fence') else 'OfWal'}": Joint("wal", (action,), may_send_wal, then=sent)
       for action in ("SendCreate", "SendFence")},
    "Crash": Joint("epochs", ("Crash",), may_crash, may={"manifest": CRASH, "wal": CRASH}, then=crashed),
}
COMPACTOR: dict[str, Joint] = {
    **loop("Compactor"), **{f"Compactions{name}": row for name, row in loop("Compactor", "compactions").items()},
    "Crash": Joint("epochs", ("Crash",), may_crash, must={"claims": CRASH}, may={"manifest": CRASH, "compactions": CRASH},
                   then=crashed),
}
OPERATOR: dict[str, Joint] = loop("Operator")


def collects(part: str) -> dict[str, Joint]:
    """The requests of a collector of a sequence."""
    names = ("List", "ReadCheckpoints", "CheckpointsMissing", "CheckpointsAccept", "CheckpointsReject", "ReadBoundary",
             "Advance", "AdvanceConflict", "Delete")
    return {**{name: Joint(part, (name,)) for name in names},
            **{name: Joint(part, (name,), may_send, then=sent) for name in ("SendAdvance", "SendDelete")}}


def others_boundary(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: CompactionsCollector) -> tuple[Shared, Any]:
    return s2, w2 if c.OWN_BOUNDARY else w2._replace(compactions=w2.compactions._replace(b=s.manifest.boundary))


COLLECTOR: dict[str, Joint] = collects("manifest")
COMPACTIONS_COLLECTOR: dict[str, Joint] = {
    **collects("compactions"), "ReadBoundary": Joint("compactions", ("ReadBoundary",), then=others_boundary)}


def learns(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: WalCollector) -> tuple[Shared, Any]:
    """The collector has read a manifest, and knows what it says of the WAL."""
    found = alone(actor(c, "WalCollector", me, "wal"), (("ReadManifest",),), parts(c),
                  view(c, "wal", "manifest", s.manifests[w.manifest.n - 1]), w.wal)
    assert found
    return s2, w2._replace(next=found[1]) if c.WAL_CHECKED and w2.manifest.pc != "Done" else w2._replace(
        wal=found[1], known=found[1])


def knows(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: WalCollector) -> tuple[Shared, Any]:
    """The manifest was in the history. The latest one may say more by now; the collector deletes by the one that it read."""
    return s2, w2._replace(known=w.next, next=wal_fencing.Collector())


def forgets(c: Constants, me: int, s: Shared, w: Any, s2: Shared, w2: WalCollector) -> tuple[Shared, Any]:
    return s2, w2._replace(next=wal_fencing.Collector())


def delete_wal(c: Constants, me: int, s: Shared, w: WalCollector) -> Iterator:
    """Delete an object that the model of the WAL lets this collector delete, knowing only the manifest that it has read."""
    one = actor(c, "WalCollector", me, "wal")
    allowed_ids = {choices for choices, _, _ in taken(one.actions, ("Delete",), parts(c).wal, one.index, s.wal, w.known)}
    for choices, s2, w2 in within(one, ("Delete",), parts(c), s, w):
        if choices in allowed_ids:
            yield choices, s2, w2


WAL_COLLECTOR: dict[str, Joint] = {
    "List": Joint(takes=("List",)),
    "ReadLatest": Joint(takes=("ReadLatest",), then=learns),
    "ReadMissing": Joint(takes=("ReadMissing",)),
    "ReadAccept": Joint(takes=("ReadAccept",), must={"wal": (("ReadManifest",),)}, then=knows),
    "ReadReject": Joint(takes=("ReadReject",), then=forgets),
    "Delete": Joint("wal", ("Delete",)),
}
READER: dict[str, Joint] = {
    "List": Joint(takes=("List",), must={"epochs": (("List",), ("ReadLatest", "List"))}),
    "ReadLatest": Joint(takes=("ReadLatest",)),
    "ReadMissing": Joint(takes=("ReadMissing",)),
    "ReadAccept": Joint(takes=("ReadAccept",), must={"epochs": (("ReadLatest",),)}),
    "ReadReject": Joint(takes=("ReadReject",)),
}
STORE: dict[str, Joint] = {
    "ApplyPending": Joint("manifest", ("ApplyPending",), must={part: (("ApplyPending",),) for part in ("epochs", "claims", "wal")}),
    "ApplyPendingCompactions": Joint("compactions", ("ApplyPending",), must={"claims": (("ApplyPending",),)}),
    "ApplyPendingWal": Joint("wal", ("ApplyPending",)),
    "ExpireCheckpoint": Joint("manifest", ("ExpireCheckpoint",)),
}
JOINT: dict[str, dict[str, Joint]] = {
    "Writer": WRITER, "Compactor": COMPACTOR, "Operator": OPERATOR, "Collector": COLLECTOR,
    "CompactionsCollector": COMPACTIONS_COLLECTOR, "WalCollector": WAL_COLLECTOR, "Reader": READER, "": STORE,
}


def apply_pending(part: str, of: Joint, c: Constants, me: int, s: Shared, w: tuple) -> Iterator:
    """A request in flight reaches its store. If its file joins the history, the same request reaches the other parts' stores."""
    for choices, s2, _ in within(actor(c, "", 0, part), of.takes, parts(c), s, w):
        flying = {flight for flight in s.flights if (flight.part, flight.request) == (part, choices[0])}
        for flight in flying or {None}:
            s3, new = s2, created(getattr(s, part), getattr(s2, part))
            if flight:
                at = s.flights.index(flight)
                s3 = s3._replace(flights=s.flights[:at] + s.flights[at + 1:])
            s3 = with_contents(s, s3, part, flight and flight.content)
            if flight and new > getattr(s, part).boundary:
                s3 = joins(of, c, s3, flight)
            yield choices, s3, ()


def joins(of: Joint, c: Constants, s: Shared, flight: Flight) -> Shared:
    """Apply in each part the request that leads to the content in flight. A part that has none is noted."""
    for part in used(c, SENDS[flight.kind]):
        content = getattr(flight.content, part) if flight.part == "manifest" else flight.content
        before = latest(part, flight.part, getattr(s, part))
        found = [s2 for _, s2, _ in within(actor(c, "", 0, part), of.must[part][0], parts(c), s, ())
                 if latest(part, flight.part, getattr(s2, part)) == content]
        s = found[0] if found else s if before == content else s._replace(apart=tuple(sorted({*s.apart, part})))
    return s


def apply_wal(of: Joint, c: Constants, me: int, s: Shared, w: tuple) -> Iterator:
    """A create of a WAL object reaches the store. A manifest in flight is one of the sequence."""
    for choices, s2, _ in within(actor(c, "", 0, "wal"), of.takes, parts(c), s, w):
        if s.wal.pool[choices[0]][0] == "Create":
            yield choices, s2, ()


# --- properties ---------------------------------------------------------------------------------------------------------

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
    """The parts have the same epochs, and as many flushes."""
    m, n = s.epochs.files[-1], manifest_compactions.latest(s.claims.manifests)
    return (m.compactor_epoch == n.epoch and len(manifest_epochs.ssts(m)) == len(n.l0 | set(n.compacted))
            and (not c.WAL or m.writer_epoch == s.wal.manifest.writer_epoch))


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


def verdict_is_doubted(c: Constants, s: Shared, w: Writer) -> bool:
    """A writer has read that it is fenced, and the file is behind the boundary."""
    return w.verdict == "Fenced" and not is_ahead("manifest", s, w)


ROLES: dict[str, dict[str, tuple[str, ...]]] = {  # part -> role there -> roles of the composition
    "manifest": {"Writer": ("Writer", "Compactor", "Operator"), "Collector": ("Collector",), "Reader": ("Reader", "WalCollector")},
    "compactions": {"Writer": ("Compactor",), "Collector": ("CompactionsCollector",)},
    "epochs": {"Writer": ("Writer",), "Compactor": ("Compactor",), "Reader": ("Reader",)},
    "claims": {"Compactor": ("Compactor",)},
    "wal": {"Writer": ("Writer",), "Collector": ("WalCollector",)},
}
MODULES = {"manifest": sequence, "compactions": sequence, "epochs": manifest_epochs,
           "claims": manifest_compactions, "wal": wal_fencing}


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
    "PartsFollow": (None, parts_follow), "OneHistory": (None, one_history), "PartsAgree": (None, parts_agree), **inherited()}
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


def steps_of(part: str) -> dict[str, dict[str, Names]]:
    """Return what each request may be in a part: role -> action -> actions of the part, in the order in which they are taken."""
    return {role: {name: names[part] for name, of in rows.items() if part in (names := ordered(
        {of.part: (of.takes,)}, *of.puts.values(), *of.unheard.values(), of.must, of.may))} for role, rows in JOINT.items()}


def action(role: str, name: str, of: Joint) -> Action:
    """Return the action of a joint step."""
    if not role:
        return {"ApplyPendingWal": partial(apply_wal, of), "ExpireCheckpoint": partial(request, role, of)}.get(
            name, partial(apply_pending, of.part, of))
    return delete_wal if (role, name) == ("WalCollector", "Delete") else partial(request, role, of)


def initial() -> Shared:
    m, n, nobody = manifest_epochs.initial(manifest_epochs.Constants(CHECKPOINTS=0)), manifest_compactions.initial(), sequence.Constants()
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
