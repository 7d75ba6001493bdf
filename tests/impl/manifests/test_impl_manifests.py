"""Projection, union and the merging of views on SlateDB's manifests have the properties of their model."""

from itertools import pairwise

import pytest

from highwater.impl.manifests import externals, merge, project, readable, union
from highwater.impl.manifests.spans import Span, effective, in_run, meet
from highwater.model.functions.projection_union import Constants
from highwater.model.functions.projection_union_checks import CHECKS, first
from tests.support.slatedb.small import FUNCTIONS

SMALL = Constants(KEYS=3, SSTS=2, ROUNDS=2)


@pytest.mark.parametrize("name", CHECKS)
def test_every_property_of_the_model_holds_of_the_code(name):
    assert first(name, SMALL, FUNCTIONS) is None


def copied_runs(parts):
    return [run for part in parts for run in part.manifest.compacted]


def unbounded(run_id, views, ssts):
    return [(view, effective(view, ssts)) for view in views]


def unshared(run_id, views, ssts):
    """End each view before the first key of the next one."""
    shown = in_run(run_id, views, ssts)
    ends = [meet(span, Span(span.start, following.start)) if span.start < following.start else None
            for (_, span), (_, following) in pairwise(shown)]
    return [(view, span) for (view, _), span in zip(shown, [*ends, *(span for _, span in shown[-1:])]) if span]


def with_gaps(l0, spans):
    shown = sorted((view.sst_id, span.start, place) for place, (view, span) in enumerate(zip(l0, spans)) if span)
    return [(left, right) for (sst, _, left), (other, _, right) in pairwise(shown) if sst == other]


def as_the_rfc_says(pins, named):
    """Pins with one path and one source checkpoint are merged."""
    groups = {}
    for pin in pins:
        known = groups.setdefault((pin.path, pin.checkpoint_id), pin)
        groups[pin.path, pin.checkpoint_id] = known._replace(ssts=known.ssts | pin.ssts)
    return list(groups.values())


def from_the_source(external_dbs):
    return [externals.Pin(one.path, one.source_checkpoint_id, frozenset(one.sst_ids)) for one in external_dbs]


def first_seq(sources, new_id, named=None):
    return UNION(sources, new_id, named)._replace(last_l0_seq=sources[0].manifest.last_l0_seq)


UNION = union.union
WRONG = [  # the safeguard, the property that fails, the module, its function, and the wrong one
    ("CUT_VIEWS", "ProjectionIsRestriction", project, "with_span", lambda view, span, sst: view),
    ("NEXT_BOUNDS", "RunsAreSorted", project, "in_run", unbounded),
    ("SHARE_KEYS", "ProjectionIsRestriction", project, "in_run", unshared),
    ("PRUNE_PINS", "PinsAreNeeded", project, "pruned", lambda external_dbs, shown: external_dbs),
    ("REFUSE_LOG", "ProjectionIsRestriction", readable, "check_log", lambda manifest, fences: None),
    ("REFUSE_LOG", "UnionIsTheSources", readable, "check_log", lambda manifest, fences: None),
    ("REFUSE_OVERLAP", "UnionIsTheSources", union, "check_disjoint", lambda spans: None),
    ("CUT_TO_SPAN", "UnionIsTheSources", union, "project", lambda m, span, fences: project.project(m, Span(), fences)),
    ("ONE_OWNER", "UnionIsTheSources", externals, "owners", lambda pins: {}),
    ("FRESH_VIEW_IDS", "CompactionLosesNothing", union, "fresh_view_ids", lambda new_id, taken: lambda view: view.id),
    ("JOIN_TIERS", "CompactionLosesNothing", union, "tiers", copied_runs),
    ("LARGEST_SEQ", "NewWritesAreNewest", union, "union", first_seq),
    ("PIN_BY_MANIFEST", "PinsAreBounded", externals, "deduplicated", as_the_rfc_says),
    ("SOURCE_IS_FINAL", "SourcesAreKept", externals, "inherited", from_the_source),
    ("NO_GAPS", "MergingChangesNothing", merge, "adjacent", with_gaps),
    ("KEEP_ORDER", "MergingChangesNothing", merge, "sorted_by_need", lambda before, place: sorted(place, key=place.get)),
    ("MERGED_HAS_NEW_ID", "PlannedCompactionLosesNothing", merge, "fresh_view_ids", lambda new_id, taken: lambda view: view.id),
]


@pytest.mark.parametrize("knob, name, module, function, wrong", WRONG, ids=lambda one: one if isinstance(one, str) else "")
def test_code_without_a_safeguard_is_convicted(monkeypatch, knob, name, module, function, wrong):
    monkeypatch.setattr(module, function, wrong)
    story = first(name, SMALL, FUNCTIONS)
    assert story, knob
