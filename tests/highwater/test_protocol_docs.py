"""Each protocol's page lists every run that must fail and the property that it breaks; its claim is the model's."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from highwater.specs.runs import rows

DOCS = Path(__file__).resolve().parents[2] / "docs/protocols"
STEMS = ("store_primitives", "baseline", "simple_conditional", "sequenced_write", "manifest_epochs",
         "manifest_migration", "database_gc", "destroy", "raft", "raft_membership", "consistent_read", "log_snapshot",
         "metadata_fsm", "compaction_queue", "dlq_recovery", "index_retention", "index_reads")


@pytest.mark.parametrize("stem", STEMS)
def test_every_run_that_fails_is_told_of(stem):
    told = dict(re.findall(r"^\| `([a-z_]+)` \|.*\| (\w+) \|$", (DOCS / f"{stem}.md").read_text(), re.M))
    assert told == {row.id: row.violates for row in rows() if row.stem == stem and row.expect == "FAILED"}


@pytest.mark.parametrize("stem", STEMS)
def test_links_lead_somewhere(stem):
    for target in re.findall(r"\]\(([^)#]+)\)", (DOCS / f"{stem}.md").read_text()):
        assert (DOCS / target).exists(), target


@pytest.mark.parametrize("stem", STEMS)
def test_the_claim_is_the_model_s(stem):
    said = re.search(r"\*\*Safety\.\*\* (.*?)\n\n", (DOCS / f"{stem}.md").read_text(), re.S)[1]
    claim = import_module(f"highwater.model.protocols.{stem}").__doc__.partition("\n\n")[0].removeprefix("Safety: ")
    assert said.lower().split() == claim.lower().split()
