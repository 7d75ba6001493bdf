"""The requests of clients that write files: LIST, GET the latest, PUT the next if absent, GET the boundary.

A client judges the file that it has read. It puts the next one, or it takes what the file says for true: it is fenced, its work
is done, or its listing was right. Before that it gets the boundary, which must be below the file.
"""

from functools import partial
from typing import Any

from highwater.model.compose import Follow, Names, Ways, alone, first_way
from highwater.model.parts import below, one_more
from highwater.model.protocols import manifest_compactions, wal_fencing
from highwater.model.protocols.database.clients import CLIENT, actor, view
from highwater.model.protocols.database.constants import Constants, parts
from highwater.model.protocols.database.history import LANDS, SENDS, UNHEARD, intent_of, known_of, puts_of
from highwater.model.protocols.database.joint import CONTENTS, Joint
from highwater.model.protocols.database.state import Compactor, Shared, Writer


def judged(c: Constants, role: str, me: int, part: str, s: Shared, w: Any) -> Any:
    """Return the client with its verdict on the content that it has read. "": it puts the next file."""
    intent = intent_of(role, part, s, w)

    def says(of: str, names: Names) -> bool:
        there, knows = view(c, of, part, w.base), known_of(role, of, intent)
        return alone(actor(c, role, me, of), (names,), parts(c), there, knows) is not None

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
    return any(part.pc in STOPPED for part in (w.epochs, w.claims if isinstance(w, Compactor) else w.wal))


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
    """The listing decided rightly: the file listed is the one that was read. A writer that waits must have decided."""
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
    """The requests of a client that writes files of a sequence."""
    one, begins = partial(Joint, part), partial(has_work_for, part, role)
    puts, unheard, sends = (puts_of(role, part, table) for table in (LANDS, UNHEARD, SENDS))
    rows = {
        "List": one(("List",), when=begins, may=SHOWS, then=listed) if role == "Writer" else one(("List",), when=begins),
        "ReadLatest": one(("ReadLatest",), then=partial(read, role, part)),
        "ReadApplied": one(("ReadApplied",)),
        "ReadMissing": one(("ReadMissing",), when=may_miss),
        "CreateNext": one(("CreateNext",), when=has_base, puts=puts, unheard=unheard),
        "CreateConflict": one(("CreateConflict",), when=has_base),
        "Accept": one(("Accept",), when=hears),
        "Reject": one(("Reject",), when=hears_not),
        "Recognise": one(("Recognise",), may=RECOGNISED, whose=is_behind),
        "RecogniseReject": one(("RecogniseReject",)),
        "SendCreate": one(("SendCreate",), when=may_send, puts=sends, then=sent),
        "LoseReply": one(("LoseReply",), when=partial(may_lose, part), then=lost),
    }
    if role == "Operator":
        return rows
    again = partial(one, ("LoseReply",))  # the client starts over, as after a lost response to a read
    must, may = TELLS_FENCED[role, part]
    rows |= {
        "Fenced": again(when=partial(may_conclude, part, "Fenced"), must=must, may=may, then=concluded),
        "Believe": again(when=may_believe, believes=must, then=partial(believed, part, role)),
        "Doubt": again(when=partial(may_doubt, part), then=doubted),
    }
    if role == "Compactor":
        rows["Landed"] = again(when=partial(may_conclude, part, "Landed"), must={"claims": (("ReadLanded",),)}, then=concluded)
    if part == "manifest":
        rows["Current"] = again(when=partial(may_conclude, part, "Current"), then=partial(confirmed, role))
    if (role, part) == ("Compactor", "manifest"):
        rows["Pick"] = one(("List",), when=may_pick, must=PICKS, then=picked)
    return rows
