"""Provide a Hypothesis strategy whose values are runs, so that `@given(runs(...))` searches them and shrinks failures.

    @given(runs(shape=BaseShape(writers=2, commits=2)))
    def test_refines(run):
        assert not run.kind, run.message

Hypothesis draws every choice of the tape, and shrinks each towards 0, the mildest. The result is an ordinary tape:
`simulate(Run(0, shape=run.shape, weights=run.weights), build, run.tape)` replays it strictly, without Hypothesis.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import DEFAULT
from highwater.dst.sim.choose import Choose, Chooser, Decide
from highwater.dst.simulate import BaseShape, Build, Outcome, simulate
from highwater.dst.world.node_faults import AnyWeights

Draw = Callable[[st.SearchStrategy], Any]


class Drawn(Chooser):
    """Lets Hypothesis draw every choice: evenly, or a request's fate by its weights."""

    def __init__(self, draw: Draw):
        super().__init__(0)
        self.draw = draw

    def stream(self, name: str) -> Choose:
        return self._even

    def decider(self) -> Decide:
        return self._decide

    def _even(self, site: str, bound: int) -> int:
        if bound == 1:
            return 0
        return self._recorded(site, self.draw(st.integers(0, bound - 1)), bound)

    def _decide(self, site: str, bound: int, how: Callable[[Any], int], argument: Any) -> int:
        if isinstance(argument, str):  # a strategy's name says whether Hypothesis draws the order
            return self._recorded(site, how(argument), bound)
        if isinstance(argument, bytes):  # the fates, the mildest first
            return self._recorded(site, argument[self.draw(st.integers(0, len(argument) - 1))], bound)
        return self._even(site, bound)

    def _recorded(self, site: str, choice: int, bound: int) -> int:
        self.tape.append((site, choice, bound))
        return choice


class Played(Outcome):
    """An Outcome that Hypothesis prints in one line."""

    __slots__ = ()

    def __repr__(self) -> str:
        mild = sum(1 for _, choice, _ in self.tape if choice)
        return f"<{self.signature or 'ok'}, {self.requests} requests, {mild} of {len(self.tape)} choices not the mildest>"


@st.composite
def runs(draw: Draw, build: Build | None = None, shape: BaseShape | None = None, weights: AnyWeights | None = None,
         by_model: bool = True, strategy: str = "times", scenario: str = DEFAULT) -> Played:
    """Draw runs of a scenario. `strategy`: "times", or another for an order of events that Hypothesis draws.

    Use small shapes: Hypothesis gives up on a run with thousands of choices."""
    return Played(*simulate(Run(0, scenario, None, strategy, shape, weights), build, by_model=by_model, chooser=Drawn(draw)))
