"""Safety, for any number of clients, ids, updates and requests in flight: the composition's projection onto its parts rests on
facts about one sequence of files, and these follow from the invariant of model/proofs/sequenced_metadata_boundary.py.

The parts epochs, claims and wal run on the history of a sequence: the files whose creates were applied ahead of the boundary.
So that the composition may let them take a step when a file is created, whatever was collected before, this must hold:

- LandingIsNext: a create of id n + 1 that would be applied ahead of the boundary creates the largest id that ever was, and n
  is the latest. LandingHasLatest: its writer has read exactly the updates of the latest file. PendingIsNext and
  PendingHasAll say the same of a create in flight: it has every update of the latest file.
- ReadIsOfHistory: if a writer gets the boundary after it has read file n, and n is ahead of it, then the latest file has all
  updates that it read. GotIsOfHistory says the same of a reader. So what a client concludes of others (it is fenced, its work
  is done, the WAL is flushed so far) is true of the history, now and later.

ReadIsOfHistory is not in that invariant, which is kept together with it. The rest are consequences.

That the content of a file is determined by its updates, as the composition takes it to be, is not proved here: the property
OneHistory compares the two in every state that is explored.
"""

from collections.abc import Callable
from typing import Any

from highwater.model.proofs import sequenced_metadata_boundary as boundary
from highwater.model.proofs.engine import inductive
from highwater.model.proofs.engine.logic import And, Implies, Not, at
from highwater.model.proofs.engine.system import System
from highwater.model.proofs.sequenced_metadata_boundary import Id, Reader, Request, Update, Writer
from highwater.model.protocols import sequenced_metadata_boundary as m


def lands(s, w):
    """The writer's create would be applied, and ahead of the boundary."""
    return And(boundary.ready(w), Not(s.present(w.n + 1)), w.n + 1 > s.boundary)


def landing_is_next(c, s, w: Writer):
    return Implies(lands(s, w), And(w.n == s.high, s.every(Id, lambda i: Implies(s.present(i), i <= w.n))))


def landing_has_latest(c, s, w: Writer, u: Update):
    return Implies(lands(s, w), w.base_updates(u) == s.updates(s.high, u))


def pending_lands(s, r):
    return And(at(s.kind(r), "Create"), Not(s.present(s.id(r))), s.id(r) > s.boundary)


def pending_is_next(c, s, r: Request):
    return Implies(pending_lands(s, r), s.id(r) == s.high + 1)


def pending_has_all(c, s, r: Request, u: Update):
    return Implies(And(pending_lands(s, r), s.updates(s.high, u)), s.with_updates(r, u))


def read_is_of_history(c, s, w: Writer, u: Update):
    return Implies(And(boundary.ready(w), w.n > s.boundary, w.base_updates(u)), s.updates(s.high, u))


def got_is_of_history(c, s, r: Reader, u: Update):
    return Implies(And(at(r.pc, "Read"), r.n > s.boundary, r.got(u)), s.updates(s.high, u))


CLAUSES = {**boundary.CLAUSES, "ReadIsOfHistory": read_is_of_history}
FACTS = {
    "LandingIsNext": landing_is_next, "LandingHasLatest": landing_has_latest, "PendingIsNext": pending_is_next,
    "PendingHasAll": pending_has_all, "ReadIsOfHistory": read_is_of_history, "GotIsOfHistory": got_is_of_history,
}
SYSTEM = boundary.SYSTEM._replace(clauses=CLAUSES, properties=FACTS)
SAFEGUARDS = boundary.SAFEGUARDS
SAFEGUARDS_OFF = (
    {"BOUNDARY_FIRST": False}, {"CONDITIONAL_ADVANCE": False}, {"KEEP_LATEST": False}, {"BOUNDARY": False},
)
SYSTEMS = {"": {}}
INSTANCES = (
    {"ON_REFUSAL": "recognised", "COMMITS": 1, "MAX_LOST": 1},
    {"ON_REFUSAL": "recognised", "WRITERS": 1, "COMMITS": 1, "MAX_PENDING": 1},
    {"ON_REFUSAL": "recognised", "WRITERS": 1, "COMMITS": 1, "READERS": 1, "CHECKPOINTS": 1},
)
WALKED = {**boundary.WALKED, "ON_REFUSAL": "recognised"}
WALKS, STEPS = 4, 120
UNBOUNDED, scope = boundary.UNBOUNDED, boundary.scope


def system(c: m.Constants) -> System:
    """Return the system that is compared with the model. Its properties are the model's, and its clauses have the facts."""
    return SYSTEM._replace(clauses=CLAUSES | FACTS, properties=boundary.PROPERTIES)


def prove(constants: Any = None, progress: Callable[[inductive.Row], None] | None = None,
          explain: bool = True, timeout_ms: int = inductive.TIMEOUT_MS) -> inductive.Proof:
    """Prove the facts for clients that recognise their updates, as those of the composition do. Constants of the sequence may
    switch off safeguards; those of the composition have no effect."""
    c = constants if isinstance(constants, m.Constants) else m.Constants()
    c = c._replace(**UNBOUNDED, ON_REFUSAL="recognised")
    return inductive.prove(SYSTEM, c, progress, explain, timeout_ms)
