"""The only wrapper of the FizzBee CLI: check | graph | guided trace.

Safety: a verdict and a graph are complete, and belong to the spec and the constants that were asked for; otherwise an
exception is raised. FizzBee 0.5.4 alone does not guarantee that. Its measured behaviour, and the remedy here:

- Its exit status means nothing. Verdicts are read from its output and its files.
- It cuts every path after 100 actions unless told otherwise, and says PASSED. Here `max_actions` is 10^9 unless the spec's
  front matter says otherwise, and a graph that was cut is an error.
- `--preinit-hook 'N = 3'` does not reach what was computed from N before: a constant `M = N + 1`, and every top-level `def`,
  which keeps the N of its definition; and a misspelt name is accepted. Here the constant's own assignment is rewritten in
  what the parser has written, so all of the spec sees the value, and an unknown name is an error.
- Its parser recovers from some syntax errors with a message on stderr, goes on, and exits with 0. Its stdout is another
  matter: megabytes of its own tracing, buffered or not as the environment has it. Here the two streams are kept apart, and
  anything on stderr is an error, the parser's as well as the checker's: on no spec of this folder, and in no run of
  tests/specs/test_fizz.py and tests/specs/test_conform.py that came to a verdict, did either write a byte there, so nothing is
  let pass. What the checker's source has for stderr is what breaks: panics, "Error in executing init", a module that "failed
  to load" and is done without. (Its bar of progress, and that of simulations, are for terminals and for runs that are not made
  here.)
- Both programs run in an environment of few names (`INHERITED`), so that their output does not depend on the caller.
- In a guided trace an action that is disabled uses up its line, and the run PASSED. Here the path is walked again in the
  graph that the run wrote.
- `--experimental_no_graph` is 1.4 times faster, but crashes where a transition assertion fails, sees deadlocks that are
  none, and gives no states. Here it is used for what then passes (or lacks a witness); anything else is run again.
- `always eventually`: a FAILED is right, a PASSED may be wrong. What it judges is weak fairness, per role instance and action:
  a cycle counts unless some `fair` action is enabled in each of its states and taken by none of its steps; a self-loop
  counts as a step; a state may last for ever if no `fair` action is enabled (a deadlock, too); a client that takes a
  fair action may choose badly for ever (`oneof`; `fair oneof` is another matter). All of that is as it should be. But it
  searches once, depth first, for cycles that close over the search's own path: a cycle that leads through a state already
  left is never looked at. Of 3,000 random graphs of 2 to 6 states (2 role instances, 2 fair actions each) it agreed about
  the 570 that hold, about all 1,120 with a run that just stops, and about 1,276 of the 1,310 that fail on a cycle; the
  other 34 it PASSED. Three states are enough for that: tests/model/test_liveness.py. (Upstream, issue 212 has two `eventually
  always` that contradict each other and PASSED.) So the model's judgement is the one to believe (model/liveness.py), and
  conformance wants both to be the same. Its search copies its path at each step, which is quadratic: keep such rows small.
  The reference says that liveness is off by default; it is on.

Errors raised: FizzMissing, SpecError, FizzError.
"""

import json
import re
import tempfile
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from highwater.specs.fizzbee.cache import kept, kept_parse
from highwater.specs.fizzbee.errors import FizzError, FizzMissing, SpecError
from highwater.specs.fizzbee.files import Graph, read_graph, walked
from highwater.specs.fizzbee.reader import Block, read
from highwater.specs.fizzbee.rewrite import instance, named
from highwater.specs.fizzbee.run import BUILD, Run, build_module, execute
from highwater.specs.fizzbee.verdict import UNWITNESSED, CheckResult, parse_error, read_result

OPTIONS = "options:\n  max_actions: 1000000000\n"  # fizz.yaml; a spec's front matter overrides it
GRAPH = ["--no-symmetry-reduction", "--experimental_no_state_returns"]  # of a run whose graph is read
LONGEST_GUIDED = 100  # actions: FizzBee's trace mode has this bound and ignores every setting


@dataclass(frozen=True)
class Fizz:
    """A FizzBee CLI: its two programs, and its version or what stands for it."""

    parser: Path
    checker: Path
    version: str

    @classmethod
    def find(cls) -> "Fizz":
        """Return the `fizz` on PATH, else the one built by tools/fizzbee/build.py. Raises FizzMissing if there is neither."""
        found = build_module().find()
        if not found:
            place = BUILD.resolve()  # in an installed package there is no tools/ below the current folder
            shown = place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place
            raise FizzMissing(f"FizzBee is missing: run `python3 {shown}`, or put `fizz` on PATH")
        return cls(*found)

    def check(self, spec: Path, constants: dict[str, object] | None = None, *, liveness: bool | None = None,
              only: Collection[str] | None = None, graph: bool = False, timeout: float | None = None,
              cache: bool = False) -> CheckResult:
        """Explore every state and check every assertion. Raises SpecError; a run-time error is the verdict ERROR.

        `liveness`: None checks `eventually` assertions where the spec has some, False leaves them out. `only` leaves out
        all assertions but these. `graph` keeps FizzBee's state graph while exploring: slower, no other result. `timeout` is
        in seconds; past it: STOPPED. `cache` returns an earlier PASSED, FAILED or DEADLOCK of the same spec, constants,
        options, FizzBee and wrapper.
        """
        spec, constants = Path(spec), dict(constants or {})
        if cache:
            return kept("check", self.version, spec, constants, [liveness, only and sorted(only), graph], lambda: self.check(
                spec, constants, liveness=liveness, only=only, graph=graph, timeout=timeout))
        text = spec.read_text()
        assertions = read(text).assertions if only is None else named(only, text, spec)
        if liveness is False:
            assertions = without_liveness(assertions)
        symmetry = [] if read(text).symmetric else ["--no-symmetry-reduction"]  # the same states, sooner
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="fizz-") as folder:
            scratch = self._prepared(Path(folder), spec, text, constants, assertions)
            fast = None
            if not graph and not any(assertion.eventually for assertion in assertions):
                fast = read_result(self._run(scratch, "fast", [*symmetry, "--experimental_no_graph"], timeout), spec)
                if fast.verdict in ("PASSED", "STOPPED") or (fast.verdict == "FAILED" and UNWITNESSED in fast.output):
                    return fast
            left = timeout and max(1.0, timeout - (time.monotonic() - started))
            full = read_result(self._run(scratch, "full", symmetry, left), spec)
            result = fast if fast and fast.verdict == "FAILED" and full.verdict == "STOPPED" else full
            return replace(result, seconds=time.monotonic() - started)

    def graph(self, spec: Path, constants: dict[str, object] | None = None, *, timeout: float | None = None,
              cache: bool = False) -> Graph:
        """Return the whole state graph, without assertions, so that ablated specs have one. Raises FizzError, SpecError."""
        spec, constants = Path(spec), dict(constants or {})
        if cache:
            return kept("graph", self.version, spec, constants, [], lambda: self.graph(spec, constants, timeout=timeout))
        with tempfile.TemporaryDirectory(prefix="fizz-") as folder:
            scratch = self._prepared(Path(folder), spec, spec.read_text(), constants, ())
            return graph_of(self._run(scratch, "graph", GRAPH, timeout), spec)

    def explored(self, spec: Path, constants: dict[str, object] | None = None, *, timeout: float | None = None,
                 cache: bool = False) -> tuple[CheckResult, Graph]:
        """Check every assertion but `eventually`, and return the whole state graph too: half the work of `check` and `graph`.

        A run that passes writes the graph. If an assertion fails, a second run has none. Raises FizzError, SpecError."""
        spec, constants = Path(spec), dict(constants or {})
        if cache:
            return kept("explored", self.version, spec, constants, [],
                        lambda: self.explored(spec, constants, timeout=timeout))
        text = spec.read_text()
        with tempfile.TemporaryDirectory(prefix="fizz-") as folder:
            scratch = self._prepared(Path(folder), spec, text, constants, without_liveness(read(text).assertions))
            run = self._run(scratch, "checked", GRAPH, timeout)
            result = read_result(run, spec)
            if result.verdict == "FAILED":
                self._prepared(scratch, spec, text, constants, ())
                run = self._run(scratch, "graph", GRAPH, timeout)
            return result, graph_of(run, spec)

    def guided(self, spec: Path, constants: dict[str, object] | None, trace: Iterable[str], *,
               assertions: bool = True, timeout: float | None = None, cache: bool = False) -> CheckResult:
        """Drive FizzBee along link names, at most 100 actions, checking `always` and `transition` assertions on the way,
        unless `assertions` is False.

        The names are those of CheckResult.trace: `Writer#0.Create`, then for each choice that the action makes a line
        `Any:k=1` (or `Stmt:0`, a branch of an `oneof:` block); a leading `Init` is skipped. PASSED: followed to the end.
        STOPPED: `followed` links, then the next one was not enabled (or unknown). FAILED: an assertion failed in the last
        state of `trace`, after `followed` links.
        """
        spec, links = Path(spec), [link.strip() for link in trace]
        links = links[1:] if links[:1] == ["Init"] else links
        if sum(not link.startswith(("Any:", "Stmt:")) for link in links) > LONGEST_GUIDED:
            raise FizzError(f"FizzBee follows at most {LONGEST_GUIDED} actions of a guided trace; this one is longer")
        if cache:
            return kept("guided", self.version, spec, dict(constants or {}), [assertions, *links], lambda: self.guided(
                spec, constants, links, assertions=assertions, timeout=timeout))
        text = spec.read_text()
        started, ask = time.monotonic(), len(links)
        with tempfile.TemporaryDirectory(prefix="fizz-") as folder:
            scratch = self._prepared(Path(folder), spec, text, dict(constants or {}),
                                     read(text).assertions if assertions else ())
            while True:
                (scratch / "trace").write_text("\n".join(links[:ask]) or "nothing")  # FizzBee refuses an empty one
                run = self._run(scratch, str(ask), ["--no-symmetry-reduction", "--trace-file", "trace"], timeout)
                result = replace(read_result(run, spec), seconds=time.monotonic() - started)
                if result.verdict == "FAILED":
                    return replace(result, followed=len(result.trace) - 1)
                if run.errors:
                    return replace(result, followed=0)
                executed = re.search(r"^WARNING: Trace execution incomplete.* executed (\d+) links", run.output, re.MULTILINE)
                if not executed:
                    break
                if ask == 0:
                    return replace(result, verdict="STOPPED" if links else "PASSED", error=None, followed=0)
                ask = min(int(executed[1]), ask - 1)
            path = walked(run.out, links[:ask]) if result.verdict == "PASSED" else ()
        followed = max(len(path) - 1, 0)
        verdict = "STOPPED" if result.verdict == "PASSED" and followed < len(links) else result.verdict
        return replace(result, verdict=verdict, trace=path, followed=followed)

    def _prepared(self, scratch: Path, spec: Path, text: str, constants: dict[str, object],
                  assertions: Collection[Block]) -> Path:
        """Write an instance of the parsed spec, with only these assertions, into the scratch folder. Raises SpecError."""
        parsed = kept_parse(self.parser, self.version, spec.stem, text, lambda: self._parse(scratch, spec, text))
        wanted = instance(parsed, text, constants, {assertion.name for assertion in assertions}, spec)
        (scratch / "fizz.yaml").write_text(OPTIONS)
        (scratch / "spec.json").write_text(json.dumps(wanted))
        return scratch

    def _parse(self, scratch: Path, spec: Path, text: str) -> dict[str, Any]:
        """Parse a spec. Return what the parser has written: the tree, as it stands in its JSON. Raises SpecError."""
        (scratch / "spec.fizz").write_text(text)
        _, errors, status, _ = execute([str(self.parser), "spec.fizz"], scratch, None)
        wrong = parse_error(errors, status, spec)
        if wrong:
            raise SpecError(wrong)
        return dict(json.loads((scratch / "spec.json").read_text()))

    def _run(self, scratch: Path, name: str, options: list[str], timeout: float | None) -> Run:
        """Run the checker on the parsed spec, with its files in a folder of that name."""
        started = time.monotonic()
        command = [str(self.checker), *options, "--output-dir", str(scratch / name), "spec.json"]
        output, errors, status, stopped = execute(command, scratch, timeout)
        if status < 0 and not stopped:
            errors += f"it was killed by signal {-status}\n"  # by the kernel, say, for want of memory
        return Run(output, errors, stopped, time.monotonic() - started, scratch / name)


def without_liveness(assertions: Iterable[Block]) -> tuple[Block, ...]:
    return tuple(assertion for assertion in assertions if not assertion.eventually)


def graph_of(run: Run, spec: Path) -> Graph:
    """Read the graph that a run has written. Raises FizzError if the run did not pass, or if the graph was cut."""
    result = read_result(run, spec)
    if result.verdict == "DEADLOCK":
        raise FizzError(f"{spec}: a state in which nothing is enabled; a graph needs `deadlock_detection: false`")
    if result.verdict != "PASSED":
        raise FizzError(result.error or f"{spec}: no graph: FizzBee said {result.verdict} after {result.seconds:.0f} s")
    longest = re.search(r"max_actions:(\d+)", run.output)
    try:
        return read_graph(run.out, int(longest[1]) if longest else 0)
    except FizzError as error:
        raise FizzError(f"{spec}: {error}") from error
