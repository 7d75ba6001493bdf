"""A counterexample to induction that is no state of the model says so, and names the fields whose form no clause describes."""

import re

import pytest

from highwater.model.proofs import sequenced_write as proofs
from highwater.model.proofs.engine.cti import Finder


@pytest.mark.parametrize("missing, clause, field", [
    ("IdsAreContiguous", "CommitIsUnique", "present"), ("PlaceIsOfOne", "CommitIsUnique", "holds"),
    ("ReadIsAPrefix", "ReadIsAPrefix", "Reader.got_holds")])
def test_counterexample_names_fields_without_a_form(missing, clause, field):
    clauses = {name: holds for name, holds in proofs.CLAUSES.items() if name != missing}
    finder = Finder(proofs.SYSTEM._replace(clauses=clauses), proofs.unbounded(proofs.m.Constants()))
    found = re.match("Z3 found tables of no state of the model: `write` and then `read` change (.*), and then [A-Z]\\w+ fails",
                     text := finder.find(proofs.PROPERTIES[clause], "Property"))
    assert found and field in found[1].split(", "), text
