"""The same drawn script of operations, run by our code and by a released client. After each step the manifests are equal but
for ids, times and what is decided (tests/support/slatedb/decided.py). After a collection the files are equal. Our reader shows
the same rows on both sides after each step, and the release's reader at the end.

    HIGHWATER_DRAWN=100 .venv/bin/python -m pytest -m interop tests/interop/test_interop_differential.py -k drawn -s

draws a hundred scripts for each release. HIGHWATER_DRAWN_FROM=42 begins at script 42.
"""

import copy
import os
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.interop.test_interop import WRITES
from tests.support.slatedb.client import client
from tests.support.slatedb.decided import BOTH, DECIDED, OURS, THEIRS, Difference
from tests.support.slatedb.drawn import drawn
from tests.support.slatedb.releases import NotInstalled
from tests.support.slatedb.rendered import Renderer
from tests.support.slatedb.sides import Ours, Side, Step, Theirs
from tests.support.slatedb.theirs import differences

pytestmark = pytest.mark.interop
DRAWN, FROM = int(os.environ.get("HIGHWATER_DRAWN", 8)), int(os.environ.get("HIGHWATER_DRAWN_FROM", 0))
History = list[tuple[Step, dict[str, dict[str, Any]], dict[str, dict[str, Any]]]]  # a step, and the states of theirs and ours


def played(root: Path, release: str, script: tuple[Step, ...]) -> History:
    """Play a script on both sides; return the states after each step."""
    try:
        with client(release) as peer:
            theirs, ours = Theirs(root / "theirs", peer, release), Ours(root / "ours", WRITES[release])
            sides: list[Side] = [theirs, ours]
            renderers, found = [Renderer(side) for side in sides], list[Any]()
            for step in (("open",), *script):
                if step != ("open",):
                    for side in sides:
                        side.take(step)
                found.append((step, *(one.state() for one in renderers)))
            for side, states in zip((theirs, ours), found[-1][1:]):
                for name, state in states.items():
                    shown = {key: [value, seq] for key, value, seq, *_ in peer.rows_of(path=side.path(name), merging=True)}
                    assert shown == state["rows"], (name, script)
            ours.close()
            return found
    except NotInstalled as error:
        pytest.skip(str(error))


def left(step: Step, theirs: dict[str, Any], ours: dict[str, Any], decided: tuple[Difference, ...]) -> list[str]:
    """Return the differences of two sides that are not decided."""
    states = copy.deepcopy((theirs, ours))
    for whose, side in zip((THEIRS, OURS), states):
        for state in side.values():
            for one in decided:
                one.align(step, state, whose)
    return [*differences(*states), *differences(states[1], states[0])]


@pytest.mark.parametrize("release", BOTH)
@pytest.mark.parametrize("number", range(FROM, FROM + DRAWN))
def test_a_drawn_script(tmp_path, number, release):
    script = drawn(Random(number))
    history = played(tmp_path, release, script)
    for place, (step, theirs, ours) in enumerate(history):
        found = left(step, theirs, ours, DECIDED)
        assert not found, f"script {number}, step {place}: {step}, after {script[:place - 1]}: {found[:5]}"


@pytest.mark.parametrize(("one", "release"), [pytest.param(one, release, id=f"{one.topic}, {release}")
                                              for one in DECIDED for release in one.releases])
def test_a_decided_difference_is_there(tmp_path, one, release):
    """And no other one in its script. If it is gone, the list is to be shortened."""
    history = played(tmp_path, release, one.script)
    assert not [found for states in history if (found := left(*states, DECIDED))]
    others = tuple(other for other in DECIDED if other is not one)
    assert [found for states in history if (found := left(*states, others))]
