"""Safety: a verdict calls nothing safe that has failed. If the outcome is not known, it says so. It always comes with how sure
it is, and with what was not tried.
"""

from typing import Any, NamedTuple

from highwater import project
from highwater.dst.campaign.what import UNJUDGED
from highwater.dst.scenarios import mutants_of, named, stems
from highwater.dst.sim.strategies import STRATEGIES
from highwater.dst.world.profiles import PROFILES
from highwater.reports.campaign.figures import PHASES, Figures, Growth, cells_of
from highwater.reports.campaign.numbers import at_most, of_runs, share, short, sure

LEVEL, SLOWER = 0.01, 0.05  # share of the coverage that the last tenth of the seeds added: below
Untried = list[tuple[str, str]]  # (a few words, a whole line)


class Verdict(NamedTuple):
    tone: str  # bad: something is wrong; open: not known; good; found: a known-bad implementation, and something is wrong
    word: str
    answer: str
    why: str


def name_of(f: Figures) -> str:
    return f.campaign.scenario + (f" with {f.campaign.mutant}" if f.campaign.mutant else "")


def alike(one: Figures, other: Figures) -> bool:
    return one.campaign[:2] == other.campaign[:2]


def verdict(f: Figures) -> Verdict:
    c, runs = f.campaign, f"{f.done:,} runs"
    wrong = [failure for failure in f.failures if failure.kind not in UNJUDGED]
    if not f.done:
        return Verdict("open", "nothing yet", "Nothing has run yet", "")
    if c.mutant and wrong:
        return Verdict("found", "caught", "Known-bad, and caught", f"{c.mutant} must fail, and did in {f.failed:,} of "
                       f"{runs}, first in seed {min(failure.seed for failure in wrong)}.")
    if c.mutant:
        return Verdict("open", "not caught", "Known-bad, and not caught", f"{c.mutant} must fail, but none of {runs} did: "
                       "they cannot tell it from the correct implementation.")
    if wrong:
        unsafe, most = any(failure.kind != "liveness" for failure in wrong), wrong[0]
        why = (f"{f.failed:,} of {runs} failed; most often {most.signature}, {most.count:,} times, first in seed "
               f"{most.seed}: {most.message[:300]}")
        return Verdict("bad", *(("not safe", "Not safe") if unsafe else ("stuck", "A client makes no progress")), why)
    if f.failures:
        kinds = sorted({failure.kind for failure in f.failures})
        count = sum(failure.count for failure in f.failures)
        return Verdict("open", "unjudged", "No failure, but some runs were not judged",
                       f"{count:,} of {runs} ended without a verdict: {', '.join(kinds)}.")
    if f.left:
        return Verdict("open", "so far none", "No failure so far", f"None of {runs} failed; {f.left:,} more are to follow.")
    return Verdict("good", "no failure", "No failure was found", f"None of {runs} broke safety, refinement or liveness.")


def sureness(f: Figures) -> tuple[str, str]:
    """Say how sure a verdict is, in a few words, and what they mean."""
    n = f.judged
    if not n:
        return "Not at all", "No run was judged."
    if not f.failed:
        return (f"At most {of_runs(share(at_most(n)))}", f"A 95 % bound for runs drawn like these, of which 0 of {n:,} failed "
                "(rule of three). It says nothing about what is never drawn.")
    words = of_runs(sure(f.failed, n))
    return (words[0].upper() + words[1:], f"A 95 % interval for runs drawn like these, of which {f.failed:,} of {n:,} failed "
            "(Wilson).")


# --- what was not tried, the most relevant to a user first

def untried(f: Figures) -> Untried:
    found = unfinished(f.left, f.done + f.left) + never_met([f])
    cells = cells_of(f.faults)
    empty = [f"{fault} {op} {'refused' if fault.isdigit() else phase}" for (fault, op, phase), times in cells.items()
             if not times and fault in met(f)]
    found += missed(empty, "combination with a fault", "combinations with a fault",
                    f"{len(empty)} of {len(cells)} combinations of fault, operation and phase never occurred, although "
                    "the fault did")
    found += [("other sizes", f"sizes: only the shape {f.campaign.shape} was tried")] if f.campaign.shape else []
    drawn = {cell.strategy for cell in f.cells}
    found += missed([name for name in STRATEGIES if name not in drawn], "strategy", "strategies", "strategies that no run used")
    if f.witnesses is None:
        found.append(("witnesses", "witnesses: not known, because other code wrote the rows and there is no summary"))
    else:
        never = [name for name, (runs, _) in f.witnesses.items() if not runs]
        found += missed(never, "witness", "witnesses", f"{len(never)} of {len(f.witnesses)} witnesses were never reached")
    if is_growing(f):
        found.append(("more states", f"more states of the model: {100 * f.states.last_tenth:.0f} % of the states reached were "
                      f"new in the last tenth of {f.done:,} seeds; as many seeds again would reach at most "
                      f"{most_more(f.states, f.done)}"))
    return found


def untried_of_many(found: list[Figures]) -> Untried:
    left = sum(f.left for f in found)
    lines = unfinished(left, sum(f.done for f in found) + left)
    none = [stem for stem in stems() if stem not in {f.campaign.scenario for f in found}]
    lines += missed(none, "scenario", "scenarios", f"{len(none)} of {len(stems())} scenarios have no campaign")
    lines += never_met(found)
    never = sorted({name for f in found for name, (runs, _) in (f.witnesses or {}).items() if not runs})
    lines += missed(never, "witness", "witnesses", f"{len(never)} witnesses were never reached in some campaign")
    growing = sum(map(is_growing, found))
    if growing:
        lines.append(("more states", f"more states of the model: still growing in {growing} of {len(found)} campaigns"))
    known = {(stem, mutant) for stem in stems() if project.has("mutants", stem)
             for mutant in mutants_of(stem).builds}
    idle = len(known - {f.campaign[:2] for f in found})
    lines += [(f"{idle:,} mutants", f"{idle} of {len(known)} known-bad implementations have no campaign")] if idle else []
    return lines


def unfinished(left: int, of: int) -> Untried:
    return [(f"{short(left)} seeds", f"{left:,} of {of:,} seeds have not run yet")] if left else []


def never_met(found: list[Figures]) -> Untried:
    """List the stores and the kinds of faults that no campaign met."""
    stores = {cell.profile for f in found for cell in f.cells}
    drawn = {name for f in found for name in drawn_stores(f.campaign.scenario)}
    faults = set().union(*map(met, found))
    never = [name for name in PROFILES if name not in stores]
    return (missed([name for name in never if name in drawn], "store", "stores", "stores that no run used")
            + missed([name for name in PHASES if name not in faults], "kind of fault", "kinds of fault",
                     "kinds of fault that never occurred")
            + missed([name for name in never if name not in drawn], "undrawn store", "undrawn stores",
                     "stores that no run draws (--profile chooses one)"))


def drawn_stores(scenario: str) -> set[str]:
    """Return the stores that a run of the scenario may draw."""
    found: set[str] = set()

    def of(name: str, *values: Any) -> Any:
        found.update(values if name == "store" else ())
        return values[0]

    named(scenario).draw_shape(of)
    return found


def met(f: Figures) -> set[str]:
    return {fault for (fault, *_), times in f.faults.items() if times}


def most_more(growth: Growth, runs: int) -> str:
    """Bound the new states of as many runs again: each adds at most the next one's (Good-Turing), all at most the total."""
    more = min(growth.next_run * runs, growth.total)
    return f"{short(more)} more ({100 * more / growth.total:.0f} %)"


def missed(names: list[str], one: str, many: str, line: str) -> Untried:
    return [(f"{len(names):,} {one if len(names) == 1 else many}", f"{line}: {few(names)}")] if names else []


def few(names: list[str], most: int = 12) -> str:
    """Join at most `most` names, or one more, and count the rest."""
    return ", ".join(names) if len(names) <= most + 1 else f"{', '.join(names[:most])} and {len(names) - most} more, below"


def is_growing(f: Figures) -> bool:
    return f.states.total > 0 and f.states.last_tenth >= SLOWER
