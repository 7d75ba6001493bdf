"""Safety, for any number of writers, updates, ids and requests in flight: what the clients of the sequenced write protocol do,
sequenced_files allows. So its property is inherited: an acknowledged update is in the latest file, or in some entry of the log.

The mapping is that of model/refinements/sequenced_write.py, in the words of the two relations: a writer is a client, and a
reader is none. The abstract file of an id is the set of the updates at its places.
"""

from collections.abc import Callable
from typing import Any

from highwater.model.proofs import sequenced_write as concrete
from highwater.model.proofs.abstract import sequenced_files as abstract
from highwater.model.proofs.abstract.sequenced_files import File
from highwater.model.proofs.engine.logic import And, Implies, Not, Or, at
from highwater.model.proofs.engine.parts import nothing, own, same
from highwater.model.proofs.engine.refine import Refinement, Taken
from highwater.model.proofs.engine.system import Scope, View
from highwater.model.proofs.sequenced_write import Id, Request, Update, is_state
from highwater.model.protocols import sequenced_write as m
from highwater.model.refinements import sequenced_write as executable

# --- states

def is_file(s: View, f: Any, updates: Callable) -> Any:
    """Say that the file has exactly these updates."""
    return s.every(Update, lambda u: s.has(f, u) == updates(u))


def in_file(s, i):
    return lambda u: s.some(Id, lambda p: s.holds(i, p, u))


def in_base(s, w):
    return lambda u: s.some(Id, lambda p: w.base_holds(p, u))


def in_next(s, w):
    """The updates of the file that the writer puts next."""
    return lambda u: Or(in_base(s, w)(u), own(s, w, u))


def puts(s, r, f):
    """Say that this is the file of the request."""
    has = s.define("has", (Request, Update), lambda q, u: s.some(Id, lambda p: s.with_holds(q, p, u)))
    return s.define("puts", (Request, File), lambda q, g: is_file(s, g, lambda u: has(q, u)))(r, f)


def shared(c: m.Constants, s: View) -> dict[str, Any]:
    return {
        "top": s.top, "present": s.present,
        "files": lambda i, f: And(s.present(i), is_file(s, f, in_file(s, i))),
        "flying": lambda i, f: s.some(Request, lambda r: And(s.busy(r), s.id(r) == i, puts(s, r, f))),
        "puts": nothing, "acked": lambda u: s.some(Id, lambda i: s.acked(i, u))}


def writer(c: m.Constants, s: View, w: View) -> dict[str, Any]:
    reads = And(is_state(c), at(w.pc, "Ready", "Doubt", "Refused"), w.base_size > 0)
    return {"ids": lambda i: And(not is_state(c), i == w.n, i > 0),
            "read": lambda i, f: And(reads, i == w.n, is_file(s, f, in_base(s, w))),
            "sure": nothing, "unpinned": nothing}


# --- steps: the definition of the named values, and the abstract actions

def lists(c, s, w):
    return True, (Taken("List"),)


def reads_listed(c, s, w, f: File):
    return is_file(s, f, in_file(s, w.n)), (Taken("Read", (w.n, f)),)


def about_to_put(s, w, f, base):
    return And(is_file(s, base, in_base(s, w)), is_file(s, f, in_next(s, w)))


def creates(c, s, w, f: File, base: File, u: Update):
    return And(about_to_put(s, w, f, base), own(s, w, u)), (
        Taken("Create", (w.n + 1, f, base)), Taken("Acknowledge", (u,)))


def reads_own(c, s, w, f: File, u: Update):
    return And(is_file(s, f, in_file(s, w.n + 1)), own(s, w, u)), (Taken("Read", (w.n + 1, f)), Taken("Acknowledge", (u,)))


def reads_other(c, s, w, f: File):
    return is_file(s, f, in_file(s, w.n + 1)), (Taken("List"), Taken("Read", (w.n + 1, f)))


def sends(c, s, w, r: Request, f: File, base: File):
    return about_to_put(s, w, f, base), (Taken("Send", (w.n + 1, f, base)),)


def creates_unheard(c, s, w, f: File, base: File):
    """If there is no such file yet."""
    return about_to_put(s, w, f, base), (Taken("Create", (w.n + 1, f, base), Not(s.present(w.n + 1))),)


def applies(c, s, _, r: Request, f: File):
    """Drop the request, unless the same one is in flight once more."""
    again = s.some(Request, lambda q: And(q != r, s.busy(q), s.id(q) == s.id(r), puts(s, q, f)))
    return puts(s, r, f), (
        Taken("Apply", (s.id(r), f), Not(s.present(s.id(r)))), Taken("Drop", (s.id(r), f), Not(again)))


PLANS = {
    "Writer": {"List": lists, "ReadLatest": reads_listed, "CreateNext": creates, "CreateConflict": lists, "ReadOwn": reads_own,
               "ReadOther": reads_other, "SendCreate": sends, "LoseReply": creates_unheard},
    "": {"ApplyPending": applies},
}


# --- what the rigid fields mean

def update_is_known_by_its_number(c, s, u: Update, v: Update):
    return Implies(same(s, u, v), u == v)


def file_is_known_by_its_updates(c, s, f: File, g: File):
    return Or(f == g, s.some(Update, lambda u: s.has(f, u) != s.has(g, u)))


# --- the states that are shown: each place of a file has an update

def file_has_updates(c, s, i: Id, p: Id):
    return Implies(And(s.present(i), p >= 1, p <= s.size(i)), s.some(Update, lambda u: s.holds(i, p, u)))


def request_has_updates(c, s, r: Request, p: Id):
    return Implies(And(s.busy(r), p >= 1, p <= s.with_size(r)), s.some(Update, lambda u: s.with_holds(r, p, u)))


# --- the abstract model

def onto(c: m.Constants) -> Any:
    return abstract.m.model(abstract.constants(CLIENTS=c.WRITERS, CHAINED=c.USE == "state"))


def scope(c: m.Constants | None) -> Scope:
    """Return all values of each sort in an instance; of none, in a small one."""
    of = concrete.scope(c) if c else concrete.SMALL
    return {**of, abstract.Update: of[Update], File: abstract.files_of(of[Update]), abstract.Id: of[Id],
            abstract.Client: of[concrete.Writer]}


REFINEMENT = Refinement(
    ("sequenced_write", "sequenced_files"), concrete.SYSTEM, abstract.SYSTEM, {"Writer": "Client"}, shared, {"Writer": writer},
    PLANS, (update_is_known_by_its_number, file_is_known_by_its_updates), onto, scope,
    (file_has_updates, request_has_updates))

SYSTEMS = concrete.SYSTEMS  # the systems whose steps are proved to refine: all that have a proof
OFF = (  # without these safeguards a step does not refine; without another one the concrete invariant is not proved
    ({"CREATE_IF_ABSENT": False}, "Writer.CreateNext"), ({"RESOLVE": "off"}, "Writer.CreateConflict"),
    ({"GAPS": True}, "Writer.Skip"), ({"GAPS": True, "USE": "log"}, "Writer.Skip"),
)
INSTANCES = (*executable.INSTANCES, {"USE": "log", "UNKNOWN": "recognise", "COMMITS": 1, "MAX_PENDING": 1, "MAX_LOST": 1})
NEAREST = 40  # states of each in which the mapping is compared with the executable one
