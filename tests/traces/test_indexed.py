"""Simulated runs of a metadata index: all actions of the models are met, replicas and stores have equal bytes, and damage is
noticed."""

import json
from collections import Counter

import pytest

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import named
from highwater.dst.scenarios.compaction_queue import QueueGroup
from highwater.dst.scenarios.metadata_fsm import CONFIG
from highwater.dst.simulate import simulate
from highwater.impl.codecs.index.rows import U64
from highwater.impl.index.kv import MemoryKV
from highwater.impl.index.machine import Entry, apply_entry
from highwater.impl.stores.ordered_lmdb import LmdbKV
from highwater.model.protocols import compaction_queue, metadata_fsm
from highwater.traces.damage.damage import Damage
from highwater.traces.damage.protocols.indexed import another_state
from highwater.traces.damage.survivors import Survivor
from highwater.traces.protocols.indexed.log import IndexTrace, digest_of_rows
from highwater.traces.refine import Failure

UNKNOWN = b"01JY5Z1FQ00000000000000002"  # a block that nobody has written
STEMS = ("metadata_fsm", "compaction_queue")


def refused(stem: str, events: list, shape: object) -> str:
    trace = named(stem).judge(shape)
    try:
        for e in events:
            trace.observe(e)
    except Failure as failure:
        return failure.signature
    return ""


@pytest.mark.parametrize("stem, model, never", [
    ("metadata_fsm", metadata_fsm, {"Show"}),  # the second half of a replacement, which is one step
    ("compaction_queue", compaction_queue, {"LoseAnswer", "Die", "DieOfJob", "Expire"}),  # each is a lease that ends: Stall
])
def test_runs_take_every_action(monkeypatch, stem, model, never):
    taken = Counter()
    own = IndexTrace._do

    def do(self, action, *choices, **more):
        before = self.refiner.states
        own(self, action, *choices, **more)
        taken[action] += self.refiner.states != before

    monkeypatch.setattr(IndexTrace, "_do", do)
    for seed in range(60):
        assert not simulate(Run(seed, stem, strategy="portfolio")).kind
    if stem == "compaction_queue":
        taken["Stall"] += 1  # `may_be_over` takes it
    assert {action for action, count in taken.items() if count} == (model.INDEX.keys() | model.WORKER.keys()) - never


@pytest.mark.parametrize("stem", STEMS)
@pytest.mark.parametrize("seed", (0, 1, 2, 3, 4, 6))
def test_both_stores_have_the_bytes_that_the_nodes_had(stem, seed, tmp_path):
    """The entries of a drawn run, applied to a map in memory and to lmdb: the rows after each are those of all replicas."""
    run = simulate(Run(seed, stem, strategy="portfolio"))
    config = CONFIG._replace(jobs=run.shape.jobs) if stem == "metadata_fsm" else QueueGroup.config
    stores, told = (MemoryKV(), LmdbKV(tmp_path / "rows")), 0
    for e in run.events:
        if (e.kind, e.op) != ("step", "apply") or b'"entry"' not in e.body:
            continue
        said = json.loads(e.body)
        body, told = bytes.fromhex(said["entry"]), told + 1
        for store in stores:
            with store.transaction() as rows:
                answer = apply_entry(rows, Entry(said["index"], said["term"], U64.unpack_from(body)[0], body[8:]), config)
            assert answer is not None and answer.code == said["code"]
            with store.snapshot() as rows:
                assert digest_of_rows([*rows.range(b"", None)]) == said["state"]
    stores[1].close()
    assert told > 10


def test_another_state_explains_only_what_a_read_may_show():
    found = Counter()
    for seed in (5, 7):
        run = simulate(Run(seed, "metadata_fsm", strategy="portfolio"))
        for i, e in enumerate(run.events):
            for ulid in e.body.split() if (e.kind, e.op) == ("told", "read") else ():
                other = e._replace(body=b" ".join(one for one in e.body.split() if one != ulid))
                events = [*run.events[:i], other, *run.events[i + 1:]]
                explained = another_state(Survivor(run.events, Damage("edit", "body", i, i, events), None, {}))
                assert explained == (not refused("metadata_fsm", events, run.shape))
                found[explained] += 1
    assert found[True] and found[False]


def damaged(body: bytes) -> list[bytes]:
    """Return other bodies of an `apply` event."""
    said = json.loads(body)
    others = [said | {"term": said["term"] + 1, "state": "0" * 24}, said | {"state": "0" * 24}, said | {"index": 10**6}]
    if "entry" in said:
        rows = dict(said["rows"])
        others += [said | {"code": "OK" if said["code"] != "OK" else "ABORTED"}, said | {"rows": {}},
                   said | {"rows": dict([*rows.items()][1:])}, said | {"rows": rows | {"01": "00"}},
                   said | {"entry": said["entry"][:-2]}]
    return [json.dumps(other).encode() for other in others]


@pytest.mark.parametrize("stem", STEMS)
def test_a_damaged_apply_is_refused(stem):
    run = simulate(Run(14, stem, strategy="portfolio"))
    assert not refused(stem, run.events, run.shape)
    places = [at for at, e in enumerate(run.events) if (e.kind, e.op) == ("step", "apply")]
    for at in places[::3]:
        before, e, after = run.events[:at], run.events[at], run.events[at + 1:]
        for body in damaged(e.body):
            assert refused(stem, [*before, e._replace(body=body), *after], run.shape), (at, body)
        assert refused(stem, [*before, e, e, *after], run.shape), at
        later = any(other.client == e.client and other.op == "apply" for other in after)
        if later and b'"entry"' in e.body:
            assert refused(stem, before + after, run.shape), at


@pytest.mark.parametrize("stem", STEMS)
def test_bytes_that_are_none_of_the_index_are_refused(stem):
    run = simulate(Run(3, stem, strategy="portfolio"))
    for op in ("apply", "load", "put"):
        at = next((at for at, e in enumerate(run.events) if (e.kind, e.op) == ("step", op)), None)
        for body in (b"", b"\xff", b"{}") if at is not None and (stem, op) != ("compaction_queue", "put") else ():
            assert refused(stem, [*run.events[:at], run.events[at]._replace(body=body)], run.shape), (op, body)


@pytest.mark.parametrize("stem", STEMS)
def test_a_false_answer_of_a_caller_is_refused(stem):
    """A block that nobody added, a lease that nobody was given."""
    run = simulate(Run(3, stem, strategy="portfolio"))
    for at, e in enumerate(run.events):
        if e.kind == "told" and e.op == "added":
            told = e._replace(body=UNKNOWN)
            assert refused(stem, [*run.events[:at], told, *run.events[at + 1:]], run.shape)
        elif e.kind == "told" and e.op == "polled":
            keys = (*e.keys[:3], "leases=0000-T-S1-L0/9999")
            assert refused(stem, [*run.events[:at], e._replace(keys=keys), *run.events[at + 1:]], run.shape)


def test_a_read_that_shows_no_state_is_refused():
    """Less than was acknowledged before it, or a block that is gone beside one that came after."""
    met = 0
    for seed in range(12):
        run = simulate(Run(seed, "metadata_fsm", strategy="portfolio"))
        for at, e in enumerate(run.events):
            if e.kind == "told" and e.op == "read" and e.body:
                told = [*run.events[:at], e._replace(body=e.body + b" " + UNKNOWN), *run.events[at + 1:]]
                assert refused("metadata_fsm", told, run.shape)
                met += 1
    assert met > 3
