"""Safety without bounds: a condition that holds initially and is kept by every action holds in every reachable state.

There is one query for each (action, clause). Only the answer that a counterexample is impossible is a proof. A query that
exceeds its budget has failed, and so has one that Z3 does not decide. A clause that fails gets a counterexample to induction
(cti.py).
"""

import functools
from collections.abc import Callable
from timeit import default_timer  # only to report what Z3 took; no verdict depends on it
from typing import Any, NamedTuple

import z3

from highwater.model.proofs.engine.cti import Finder
from highwater.model.proofs.engine.logic import Not
from highwater.model.proofs.engine.symbolic import Symbolic
from highwater.model.proofs.engine.system import System, Whole, title

RLIMIT = 5_000_000  # of a query, in Z3's own count of its work: where it gives up does not depend on the machine
TIMEOUT_MS = 20_000  # of a query, for what that count does not see


class Row(NamedTuple):
    action: str  # "Writer.CreateNext"; "Init"; "Property"
    clause: str
    verdict: str  # proved, fails, timeout, unknown
    ms: float
    counterexample: str = ""  # to induction


class Proof(NamedTuple):
    rows: tuple[Row, ...]
    possible: dict[str, bool | None]  # action -> some state that satisfies the invariant enables it; None: no answer, and none
    #                                   in the finite scope
    disabled: tuple[str, ...]  # the actions that these constants switch off
    never: frozenset[str]  # the actions that are to be impossible
    ms: float

    @property
    def failing(self) -> tuple[tuple[str, str], ...]:
        return tuple((row.action, row.clause) for row in self.rows if row.verdict != "proved")

    @property
    def impossible(self) -> tuple[str, ...]:
        """Actions of which nothing was proved, as nothing was to be proved; and those that should be, and are not."""
        return tuple(action for action, possible in self.possible.items() if possible is not (action not in self.never))

    @property
    def holds(self) -> bool:
        return not self.failing and not self.impossible


def prove(system: System, c: Any, progress: Callable[[Row], None] | None = None, explain: bool = True,
          timeout_ms: int = TIMEOUT_MS, never: frozenset[str] = frozenset(), rlimit: int | None = None) -> Proof:
    """Every clause initially, every property, every clause after every action. `explain`: with counterexamples.
    `rlimit`: the work that Z3 may spend on a query. Whether an action is possible is asked of the finite scope first."""
    start, rows, possible, disabled = default_timer(), [], {}, []
    finder = functools.cache(lambda: Finder(system, c))

    def solver(*facts: Any, share: int = 1, seed: int = 0) -> z3.Solver:
        s = z3.SimpleSolver()
        most = RLIMIT if rlimit is None else rlimit
        s.set("rlimit", most and max(most // share, 1))  # 0: no limit
        s.set("timeout", timeout_ms)
        s.set("random_seed", seed)
        s.add(*facts)
        return s

    def of_seeds(facts: list[Any]) -> str:
        """Return the verdict of a query of its own, from a tenth of the work for each of some seeds; "" if all give up. What Z3
        does depends on what its process has seen before."""
        verdicts = (verdict_of(solver(*facts, share=10, seed=seed)) for seed in range(1, 8))
        return next((verdict for verdict in verdicts if verdict in ("fails", "proved")), "")

    def known(action: str, clause: str) -> list[Any]:
        """Return the hypotheses of a query: the whole invariant, or what `needs` names."""
        names = system.needs.get((action, clause))
        wanted = invariant if names is None else (clause, *names)
        return [*axioms, *(hypotheses[name] for name in wanted if name in hypotheses)]

    def add(name: str, clause_name: str, verdict: str, began: float, text: str) -> None:
        rows.append(Row(name, clause_name, verdict, (default_timer() - began) * 1000, text))
        if progress:
            progress(rows[-1])

    def ask(name: str, clauses: dict[str, Callable], cases: list[tuple[list[Any], Whole]], *action: str) -> None:
        whole = functools.cache(lambda at: solver(*known("", ""), *cases[at][0]))
        for clause_name, clause in clauses.items():
            began, answers = default_timer(), set()
            for at, (facts, state) in enumerate(cases):
                reading = state.shared.reading
                negation = reading.negation(c, clause, state, reading.whole() if action else None)
                if (name, clause_name) in system.needs:
                    query = [*known(name, clause_name), *facts, negation]
                    answers.add(of_seeds(query) or verdict_of(solver(*query)))
                    continue
                s = whole(at)
                s.push()
                s.add(negation)
                verdict = verdict_of(s)
                s.pop()
                gave_up = verdict in ("timeout", "unknown")
                answers.add((gave_up and of_seeds([*known(name, clause_name), *facts, negation])) or verdict)
            verdict = next(v for v in ("fails", "timeout", "unknown", "proved") if v in answers)
            text = finder().find(clause, name, *action) if explain and verdict != "proved" else ""
            if "\nfails of " in text:  # also where Z3 gave up without bounds, and a small state will do
                verdict = "fails"
            add(name, clause_name, verdict, began, text)

    logic = Symbolic(system)
    axioms = [logic.hypothesis(c, axiom) for axiom in system.axioms.values()]
    invariant, hypotheses = tuple(system.clauses), dict[str, Any]()
    ask("Init", system.clauses, [([], logic.start(c))])
    hypotheses |= {name: logic.hypothesis(c, clause) for name, clause in system.clauses.items()}
    for kind, conditions in (("Lemma", system.lemmas.get("Property", {})), ("Property", system.properties)):
        for name, holds in conditions.items():
            ask(kind, {name: holds}, [([], logic.whole())])
            hypotheses.setdefault(name, logic.hypothesis(c, holds))  # of those after it, if they need it
    for role, action in ((role, action) for role, actions in system.actions.items() for action in actions):
        logic, name = Symbolic(system), title(role, action)
        if there := logic.ways(c, role, action):
            lemmas = []
            for lemma_name, lemma in system.lemmas.get(name, {}).items():
                began, fact = default_timer(), lemma(c, *logic.given)
                answers = {verdict_of(solver(*known(name, lemma_name), *logic.definitions, guard, *lemmas, Not(fact)))
                           for guard, _ in there}
                add(name, lemma_name, next(v for v in ("fails", "timeout", "unknown", "proved") if v in answers), began, "")
                lemmas.append(fact)
            cases = [([*logic.definitions, guard, *lemmas], after) for guard, after in there]
            possible[name] = finder().enables(role, action) or any_of(
                solver(*known("", ""), *facts).check() for facts, _ in cases)
            ask(name, system.clauses, cases, role, action)
        else:
            disabled.append(name)
    return Proof(tuple(rows), possible, tuple(disabled), never, (default_timer() - start) * 1000)


def verdict_of(s: z3.Solver, *assumptions: z3.BoolRef) -> str:
    """Return the verdict of a query whose every solution is a counterexample."""
    answer = s.check(*assumptions)
    if answer != z3.unknown:
        return "proved" if answer == z3.unsat else "fails"
    gave_up = ("timeout", "canceled", "resource limit")
    return "timeout" if any(reason in s.reason_unknown() for reason in gave_up) else "unknown"


def any_of(answers: Any) -> bool | None:
    answers = list(answers)
    return True if z3.sat in answers else None if z3.unknown in answers else False
