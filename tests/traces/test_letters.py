"""Simulated runs of dead letters, of retention and of readers take all actions of their models."""

from collections import Counter

import pytest

from highwater.dst.run_spec import Run
from highwater.dst.simulate import simulate
from highwater.model.protocols import dlq_recovery, index_reads, index_retention
from highwater.traces.protocols import dlq_recovery as letters
from highwater.traces.protocols import index_reads as reads
from highwater.traces.protocols import index_retention as retention


@pytest.mark.parametrize("stem, mapping, actions", [
    ("dlq_recovery", letters, dlq_recovery.WRITER.keys() | dlq_recovery.SWEEPER.keys() | dlq_recovery.INDEX.keys() - {
        "ApplyPending"}),
    ("index_retention", retention, index_retention.INDEX.keys() | index_retention.CLEANER.keys() - {"TruncateRefused"}),
    ("index_reads", reads, (index_reads.INDEX.keys() | index_reads.READER.keys()) - {"ReadGone", "Apply"}),
])
def test_runs_take_every_action(monkeypatch, stem, mapping, actions):
    taken, own = Counter(), mapping.Trace._do

    def do(self, *given, **more):
        before = self.refiner.states
        own(self, *given, **more)
        taken.update(part for part in given if isinstance(part, str) and self.refiner.states != before)

    monkeypatch.setattr(mapping.Trace, "_do", do)
    for seed in range(150):
        assert not simulate(Run(seed, stem, strategy="portfolio")).kind
    assert {*taken} >= actions
