"""Exit codes: 0 is said only of what ran to its end and found nothing; every class of failure has a code of its own."""

from collections.abc import Iterable

BAD_INPUT = 2  # as typer has it
INCOMPLETE = 3  # something that was asked for could not run here, or was cut short
SAFETY = 10
REFINEMENT = 11
LIVENESS = 12
NONDETERMINISM = 13
HARNESS = 14
TIMEOUT = 15
SPEC = 16  # the spec's graph is not the model's
PROOF = 17
INTERRUPTED = 130  # Ctrl-C

MEANING = {  # of each code, as README.md's table says it
    0: "all is well",
    BAD_INPUT: "bad usage: an argument or an input file cannot be used",
    INCOMPLETE: "nothing failed, but something could not run here, or was cut short",
    SAFETY: "safety",
    REFINEMENT: "refinement",
    LIVENESS: "liveness",
    NONDETERMINISM: "nondeterminism",
    HARNESS: "the harness itself",
    TIMEOUT: "time-out",
    SPEC: "spec ≠ model",
    PROOF: "proof",
    INTERRUPTED: "interrupted by Ctrl-C",
}
OF_KIND = {  # of a simulation's failure, or a trace's
    "input": BAD_INPUT,  # dst/bulk/rows.py: what could not be judged
    "safety": SAFETY,
    "refinement": REFINEMENT,
    "liveness": LIVENESS,
    "nondeterminism": NONDETERMINISM,
    "harness": HARNESS,
    "timeout": TIMEOUT,
}


def of_kinds(kinds: Iterable[str]) -> int:
    """The exit code of failures of these kinds. A kind that is not known here is the harness's failure."""
    return worst(OF_KIND.get(kind, HARNESS) for kind in kinds)


def worst(codes: Iterable[int]) -> int:
    """The lowest non-zero failure wins; INCOMPLETE counts only if nothing failed."""
    codes = set(codes)
    return min(codes - {0, INCOMPLETE}, default=INCOMPLETE if INCOMPLETE in codes else 0)
