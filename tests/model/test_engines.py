"""The fast engines visit the same states as the plain one; reductions leave out only redundant states."""

from itertools import pairwise

import pytest

from highwater.conformance.conform import model_of
from highwater.gate import boundary_peer as bp
from highwater.gate.boundary_peer import BOTH, EXACT, MERGED, MUTANTS, S1, S2, S4, SYMMETRIC
from highwater.model import core
from highwater.model.core import Bounds, Model, Process, init, moves
from highwater.model.explore import auto, plain, reductions, tabulated, wide
from highwater.model.explore.reductions import NotSymmetric, merged, merging_differs, symmetry_differs
from highwater.model.explore.walk import walk
from highwater.specs.runs import deeper, rows

SMALL = [row for row in EXACT if EXACT[row][0] <= 12_000]
BOUNDARY = [row for row in rows() if row.stem == "sequenced_metadata_boundary"]
INSTANCES = {f"BP{tuple(row[:4])}": bp.model(row) for row in SMALL[:3]} | {row.id: model_of(row) for row in BOUNDARY[:6]} | {
    row.id: model_of(deeper(row)) for row in rows() if row.id in ("store_updates", "baseline_plain", "conditional_reader")}
ENGINES = {"plain": plain.explore, "tabulated": tabulated.explore, "wide": wide.explore}


def levels(model):
    """The states at each depth: eight lines that nothing is shared with."""
    level, seen, found = [init(model)], {init(model)}, []
    while level:
        found.append(set(level))
        following = dict.fromkeys(step.state for state in level for step in moves(model, state))
        level = [state for state in following if state not in seen]
        seen.update(level)
    return found


@pytest.mark.parametrize("name", INSTANCES)
def test_engines_visit_the_same_states_at_the_same_depths(name):
    model = INSTANCES[name]
    expected = levels(model)
    w = wide.Wide(model)
    found = wide.search(w, Bounds())
    assert [{w.x.unpack(wide.packed(state, w.tables.widths)) for state in level} for level in w.levels] == expected
    for explore in (plain.explore, tabulated.explore):
        assert explore(model) == found  # counts, depth, out-degrees, what fired, what was witnessed
    assert (found.states, found.depth) == (sum(map(len, expected)), len(expected) - 1)


@pytest.mark.parametrize("name", INSTANCES)
def test_tables_have_the_edges_of_the_definition(name):
    x, edges = tabulated.graph(INSTANCES[name])
    for packed, found in edges.items():
        assert [(label, x.unpack(after)) for label, after in found] == list(moves(INSTANCES[name], x.unpack(packed)))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("row", [row for row in EXACT if EXACT[row][0] <= 2_100_000], ids=str)
def test_exact_counts(row, engine):
    if EXACT[row][0] > {"plain": 50_000, "tabulated": 500_000}.get(engine, 10**9):
        pytest.skip("minutes; bench/exploration.py does it")
    found = ENGINES[engine](bp.model(row))
    assert (found.states, found.transitions, found.depth) == EXACT[row] and found.complete


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("row", [S1, S2, S4], ids=str)
def test_exact_counts_of_the_quotients(row, engine):
    if EXACT[row][0] > {"plain": 50_000, "tabulated": 500_000}.get(engine, 10**9):
        pytest.skip("minutes")
    explore, whole = ENGINES[engine], bp.model(row)
    assert explore(whole, symmetry=True).states == SYMMETRIC[row]
    assert explore(merged(whole)).states == MERGED[row]
    assert explore(merged(whole), symmetry=True).states == BOTH[row]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_die_at_the_exact_depth(name, engine):
    constants, violated, steps, fused = MUTANTS[name]
    whole = bp.model(constants)
    for model, length in ((whole, steps), (merged(whole), fused)):
        for symmetry in (False, True):
            if engine == "plain" and (model is whole or not symmetry) and length > 16:
                continue  # some 400,000 states, one by one
            found = ENGINES[engine](model, symmetry=symmetry)
            assert (found.violated, len(found.trace) - 1) == (violated, length)
            valid(model, found.trace)


@pytest.mark.parametrize("name", ["m1", "m2"])
def test_engines_count_the_same_up_to_a_violation(name):
    """States, transitions, depth, degrees, ends, what fired: all but which of the nearest violations is told."""
    found = [explore(bp.model(MUTANTS[name][0]))._replace(trace=()) for explore in (tabulated.explore, wide.explore)]
    assert found[0] == found[1] and found[0].violated
    small = counter(9, violated_at=4)
    assert len({explore(small)._replace(trace=()) for explore in ENGINES.values()}) == 1


def valid(model, trace):
    """Each step of it is a move of the model, from the initial state on; and the last state is the first to be broken."""
    assert trace[0].state == init(model)
    for before, step in pairwise(trace):
        assert step in list(moves(model, before.state))
    assert [bool(core.broken(model, step.state)) for step in trace] == [False] * (len(trace) - 1) + [True]


# --- reductions are checked

# tests/specs/test_rows.py checks those of every model.

@pytest.mark.parametrize("row", SMALL[:3], ids=str)
def test_reductions_of_the_benchmark_agree_with_the_whole_graph(row):
    assert symmetry_differs(bp.model(row)) == "" and merging_differs(bp.model(row)) == ""
    assert symmetry_differs(merged(bp.model(row))) == ""


def forgetting(part, names):
    """Renames the writers' own updates and forgets those in the files."""
    return bp.renamed_writers(part, names) if isinstance(part, bp.Writer) else part


def losing(part, names):
    """Makes writers one, where it should make them each other."""
    return part._replace(update=(0, part.update[1])) if isinstance(part, bp.Writer) else part


@pytest.mark.parametrize("engine", ["tabulated", "wide"])
@pytest.mark.parametrize("wrong", [forgetting, losing])
def test_a_wrong_canonicaliser_is_caught(wrong, engine):
    model = bp.model(SMALL[1])._replace(renamed={"Writer": wrong, "Collector": None})
    with pytest.raises(NotSymmetric, match="Writer|rename"):
        ENGINES[engine](model, symmetry=True)
    assert symmetry_differs(model)


def test_clients_that_are_not_alike_are_caught():
    model = bp.model(SMALL[1])
    lazy = model.processes[1]._replace(actions={n: a for n, a in model.processes[1].actions.items() if n != "Reject"})
    model = model._replace(processes=(model.processes[0], lazy, *model.processes[2:]))
    with pytest.raises(NotSymmetric, match="Reject does not do the same"):
        tabulated.explore(model, symmetry=True)


def test_a_property_that_tells_clients_apart_is_caught():
    def first_writer_leads(c, s):
        return all(update[0] == 0 for file in s.files if file for update in file) or not s.acked

    model = bp.model(SMALL[1])
    with pytest.raises(NotSymmetric, match="FirstWriterLeads tells clients apart"):
        tabulated.explore(model._replace(sometimes={"FirstWriterLeads": (None, first_writer_leads)}), symmetry=True)


def test_an_action_that_others_can_see_is_not_merged_unnoticed():
    model = bp.model(SMALL[1])
    seen = model._replace(unseen={"Writer": frozenset({"ReadBoundary", "Accept", "Reject"})})
    assert "only" in merging_differs(seen)


# --- the questions that can be asked

def counter(limit, violated_at=None):
    """One process that counts, on a shared number that has no fields."""
    def step(c, me, s, local):
        if s < limit:
            yield (), s + 1, local
            yield (2,), s + 2, local

    return Model("counter", None, 0, (Process("P#0", "P", 0, (), {"Step": step}),),
                 {"Below": (None, lambda c, s: s != violated_at)}, {"Odd": (None, lambda c, s: s % 2 == 1)})


@pytest.mark.parametrize("engine", ENGINES)
def test_a_shared_part_without_fields(engine):
    found = ENGINES[engine](counter(5))
    assert (found.states, found.transitions, found.depth, found.widest, found.ends) == (7, 10, 3, 2, 2)
    assert len(ENGINES[engine](counter(5, violated_at=4)).trace) == 3


@pytest.mark.parametrize("engine", ENGINES)
def test_bounds_are_part_of_the_answer(engine):
    model, explore = bp.model(SMALL[1]), ENGINES[engine]
    for bounds, why in ((Bounds(states=100), "100 states"), (Bounds(depth=5), "depth 5"), (Bounds(bytes=1), "0 MB of memory")):
        found = explore(model, bounds=bounds)
        assert found.stopped == why and not found.complete and not found.violated and found.never == ()
    assert explore(model, bounds=Bounds(depth=5)).states == sum(map(len, levels(model)[:7]))  # the last were seen, not judged
    assert explore(model, bounds=Bounds(states=10**6, depth=10**6)).complete


def test_depth_first_visits_all_and_its_path_is_real():
    model = bp.model(SMALL[1])
    deep, broad = tabulated.explore(model, depth_first=True), tabulated.explore(model)
    assert (deep.states, deep.transitions) == (broad.states, broad.transitions) and deep.depth > broad.depth
    found = tabulated.explore(bp.model(MUTANTS["m2"][0]), depth_first=True)
    valid(bp.model(MUTANTS["m2"][0]), found.trace)
    assert len(found.trace) > MUTANTS["m2"][2]
    shallow = tabulated.explore(model, depth_first=True, bounds=Bounds(depth=6))
    assert shallow.stopped == "depth 6" and 1 < shallow.states < broad.states


def test_a_role_s_property_is_not_read_off_another_role_s_pair():
    """Both roles' locals have number 0 first: the pairs are equal as integers."""
    def tick(c, me, s, local):
        if local == 0 and s < 3:
            yield (), s + 1, 1

    model = Model("two", None, 0, (Process("A#0", "A", 0, 0, {"Tick": tick}), Process("B#0", "B", 0, 0, {"Tick": tick})),
                  {"Never": ("B", lambda c, s, local: not (s == 1 and local == 0))}, {})
    for explore in ENGINES.values():
        found = explore(model)
        assert found.violated == "Never" and found.trace[-1].label[0] == "A#0"


def test_a_state_too_wide_for_63_bits_is_said_so():
    def step(c, me, s, local):
        if local < 6:
            yield (), s, local + 1

    model = Model("wide", None, 0, tuple(Process(f"P#{i}", "P", i, 0, {"Step": step}) for i in range(40)), {}, {})
    with pytest.raises(wide.TooWide, match="wide: a state takes .* bits, more than 63"):
        wide.explore(model)
    assert tabulated.explore(model, max_states=1000).stopped


def test_more_parts_than_bits_are_said_so():
    """One bit for each of 64 parts is already one too many."""
    model = Model("many", None, 0, tuple(Process(f"P#{i}", "P", i, 0, {}) for i in range(63)), {}, {})
    with pytest.raises(wide.TooWide, match="many: a state takes 64 bits, more than 63"):
        wide.explore(model)


def test_wide_refuses_tables_beyond_its_bound(monkeypatch):
    monkeypatch.setattr(wide, "CELLS", 10_000)
    monkeypatch.setattr(auto, "SMALL", 100)
    with pytest.raises(wide.TooWide, match=r"shared parts and .* pairs, .* take the tabulated engine"):
        wide.explore(bp.model(S1))
    assert auto.explore(bp.model(S1)) == tabulated.explore(bp.model(S1))


@pytest.mark.parametrize("small", [100, 10**9])
def test_auto_counts_what_both_engines_count(monkeypatch, small):
    monkeypatch.setattr(auto, "SMALL", small)
    for model in (bp.model(SMALL[-1]), bp.model(MUTANTS["m2"][0])):
        assert auto.explore(model)._replace(trace=()) == tabulated.explore(model)._replace(trace=())
    stopped = auto.explore(bp.model(SMALL[-1]), Bounds(states=500))
    assert stopped.stopped == "500 states"


def test_what_never_fired_is_named():
    model = model_of(BOUNDARY[0])
    assert ("Writer", "SendCreate") in tabulated.explore(model).idle(model)
    assert ("Writer", "CreateNext") not in tabulated.explore(model).idle(model)


# --- random walks

def test_walks_are_the_seeds_and_their_end_is_a_real_trace():
    model = bp.model(MUTANTS["m1"][0])
    one, same, other = [walk(model, seed, walks=20_000, steps=60) for seed in (1, 1, 2)]
    assert one == same and one.trace != other.trace
    assert one.violated == MUTANTS["m1"][1]
    valid(model, one.trace)


def test_walks_take_every_action_and_no_more_than_was_asked():
    model = bp.model(S1)
    found = walk(model, walks=9_000, steps=80)
    assert found.walks == 9_000 and found.longest <= 80 and found.steps <= 9_000 * 80 and not found.violated
    assert found.fired == tabulated.explore(model).fired


def test_no_walk_of_a_model_without_moves():
    assert walk(counter(0)).steps == 0


# --- what an action read

def test_an_answer_is_kept_under_what_was_read():
    asked = []

    def step(c, me, s, local):
        if local == 0:
            asked.append(s.boundary)
            if s.boundary < 3:
                yield (), s._replace(boundary=s.boundary + 1), local

    def noise(c, me, s, local):
        if len(s.acked) < 5:
            yield (), s._replace(acked=s.acked | {len(s.acked)}), local

    model = Model("reads", None, bp.Shared((None,)), (Process("P#0", "P", 0, 0, {"Step": step, "Noise": noise}),), {}, {})
    found = tabulated.explore(model)
    assert found.states == 4 * 6 and sorted(asked) == [0, 0, 1, 2, 3]  # the first answer is checked


def test_a_state_taken_as_a_whole_counts_as_read():
    def step(c, me, s, local):
        if s != bp.Shared((None,), 2) and hash(s) is not None and len(s) == 4 and s[1] < 4 and s in {s}:
            yield (), bp.Shared(*s)._replace(boundary=s.boundary + 1), local

    def noise(c, me, s, local):
        if len(s.acked) < 2:
            yield (), s._replace(acked=s.acked | {len(s.acked)}), local

    model = Model("reads", None, bp.Shared((None,)), (Process("P#0", "P", 0, 0, {"Step": step, "Noise": noise}),), {}, {})
    assert tabulated.explore(model) == plain.explore(model) == wide.explore(model)


def test_clients_that_no_part_names_take_each_place_once():
    """So many turns, and not every order: eleven readers have 40 million."""
    model = model_of(BOUNDARY[0])
    roles = {"Writer": 3, "Collector": 2, "Reader": 11}
    processes = tuple(Process(f"{role}#{i}", role, i, (), {}) for role, n in roles.items() for i in range(n))
    model = model._replace(processes=processes, renamed={"Writer": lambda part, names: part, "Collector": None, "Reader": None})
    symmetry = reductions.Symmetry(tabulated.Explorer(model))
    assert len(symmetry.all) == 6 * 11 - 1 and len(symmetry.named) == 6
    for role in roles:
        places = reductions.clients(model, role)
        assert {(p, place[p]) for _, _, place in symmetry.all for p in places} == {(p, q) for p in places for q in places}


def test_group_is_every_renaming():
    assert len(reductions.group(bp.model(S2))) == 4
