"""Read the verdict of a run from what FizzBee's programs wrote.

Safety: a run that wrote anything on stderr, or has no verdict in its output, is an ERROR; nothing is let pass.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from highwater.specs.fizzbee.files import error_trace
from highwater.specs.fizzbee.run import Run

UNWITNESSED = "FAILED: Expected states never reached"


@dataclass(frozen=True)
class CheckResult:
    """The result of one run of FizzBee.

    `states` are FizzBee's unique states, `nodes` its nodes, inner ones included; a run that ends at a failure does not count
    states: 0. `trace` is what led to a failure (or, guided, what was followed): `("Init", state)`, then one entry for each of
    FizzBee's links, `Writer#0.Create` and `Any:k=1` apart, so that its names are a guided trace. A state is
    `{global: value, ..., "Writer#0": {field: value}}`, plain JSON. A failed `exists` has no trace.
    """

    verdict: str  # PASSED | FAILED | DEADLOCK | STOPPED (time-out, or a guided trace not followed to its end) | ERROR
    states: int
    nodes: int
    seconds: float
    failed_assertions: tuple[str, ...]
    trace: tuple[tuple[str, dict], ...]
    output: str
    error: str | None = None  # one line; ERROR only
    followed: int | None = None  # guided only: how many of the links asked for

    @property
    def failed_assertion(self) -> str | None:
        """The first failed assertion; only `exists` assertions fail together."""
        return self.failed_assertions[0] if self.failed_assertions else None


def parse_error(errors: str, status: int, spec: Path) -> str | None:
    """Return the parser's error as one line that opens with the file; None if stderr is empty and it exited with 0."""
    found = re.search(r"line (\d+):(\d+) (.*)$", errors, re.MULTILINE)
    if found:
        return f"{spec}:{found[1]}:{int(found[2]) + 1}: {found[3]}"
    if errors or status:
        return f"{spec}: {(errors.strip().splitlines() or ['the parser failed and does not say why'])[-1].strip()}"
    return None


def runtime_error(run: Run, spec: Path) -> str:
    """Return in one line why a run has no verdict."""
    said = f"{run.errors}\n{run.output}"
    detail = re.search(r"^E\d+ .*?\] (.*)$", said, re.MULTILINE)
    panic = re.search(r"^(?:panic|Error|.* refused): ?(.*)$", said, re.MULTILINE)
    parts = [found[1] for found in (panic, detail) if found]
    last = (run.errors.strip().splitlines() or run.output.strip().splitlines() or ["no output"])[-1]
    why = "FizzBee complained" if run.errors else "FizzBee ended without a verdict"
    return f"{spec}: {'; '.join(parts) or f'{why}: {last}'}".replace("spec.fizz:", "line ")


def read_result(run: Run, spec: Path) -> CheckResult:
    """Return the verdict from the output's lines. It is ERROR if anything is on stderr, whatever the output says. States and
    nodes come from the count that it printed."""
    output = run.output
    counts = re.search(r"^(?:Valid Nodes|Visited entries): (\d+)\s+Unique states: (\d+)", output, re.MULTILINE)
    visited = re.findall(r"^Nodes: (\d+),", output, re.MULTILINE)
    nodes, states = (int(counts[1]), int(counts[2])) if counts else (int(visited[-1]) if visited else 0, 0)
    failed = tuple(re.findall(r"^(?:FAILED: .*)?(?:Transition )?Invariant(?: \d+)?: +(\w+)", output, re.MULTILINE))
    begins = set(re.findall(r"^(DEADLOCK|FAILED|Model checker stopped|PASSED)", output, re.MULTILINE))
    stopped = run.stopped or "Model checker stopped" in begins
    verdict = ("ERROR" if run.errors else
               "DEADLOCK" if "DEADLOCK" in begins else
               "FAILED" if "FAILED" in begins and not (stopped and UNWITNESSED in output) else  # also said of a stopped run
               "STOPPED" if stopped else
               "PASSED" if "PASSED" in begins else "ERROR")
    failed = failed if verdict == "FAILED" else ()
    return CheckResult(verdict, states, nodes, run.seconds, failed, error_trace(run.out), output,
                       runtime_error(run, spec) if verdict == "ERROR" else None)
