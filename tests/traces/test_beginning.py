"""Clients that race to initialise an empty store are judged like those that use it: by time, number, form and what they met."""

import pytest

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import named
from highwater.dst.scenarios.simple_conditional import Shape, trace_of
from highwater.dst.simulate import simulate
from highwater.traces.event import EMPTY, Event
from highwater.traces.explain.explain import replay
from highwater.traces.protocols.simple_conditional import KEY
from highwater.traces.refine import Failure

FIRST, OTHER = (b'{"checkpoints":[],"updates":[%s]}' % update for update in (b"", b'"0.0"'))
BEGIN = EMPTY._replace(t_ms=1, client="Writer#0", kind="told", op="initialising")
CREATE = EMPTY._replace(
    t_ms=2, request=1, client="Writer#0", kind="applied", op="create", key=KEY, status=200, version="1", body=FIRST)
LOST = CREATE._replace(kind="timeout", status=0, version="", pending=True)
LATE = CREATE._replace(t_ms=3, awaited=False)
AGAIN = CREATE._replace(t_ms=4, request=2, status=412, version="")
END = BEGIN._replace(t_ms=4, op="initialised")
GOOD = {"at once": [BEGIN, CREATE, END], "at the second attempt": [BEGIN, LOST, LATE, AGAIN, END],
        "in a second life": [BEGIN, LOST._replace(kind="crash"), BEGIN._replace(t_ms=3), LATE, AGAIN, END]}
BAD = [  # why, and the events
    ("was sent by nobody", [BEGIN, LOST, LATE._replace(body=OTHER)]),
    ("which is not the first content", [BEGIN, CREATE._replace(body=OTHER)]),
    ("is no action of an initialisation", [BEGIN, CREATE._replace(op="put")]),
    ("after what was at 1 ms", [BEGIN, CREATE._replace(t_ms=0)]),
    ("had another end before", [BEGIN, LOST, AGAIN._replace(request=1, t_ms=3)]),
    ("is no answer to create", [BEGIN, CREATE._replace(status=204, version="")]),
    ("has not met a first content", [BEGIN, END]),
    ("has not met a first content", [BEGIN, CREATE, LOST._replace(pending=False), END]),  # it has lost the reply
    ("has begun no initialisation", [BEGIN, CREATE, END, END]),
    ("nobody has created the first content", [BEGIN, AGAIN, END]),
    ("its call before has not ended", [BEGIN, BEGIN]),
    ("its call before has not ended", [BEGIN, CREATE, BEGIN._replace(t_ms=2)]),
    ("was told more than that", [BEGIN._replace(key=KEY)]),
]


def observe(events: list[Event]) -> None:
    trace = trace_of(Shape(fresh=True))
    for e in events:
        trace.observe(e)


@pytest.mark.parametrize("way", GOOD)
def test_initialisation_is_accepted(way):
    observe(GOOD[way])


@pytest.mark.parametrize(("why", "events"), BAD)
def test_false_initialisation_is_refused(why, events):
    with pytest.raises(Failure, match=why):
        observe(events)


@pytest.mark.parametrize("stem", ["simple_conditional", "manifest_epochs"])
def test_a_run_that_begins_so_is_judged_again_alike(stem):
    """To explain it, for example."""
    of = named(stem)
    fresh = next(outcome for seed in range(50) if (outcome := simulate(Run(seed, stem))).shape.fresh)
    again = of.judge(fresh.shape)
    for e in fresh.events:
        again.observe(e)
    assert replay(fresh.events, of.judge(fresh.shape)).failing is None
