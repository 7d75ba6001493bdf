"""Safety, for any number of clients, updates, ids and requests in flight: an acknowledged update is in every later file, or in
some entry of a log. It is proved of model/abstract/sequenced_files.py in its form without boundary and epochs, which begins
without a file. There nothing is deleted and nothing is pinned.

A file is one value: the set of its updates. So what a client has read is a set of pairs (id, file), as in the model. A client
may take every choice that its knowledge permits, and not only those that the model makes up when it is explored by itself.
`model` gives the model's own actions each of these choices, and the tie compares them.

The invariant. Let top be the largest id.
- IdsAreContiguous: there is a file of each id from 1 to top. FileIsThere and FileIsOne: exactly one.
- FilesGrow: the latest file has all updates of every file (not in a log).
- ClientKnowsIds, ClientKnowsFiles: what a client has read is there. ClientIsSure: an update that it is sure of is in the latest
  file, or in some entry of a log. AckedIsKept: so is an acknowledged one.
- FlyingIsNext: a request in flight has an id from 1 to top + 1. FlyingKeeps: if its id is top + 1, its file has all updates of
  the latest. NothingIsReplaced: no request is a PUT without a condition.
"""

from collections.abc import Callable, Iterator
from itertools import chain, combinations, product
from typing import Any, NewType

from highwater.model.abstract import sequenced_files as m
from highwater.model.core import Action, Model
from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, If, Implies, Not, Or
from highwater.model.proofs.engine.parts import larger, nothing
from highwater.model.proofs.engine.system import Scope, System, Tables, View

Id = NewType("Id", int)  # of a file
Update = NewType("Update", object)
File = NewType("File", object)
Client = NewType("Client", View)

ROLES = {"Client": Client}
FIELDS = {
    "": {
        "top": (Id,), "present": (Id, bool), "files": (Id, File, bool),
        "flying": (Id, File, bool), "puts": (Id, File, bool),  # requests: a create if absent, and a PUT without a condition
        "acked": (Update, bool),
    },
    "Client": {"ids": (Id, bool), "read": (Id, File, bool), "sure": (Update, bool), "unpinned": (Id, Id, bool)},
}
RIGID = {"has": (File, Update, bool), "author": (Update, Client)}
INITIAL = {
    "": {"top": 0, "present": nothing, "files": nothing, "flying": nothing, "puts": nothing, "acked": nothing},
    "Client": {"ids": nothing, "read": nothing, "sure": nothing, "unpinned": nothing},
}


def meaning(_: m.Constants) -> dict[str, Callable]:
    return {"has": lambda f, u: u in f.updates, "author": lambda u: u[0]}


def initial(_: m.Constants) -> dict[str, dict]:
    return INITIAL


# --- the transition relation, action by action as in model/abstract/sequenced_files.py

def never(c, s, w):
    """The action needs a boundary or epochs."""
    yield False, (), s, w


def is_empty(s, f):
    return s.every(Update, lambda u: Not(s.has(f, u)))


def is_base(c, s, w, i, f):
    """Say that `f` is what the client knows of the file before id i; in a log the empty file, if it knows that one exists."""
    known = w.read(i - 1, f) if c.CHAINED else And(w.ids(i - 1), is_empty(s, f))
    return Or(And(i == 1, is_empty(s, f)), And(i != 1, known))


def follows(s, w, base, f):
    """Say that the file keeps all of its base, and adds only updates of the client."""
    return s.every(Update, lambda u: And(
        Implies(s.has(base, u), s.has(f, u)), Implies(And(s.has(f, u), Not(s.has(base, u))), s.author(u) == w.me)))


def may_create(c, s, w, i, f, base):
    return And(is_base(c, s, w, i, base), follows(s, w, base, f))


def is_free(c, s, i):
    return Not(And(s.present(i), c.CREATE_IF_ABSENT))


def with_new(s, i, f):
    return s.but(top=larger(i, s.top), present=lambda j: Or(j == i, s.present(j)),
                 files=lambda j, g: If(j == i, g == f, s.files(j, g)))


def ids_to(w, i):
    return lambda j: Or(w.ids(j), And(j >= 1, j <= i))


def knows(s, w, i, f, **more):
    """Return the client once it has put or read the file: it is sure of its own updates in it."""
    return w.but(ids=ids_to(w, i), read=lambda j, g: Or(w.read(j, g), And(j == i, g == f)),
                 sure=lambda u: Or(w.sure(u), And(s.has(f, u), s.author(u) == w.me)), **more)


def create(c, s, w, i: Id, f: File, base: File):
    yield And(is_free(c, s, i), may_create(c, s, w, i, f, base)), (i, f), with_new(s, i, f), knows(s, w, i, f)


def list_ids(c, s, w):
    yield True, (), s, w.but(ids=ids_to(w, s.top))


def read(c, s, w, i: Id, f: File):
    yield And(s.present(i), s.files(i, f)), (i,), s, knows(
        s, w, i, f, unpinned=lambda j, k: Or(w.unpinned(j, k), And(j == i, k >= 1, k < i)))


def acknowledge(c, s, w, u: Update):
    yield w.sure(u), (u,), s.but(acked=lambda v: Or(s.acked(v), u == v)), w


def with_one(those, i, f):
    return lambda j, g: Or(those(j, g), And(j == i, g == f))


def without(those, i, f):
    return lambda j, g: And(those(j, g), Not(And(j == i, g == f)))


def send(c, s, w, i: Id, f: File, base: File):
    may = may_create(c, s, w, i, f, base)
    yield may, ("Create", i, f), s.but(flying=with_one(s.flying, i, f)), w
    yield And(may, not c.CREATE_IF_ABSENT), ("Put", i, f), s.but(puts=with_one(s.puts, i, f)), w


def forget(c, s, w, i: Id, j: Id, u: Update, f: File):
    """One fact of any kind."""
    yield w.ids(i), ("ids", i), s, w.but(ids=lambda k: And(w.ids(k), k != i))
    yield w.read(i, f), ("read", (i, f)), s, w.but(read=without(w.read, i, f))
    yield w.sure(u), ("sure", u), s, w.but(sure=lambda v: And(w.sure(v), v != u))
    yield w.unpinned(i, j), ("unpinned", (i, j)), s, w.but(unpinned=without(w.unpinned, i, j))


def apply(c, s, _, i: Id, f: File):
    yield And(s.flying(i, f), is_free(c, s, i)), ("Create", i, f), with_new(s, i, f), None
    yield s.puts(i, f), ("Put", i, f), with_new(s, i, f), None


def drop(c, s, _, i: Id, f: File):
    yield s.flying(i, f), ("Create", i, f), s.but(flying=without(s.flying, i, f)), None
    yield s.puts(i, f), ("Put", i, f), s.but(puts=without(s.puts, i, f)), None


ACTIONS = {
    "Client": {"Create": create, "List": list_ids, "Read": read, "Check": never, "Acknowledge": acknowledge, "Open": never,
               "Advance": never, "Delete": never, "Send": send, "Forget": forget},
    "": {"Apply": apply, "Drop": drop, "Collect": never},
}


# --- the invariant, as in the docstring

def ids_are_contiguous(c, s, i: Id):
    return And(s.top >= 0, s.present(i) == And(i >= 1, i <= s.top))


def file_is_there(c, s, i: Id):
    return Implies(s.present(i), s.some(File, lambda f: s.files(i, f)))


def file_is_one(c, s, i: Id, f: File, g: File):
    return Implies(s.files(i, f), And(s.present(i), s.files(i, g) == (f == g)))


def files_grow(c, s, i: Id, f: File, g: File, u: Update):
    return Implies(And(c.CHAINED, s.files(i, f), s.files(s.top, g), s.has(f, u)), s.has(g, u))


def is_kept(c, s, u):
    """Say that the latest file has the update; in a log, some entry."""
    if c.CHAINED:
        return s.some(File, lambda f: And(s.top >= 1, s.files(s.top, f), s.has(f, u)))
    return s.some(Id, lambda i: s.some(File, lambda f: And(s.files(i, f), s.has(f, u))))


def client_knows_ids(c, s, w: Client, i: Id):
    return Implies(w.ids(i), And(i >= 1, i <= s.top))


def client_knows_files(c, s, w: Client, i: Id, f: File):
    return Implies(w.read(i, f), s.files(i, f))


def client_is_sure(c, s, w: Client, u: Update):
    return Implies(w.sure(u), is_kept(c, s, u))


def acked_is_kept(c, s, u: Update):
    return Implies(s.acked(u), is_kept(c, s, u))


def flying_is_next(c, s, i: Id, f: File):
    return Implies(s.flying(i, f), And(i >= 1, i <= s.top + 1))


def flying_keeps(c, s, i: Id, f: File, g: File, u: Update):
    return Implies(And(c.CHAINED, s.flying(i, f), i == s.top + 1, s.files(s.top, g), s.has(g, u)), s.has(f, u))


def nothing_is_replaced(c, s, i: Id, f: File):
    return Not(s.puts(i, f))


CLAUSES = {
    "IdsAreContiguous": ids_are_contiguous, "FileIsThere": file_is_there, "FileIsOne": file_is_one, "FilesGrow": files_grow,
    "ClientKnowsIds": client_knows_ids, "ClientKnowsFiles": client_knows_files, "ClientIsSure": client_is_sure,
    "AckedIsKept": acked_is_kept, "FlyingIsNext": flying_is_next, "FlyingKeeps": flying_keeps,
    "NothingIsReplaced": nothing_is_replaced,
}


# --- the properties, as the model states them

def boundary_is_below_latest(c, s):
    """Say nothing: without a boundary it counts as 0."""
    return s.top >= 0


def all_are_present(c, s, i: Id):
    return Implies(And(i >= 1, i <= s.top), s.present(i))


def nothing_is_claimed(c, s):
    """Say nothing: no file has a pin, and no client an epoch."""
    return True


PROPERTIES = {
    "AckedIsKept": acked_is_kept, "BoundaryIsBelowLatest": boundary_is_below_latest, "DeletedIsBehindBoundary": all_are_present,
    "PinnedIsKept": nothing_is_claimed, "OneOwnerPerEpoch": nothing_is_claimed,
}


# --- the model's values as tables, and back

def tables(role: str, value: Any) -> Tables:
    if role:
        return value._asdict()
    files = [(i, file) for i, file in enumerate(value.files, 1) if file]
    requests = {kind: frozenset((i, file) for of, i, file in value.flying if of == kind) for kind in ("Create", "Put")}
    return {"top": len(value.files), "present": frozenset(i for i, _ in files), "files": frozenset(files),
            "flying": requests["Create"], "puts": requests["Put"], "acked": value.acked}


def written(role: str, t: Tables) -> Any:
    if role:
        return m.Client(**t)
    files = dict(t["files"])
    flying = [(kind, *what) for kind, those in (("Create", t["flying"]), ("Put", t["puts"])) for what in those]
    return m.Shared(tuple(files.get(i) for i in range(1, t["top"] + 1)), 0, frozenset(flying), t["acked"], frozenset())


def choices(action: str, chosen: tuple, shared: Tables) -> tuple:
    if action == "Acknowledge":
        return (frozenset(chosen),)
    return (chosen,) if action in ("Send", "Apply", "Drop") else chosen


# --- instances

def scope(c: m.Constants) -> Scope:
    """Return all values of each sort in an instance."""
    updates = [*product(range(c.CLIENTS), range(c.UPDATES))]
    return {Id: [*range(c.MAX_ID + 1)], Update: updates, File: files_of(updates), Client: [*range(c.CLIENTS)]}


def files_of(updates: list) -> list[m.File]:
    return [m.File(frozenset(those)) for those in chain.from_iterable(
        combinations(updates, n) for n in range(len(updates) + 1))]


def model(c: m.Constants) -> Model:
    """The model, whose actions are given every choice in the scope, instead of those that it makes up."""
    of = scope(c)
    creations = [*product(of[Id], of[File])]
    kinds = ("Create",) if c.CREATE_IF_ABSENT else ("Create", "Put")
    given = {"Create": creations, "Send": [((kind, *one),) for kind in kinds for one in creations],
             "Acknowledge": [(frozenset({u}),) for u in of[Update]]}
    actions = {name: every_choice(action, given[name]) if name in given else action for name, action in m.CLIENT.items()}
    whole = m.model(c)
    return whole._replace(processes=tuple(one._replace(actions=actions) if one.name else one for one in whole.processes))


def every_choice(action: Action, those: list[tuple]) -> Action:
    def all_of(c: m.Constants, me: int, s: m.Shared, w: m.Client) -> Iterator:
        for each in those:
            yield from action(c, me, s, w, *each)

    return all_of


CLAIMS = ("AckedIsKept", "DeletedIsBehindBoundary")  # they say something in this form; the second, that every file is there
FORM = {"FIRST": None, "BOUNDARY": False}  # the form that has this relation
SMALL = scope(m.Constants(MAX_ID=3))
SYSTEM = System(FIELDS, ROLES, RIGID, meaning, initial, ACTIONS, CLAUSES, PROPERTIES, SMALL, tables, written, choices)
SAFEGUARDS_OFF = ({"CREATE_IF_ABSENT": False}, {"CREATE_IF_ABSENT": False, "CHAINED": False})
SYSTEMS = {"": {}, " of a log": {"CHAINED": False}}  # the systems that are proved, each separately
INSTANCES = ({"MAX_ID": 2, "CLIENTS": 1, "UPDATES": 2}, {"MAX_ID": 2}, {"MAX_ID": 2, "CHAINED": False})
NEAREST = 100  # states of each that are compared
WALKED, WALKS, STEPS = {"MAX_ID": 3, "CLIENTS": 2}, 3, 25


def constants(**others: Any) -> m.Constants:
    return m.Constants(**FORM, **others)


def prove(c: m.Constants, progress: Callable[[inductive.Row], None] | None = None, explain: bool = True,
          timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the model in this form. Only CHAINED and the safeguard matter: nothing is bounded."""
    return inductive.prove(SYSTEM, c, progress, explain, timeout_ms)
