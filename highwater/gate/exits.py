"""Define the exit codes. 0 means that everything ran to its end and nothing failed. Each class of failure has its own code."""

from collections.abc import Iterable

BAD_INPUT = 2  # the same as typer's
INCOMPLETE = 3  # something requested could not run here, or was cut short
SAFETY = 10
REFINEMENT = 11
LIVENESS = 12
NONDETERMINISM = 13
HARNESS = 14
TIMEOUT = 15
SPEC = 16  # the spec's graph is not the model's
PROOF = 17
INTERRUPTED = 130  # Ctrl-C

MEANING = {  # code -> its meaning, as in the table of docs/guide/commands.md
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
OF_KIND = {  # kind of failure of a simulation or a trace -> exit code
    "input": BAD_INPUT,  # dst/bulk/rows.py: a run that could not be judged
    "safety": SAFETY,
    "refinement": REFINEMENT,
    "liveness": LIVENESS,
    "nondeterminism": NONDETERMINISM,
    "harness": HARNESS,
    "timeout": TIMEOUT,
}


def of_kinds(kinds: Iterable[str]) -> int:
    """Return the exit code of failures of these kinds. An unknown kind is a failure of the harness."""
    return worst(OF_KIND.get(kind, HARNESS) for kind in kinds)


def worst(codes: Iterable[int]) -> int:
    """Return the lowest code of a failure, else INCOMPLETE if it is among the codes, else 0."""
    codes = set(codes)
    return min(codes - {0, INCOMPLETE}, default=INCOMPLETE if INCOMPLETE in codes else 0)
