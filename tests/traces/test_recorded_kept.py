"""Logs of released SlateDB clients, recorded once, have the verdicts that they had; so have 200 edits of those that pass."""

import pytest

from tests.support.slatedb.kept import EDITS, FOLDER, OPERATIONS, edited, judged, names, requests_of, stored

MOST_BYTES = 2 << 20
NOTICED = 77  # of the edits: so many were noticed when they were made


def test_they_are_small():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= MOST_BYTES


@pytest.mark.parametrize("name", names())
def test_a_recorded_log_has_its_verdict(name):
    expected = stored()["logs"][name]
    assert judged([*requests_of(name)], expected["boundary"])._asdict() | {"boundary": expected["boundary"]} == expected


@pytest.mark.parametrize("number", range(EDITS))
def test_an_edited_log_has_its_verdict(number):
    name, what, boundary, requests = edited(number)
    expected = stored()["edits"][number]
    assert [name, what, *judged(requests, boundary)] == expected


def test_edits_of_each_kind_are_noticed():
    """Otherwise the edits say nothing of the check."""
    edits = stored()["edits"]
    noticed = [what.partition(" at ")[0] for _, what, verdict, *_ in edits if verdict == "stuck"]
    assert len(edits) == EDITS and len(noticed) >= NOTICED
    assert {what for what in OPERATIONS if what not in noticed} == {"reply lost", "answer lost", "reads dropped"}
