"""Spec and model are equal as graphs, and it is noticed when they are not."""

import pytest

from cli.conform import choice_variables, conform, model_of
from model import sequenced_metadata_boundary as protocol
from model.core import explore, graph
from specs.fizz import Fizz, FizzMissing
from specs.manifest import rows

ROWS = {row.id: row for row in rows()}
SMALL = ["fault_pages", "status_quo"]


@pytest.fixture(scope="module")
def fizz():
    try:
        return Fizz.find()
    except FizzMissing as error:
        pytest.skip(f"FizzBee is missing, spec and model are NOT compared: {error}")


@pytest.mark.parametrize("name", [*SMALL, "cached_boundary", "reads_not_checked"])
def test_row_is_as_the_manifest_says(name, fizz):
    result = conform(ROWS[name], fizz)
    assert result.ok, result.message


def edited(row, action, role, change):
    """The row's model with one action of one role in other words."""
    model = model_of(row)
    processes = tuple(p._replace(actions={**p.actions, action: change(p.actions[action])}) if p.role == role else p
                      for p in model.processes)
    return model._replace(processes=processes)


def test_one_guard_edited_is_a_difference(fizz):
    def later(delete):
        """Deletes only what is truly behind the boundary."""
        return lambda c, me, s, g: (move for move in delete(c, me, s, g) if move[0][0] < g.b)

    row = ROWS["fault_pages"]
    model = edited(row, "Delete", "Collector", later)
    result = conform(row._replace(states=len(graph(model)[1]), never=explore(model).never), fizz, model)
    assert not result.ok and result.kind == "spec"
    assert "only FizzBee has     Collector#0.Delete(1,)" in result.message


def test_one_effect_edited_is_a_difference(fizz):
    def forgetful(read):
        return lambda c, me, s, w: ((choices, s2, w2._replace(base=protocol.NO_FILE)) for choices, s2, w2 in read(c, me, s, w))

    row = ROWS["fault_pages"]
    model = edited(row, "ReadLatest", "Writer", forgetful)
    result = conform(row, fizz, model)
    assert not result.ok


def test_a_wrong_count_or_verdict_in_the_manifest_is_noticed(fizz):
    row = ROWS["fault_pages"]
    assert "the manifest says 470" in conform(row._replace(states=470), fizz).message
    assert not conform(row._replace(expect="FAILED", violates="LatestIsKept"), fizz).ok
    assert not conform(row._replace(never=()), fizz).ok


def test_choices_are_named_as_in_the_spec():
    variables = choice_variables(ROWS["plain"].path.read_text())
    assert variables["Writer", "CreateNext"] == ["pin"] and variables["Collector", "Advance"] == ["d"]
    assert variables["", "ApplyPending"] == ["r"]


def test_manifest_is_checked(tmp_path):
    bad = tmp_path / "manifest.toml"
    bad.write_text('[[run]]\nid = "x"\nspec = "S"\nhow = "grpah"\nexpect = "PASSED"\nstates = 1\n')
    with pytest.raises(ValueError, match="run x: how = 'grpah'"):
        rows(bad)
    bad.write_text('[[run]]\nid = "x"\nspec = "S"\nhow = "graph"\nexpect = "FAILED"\nstates = 1\n')
    with pytest.raises(ValueError, match="violates where"):
        rows(bad)
    bad.write_text('[[run]]\nid = "x"\nspec = "S"\nhow = "graph"\n')
    with pytest.raises(ValueError, match="run 1"):
        rows(bad)
