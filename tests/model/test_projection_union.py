"""Projection, union and the merging of views hold for every small database; without a safeguard the smallest one that is
harmed is found."""

import pytest

from highwater.model.functions import projection_union as m
from highwater.model.functions.manifests import Database, Manifest, Sst, View
from highwater.model.functions.projection_union_checks import CHECKS, first, halves, united
from highwater.model.functions.projection_union_values import databases

SIZES = [m.Constants(KEYS=4, SSTS=2), m.Constants(KEYS=6, SSTS=1), m.Constants(KEYS=3, SSTS=3)]
TWO = m.Constants(KEYS=4, SSTS=2)

STORIES = [  # a safeguard, the property that fails without it, and the shortest story
    ("CUT_VIEWS", "ProjectionIsRestriction", (
        "p has run 1: SST 0 [0, 4)?", "project [1, 2)", "key 0: nothing became p.0")),
    ("NEXT_BOUNDS", "RunsAreSorted", (
        "p has run 1: SST 1 [0, 4)?, SST 0 [0, 4)?", "project [0, 2)", "run 1 has [0, 2) before [0, 2)")),
    ("SHARE_KEYS", "ProjectionIsRestriction", (  # a key with more versions than one SST takes
        "p has run 1: SST 1 [0, 1), SST 0 [0, 1)", "project [0, 1)", "key 0: p.1 p.0 became p.0")),
    ("PRUNE_PINS", "PinsAreNeeded", (
        "p has L0: SST 0 [0, 1)", "clone it", "project the clone to [1, 2)", "it pins SSTs [0] and shows []")),
    ("REFUSE_LOG", "ProjectionIsRestriction", (  # SlateDB's issue 1984
        "p has L0: SST 0 [0, 1); log: key 0", "project [1, 2)", "key 0: nothing became p.log")),
    ("REFUSE_LOG", "UnionIsTheSources", (
        "a has L0: SST 0 [0, 1)", "b has L0: SST 0 [0, 1); log: key 1", "unite with spans [0, 1) and [1, 3)",
        "key 1: nothing and b.log became nothing")),
    ("REFUSE_OVERLAP", "UnionIsTheSources", (
        "a has L0: SST 0 [0, 1)", "b has L0: SST 1 [0, 1)", "unite", "key 0: a.0 and b.1 became a.0 b.1")),
    ("CUT_TO_SPAN", "UnionIsTheSources", (
        "a has L0: SST 0 [0, 1)", "b has L0: SST 1 [1, 2)", "unite with spans [0, 2) and [2, 3)",
        "key 1: nothing and nothing became b.1")),
    ("ONE_OWNER", "UnionIsTheSources", (  # a reader has one path for each SST
        "a has L0: SST 0 [0, 1)", "b has run 1: SST 0 [0, 3)?", "unite with spans [0, 1) and [1, 3)",
        "key 0: a.0 and nothing became b.0")),
    ("FRESH_VIEW_IDS", "CompactionLosesNothing", (  # release 0.17.0: docs/operating/findings.md
        "p has L0: SST 0 [0, 2)", "split at 1 and unite", "compact views [0, 0] and runs []", "key 0: p.0 became nothing")),
    ("JOIN_TIERS", "CompactionLosesNothing", (
        "p has run 1: SST 0 [0, 4)?", "split at 1 and unite", "compact views [] and runs [1]", "key 0: p.0 became nothing")),
    ("LARGEST_SEQ", "NewWritesAreNewest", (
        "a has L0: SST 0 [0, 1)", "b has L0: SST 1 [1, 2)", "unite", "the last sequence number is 0, and a row has 1")),
    ("PIN_BY_MANIFEST", "PinsAreBounded", (
        "p has run 1: SST 0 [0, 4)?", "split at 1 and unite, 1 times", "2 pins of 1 manifest")),
    ("SOURCE_IS_FINAL", "SourcesAreKept", (  # SlateDB's issue 1643
        "p has L0: SST 0 [0, 1)", "clone it as c, and c as g",
        "g needs the checkpoint 'made 101', which anyone may delete; c keeps ['final 103']")),
    ("NO_GAPS", "MergingChangesNothing", (
        "p has L0: SST 0 [0, 1), SST 0 [2, 3)", "merge views", "key 1: nothing became p.0")),
    ("KEEP_ORDER", "MergingChangesNothing", (
        "p has L0: SST 0 [0, 1), SST 0 [1, 2), SST 1 [0, 1)", "merge views", "key 0: p.0 p.1 became p.1 p.0")),
    ("WITHIN_L0", "MergingChangesNothing", (
        "p has L0: SST 0 [0, 1), SST 1 [1, 2); run 0: SST 0 [1, 2)", "merge views", "key 1: p.1 p.0 became p.0 p.1")),
    ("MERGED_HAS_NEW_ID", "PlannedCompactionLosesNothing", (
        "p has L0: SST 0 [1, 2), SST 0 [0, 1)", "plan to compact views [1] and runs []", "merge views, and apply the plan",
        "key 1: p.0 became nothing")),
]


def test_the_sizes_are_not_empty():
    assert [sum(1 for _ in databases(c)) for c in SIZES] == [1550, 105, 9086]


@pytest.mark.parametrize("c", SIZES, ids=lambda c: f"{c.SSTS} SSTs, {c.KEYS} keys")
@pytest.mark.parametrize("name", CHECKS)
def test_every_property_holds(name, c):
    assert first(name, c) is None


@pytest.mark.parametrize("knob, name, story", STORIES, ids=lambda one: one if isinstance(one, str) else "")
def test_without_a_safeguard_the_smallest_database_is_harmed(knob, name, story):
    assert first(name, TWO._replace(**{knob: False})) == story


def test_merging_may_have_to_move_a_third_view():
    """L0 of the union is 1, 0 of the left half and 2, 1 of the right one. «logical creation time can be inferred from
    topological order of SST»: 2, 1, 0."""
    ssts = [Sst(0, 0, 1), Sst(1, 0, 2), Sst(2, 1, 2)]
    whole = Database("p", Manifest(tuple(View(sst.number, sst, sst.first, sst.end) for sst in reversed(ssts))))
    ids = m.Ids()
    union = united(TWO, m.OURS, halves(TWO, m.OURS, whole, 1, ids), ids)
    assert [view.sst.number for view in union.manifest.l0] == [1, 0, 2, 1]
    assert [view.sst.number for view in m.merge(TWO, union.manifest, ids).l0] == [2, 1, 0]


def test_every_safeguard_is_switched_off_and_every_property_fails():
    assert {knob for knob, _, _ in STORIES} == m.SAFEGUARDS
    assert {name for _, name, _ in STORIES} | {"HalvesAreTheWhole", "HalvesAreAsFew"} == CHECKS.keys()


@pytest.mark.parametrize("knob, name, last", [
    ("CUT_VIEWS", "HalvesAreTheWhole", "it is refused"),
    ("JOIN_TIERS", "HalvesAreAsFew", "{'views': 1, 'in L0': 0, 'runs': 1, 'pins': 0} became "
                                     "{'views': 2, 'in L0': 0, 'runs': 2, 'pins': 1}"),
])
def test_a_round_is_the_identity_only_with_the_safeguards_of_its_parts(knob, name, last):
    story = first(name, TWO._replace(**{knob: False}))
    assert story and story[-1] == last


@pytest.mark.parametrize("rounds, pins", [(1, 2), (2, 4), (3, 8)])
def test_pins_of_checkpoints_double_in_each_round(rounds, pins):
    """«projecting into N parts and unioning back multiplies the entry count by N each cycle», also with the RFC's own rule,
    if each clone has a checkpoint of its own."""
    c = TWO._replace(PIN_BY_MANIFEST=False)
    ids = m.Ids()
    now = next(database for database, _ in databases(c, 1) if [view.end - view.start for view in database.manifest.l0] == [2])
    for _ in range(rounds):
        now = united(c, m.OURS, halves(c, m.OURS, now, 1, ids), ids)
    assert len(now.manifest.pins) == pins
