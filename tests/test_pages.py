"""What the docs generate is what they say."""

import pytest

from bench.min_age import harmed
from bench.pages import PARTS, main, with_part


@pytest.mark.parametrize("name", [name for name in PARTS if name != "min_age"])
def test_part_is_current(name, capsys):
    assert main([name, "--check"]) == 0, capsys.readouterr().out


def test_a_stale_part_is_noticed():
    text = "a\n<!-- generated: x -->\nold\n<!-- end -->\nb\n"
    assert with_part(text, "x", "new\n") == text.replace("old", "new")
    with pytest.raises(ValueError, match="'y'"):
        with_part(text, "y", "")


def test_the_plot_tells_the_truth_in_small():
    assert harmed(("min_age alone", 400, 90)) > harmed(("min_age alone", 12800, 90)) > 0
    assert harmed(("with the boundary", 50, 90)) == harmed(("with the boundary", 400, 90)) == 0
