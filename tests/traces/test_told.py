"""Responses to callers of nodes that no call has caused: each mapping refuses them.

Each edit changes a good trace so that some caller is told what is not its own, or not yet so, or by the wrong call."""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import named
from highwater.dst.simulate import simulate
from highwater.traces.calls import RETURNED
from highwater.traces.event import Event
from highwater.traces.machines import node_of
from highwater.traces.nodes import CALLED, asks
from highwater.traces.refine import Failure

SEEDS = 3
INDEXES = ("compaction_queue", "metadata_fsm")
GROUPS = ("raft", "raft_membership", "log_snapshot", "consistent_read")
Edit = Callable[[list[Event]], Iterator[list[Event]]]


def refused(stem: str, events: list[Event], shape: object) -> str:
    trace = named(stem).judge(shape)
    try:
        for e in events:
            trace.observe(e)
    except Failure as failure:
        return failure.signature
    return ""


def claims(events: list[Event]) -> Iterator[tuple[int, int]]:
    """Yield the places of responses that a call returned, each with the place where its call began."""
    begun: dict[str, int] = {}
    for i, e in enumerate(events):
        if asks(e):
            begun[e.client] = i
        elif e.kind == "told" and e.keys[2] == RETURNED:
            yield i, begun[e.client]


def role_of(client: str) -> str:
    return client.partition("/")[2].rstrip("0123456789")


def callers(events: list[Event], e: Event, alike: bool) -> list[str]:
    """Return other callers on nodes that are up at the end: of the same role, or of other roles."""
    return sorted({o.client for o in events if o.client not in (e.client, node_of(o.client))
                   and (asks(o) or o.kind == "told") and (role_of(o.client) == role_of(e.client)) == alike})


def second(alike: bool, instead: bool) -> Edit:
    """Another caller receives the response, too, or instead. It has not asked for that."""
    def edit(events: list[Event]) -> Iterator[list[Event]]:
        for i, _ in claims(events):
            e, open_ = events[i], {o.client: o for o in events[:i] if asks(o) or o.kind == "told"}
            for client in callers(events[:i], e, alike):
                last = open_[client]
                if last.kind == "told" or last.keys[0] != e.keys[0]:
                    yield [*events[:i], *([] if instead else [e]), e._replace(client=client), *events[i + 1:]]

    return edit


def again(events: list[Event]) -> Iterator[list[Event]]:
    """A call returns twice."""
    for i, _ in claims(events):
        yield [*events[:i + 1], *events[i:]]


def before_it_asks(events: list[Event]) -> Iterator[list[Event]]:
    """The response is told before the call begins."""
    for i, begun in claims(events):
        yield [*events[:begun], events[i]._replace(t_ms=events[begun].t_ms), *events[begun:i], *events[i + 1:]]


def before_its_entry(*told: str) -> Edit:
    """The response is told when the call has begun, and nothing has happened since."""
    def edit(events: list[Event]) -> Iterator[list[Event]]:
        for i, begun in claims(events):
            if events[i].op in told and i > begun + 1:
                yield [*events[:begun + 1], events[i]._replace(t_ms=events[begun].t_ms), *events[begun + 1:i], *events[i + 1:]]

    return edit


def never_asked(events: list[Event]) -> Iterator[list[Event]]:
    """The call of a response is not there."""
    for _, begun in claims(events):
        yield events[:begun] + events[begun + 1:]


def asked_for_another(events: list[Event]) -> Iterator[list[Event]]:
    """The call has asked for what another one has asked for."""
    for i, begun in claims(events):
        e = events[begun]
        other = next((o.body for o in events if asks(o) and o.keys == e.keys and o.body != e.body), None)
        if other is not None and events[i].op in ("added", "committed", "truncated", "changed"):
            yield [*events[:begun], e._replace(body=other), *events[begun + 1:]]


def exchanged(events: list[Event]) -> Iterator[list[Event]]:
    """Two callers receive each other's response."""
    places = [i for i, _ in claims(events) if events[i].op in ("added", "committed", "truncated")]
    for i, j in pairwise(places):
        one, two = events[i], events[j]
        if one.op == two.op and (one.body, one.keys) != (two.body, two.keys):
            yield [*events[:i], one._replace(body=two.body, keys=two.keys), *events[i + 1:j],
                   two._replace(body=one.body, keys=one.keys), *events[j + 1:]]


def other_leases(events: list[Event]) -> Iterator[list[Event]]:
    """A poll returns no lease in the place of one, or one of an earlier poll."""
    earlier: dict[str, None] = {}
    for i, begun in claims(events):
        e = events[i]
        if e.op != "polled":
            continue
        for value in ("leases=", *earlier):
            if value != e.keys[3] and (value != "leases=" or json.loads(events[begun].body)[0]):
                yield [*events[:i], e._replace(keys=(*e.keys[:3], value)), *events[i + 1:]]
        earlier[e.keys[3]] = None


def never_told(events: list[Event]) -> Iterator[list[Event]]:
    """A worker reports a job of which it was not told."""
    met = set()
    for i, _ in claims(events):
        e = events[i]
        lease = e.keys[3].removeprefix("leases=") if e.op == "polled" else ""
        name, _, token = lease.partition("/")
        if lease in met:
            continue  # it is renewed
        met.add(lease)
        if lease and any(asks(o) and o.client == e.client and f'"{name}",{token}' in o.body.decode() for o in events[i:]):
            yield [*events[:i], e._replace(op="perhaps polled", keys=("poll", "TimedOut", "indefinite")), *events[i + 1:]]


def by_another(op: str) -> Edit:
    """Another client writes the result of a job, or deletes what a tombstone names."""
    def edit(events: list[Event]) -> Iterator[list[Event]]:
        for i, e in enumerate(events):
            if (e.kind, e.op) == ("step", op) and role_of(e.client) == "worker":
                yield [*events[:i], e._replace(client=f"{node_of(e.client)}/writer0"), *events[i + 1:]]

    return edit


def with_content(events: list[Event]) -> Iterator[list[Event]]:
    """A read asks for an entry."""
    for i, e in enumerate(events):
        if asks(e) and e.keys == ("read",):
            yield [*events[:i], e._replace(body=b"0.0.1"), *events[i + 1:]]


def after_its_step(events: list[Event]) -> Iterator[list[Event]]:
    """A call begins after the step of its server that takes it up."""
    for i, (e, step) in enumerate(pairwise(events)):
        if asks(e) and (step.client, CALLED.get(step.op)) == (node_of(e.client), e.keys[0]):
            yield [*events[:i], step, e._replace(t_ms=step.t_ms), *events[i + 2:]]


def before_its_object(events: list[Event]) -> Iterator[list[Event]]:
    """A block is added before its object is written."""
    for i, (e, add) in enumerate(pairwise(events)):
        if (e.op, e.client, add.keys) == ("put", add.client, ("add",)) and asks(add) and (
                not any(o.body == e.body for o in events[:i])):
            yield [*events[:i], add._replace(t_ms=e.t_ms), e, *events[i + 2:]]


def less_read(events: list[Event]) -> Iterator[list[Event]]:
    """A read does not show the last entry that was acknowledged before it began."""
    for i, begun in claims(events):
        known = {o.body for o in events[:begun] if o.kind == "told" and o.op == "committed"}
        shown = events[i].body.split()
        if events[i].op == "read" and known & {*shown}:
            last = max(at for at, body in enumerate(shown) if body in known)
            yield [*events[:i], events[i]._replace(body=b" ".join(shown[:last])), *events[i + 1:]]


def transfer_shows(events: list[Event]) -> Iterator[list[Event]]:
    """The response to a transfer has a content."""
    for i, _ in claims(events):
        if events[i].op == "transferred":
            yield [*events[:i], events[i]._replace(body=b"1"), *events[i + 1:]]


OF_ALL = [again, before_it_asks, never_asked, asked_for_another, exchanged,
          *[second(alike, instead) for alike in (True, False) for instead in (True, False)]]
OF_AN_INDEX = [before_its_entry("added", "refused", "polled", "confirmed", "truncated"), other_leases, never_told]
EDITS = [*[(stem, edit) for stem in (*INDEXES, *GROUPS) for edit in OF_ALL],
         *[(stem, edit) for stem in INDEXES for edit in (*OF_AN_INDEX, before_its_object)],
         *[(stem, edit) for stem in ("consistent_read", "log_snapshot", "raft") for edit in (with_content, after_its_step)],
         ("raft", transfer_shows),
         ("metadata_fsm", by_another("delete")), ("metadata_fsm", by_another("put")), ("compaction_queue", by_another("put")),
         *[(stem, edit) for stem in GROUPS for edit in (before_its_entry("committed", "transferred", "changed"), less_read)]]


@pytest.fixture(scope="module")
def runs() -> dict[str, list]:
    return {stem: [simulate(Run(seed, stem, strategy="portfolio")) for seed in range(SEEDS)] for stem in (*INDEXES, *GROUPS)}


@pytest.mark.parametrize("stem, edit", EDITS, ids=lambda of: of if isinstance(of, str) else of.__qualname__)
def test_an_edited_response_is_refused(stem, edit, runs):
    met = 0
    for run in runs[stem]:
        assert not run.kind and not refused(stem, run.events, run.shape)
        several = list(edit(run.events))
        for events in several[::max(1, len(several) // 8)]:
            assert refused(stem, events, run.shape), run.seed
            met += 1
    assert met
