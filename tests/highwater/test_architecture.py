"""ARCHITECTURE.md: its picture is the import graph, and its table lists every room."""

import pytest

from bench import architecture
from bench.architecture import NODES, PAGE, edges, reduced, written


def test_the_page_is_current():
    text = PAGE.read_text()
    assert written(text) == text, "run `python -m bench.architecture`"


def test_the_picture_has_every_import():
    """Every import between two nodes is an arrow of the picture, or a way along its arrows."""
    arrows = {tuple(line.split(" --> ")) for line in map(str.strip, PAGE.read_text().splitlines()) if " --> " in line}
    assert arrows == reduced(edges()) and {node for arrow in arrows for node in arrow} <= set(NODES)
    ways = set(arrows)
    while more := {(a, d) for a, b in ways for c, d in arrows if b == c} - ways:
        ways |= more
    assert edges() <= ways


def test_a_cycle_is_noticed():
    with pytest.raises(ValueError, match="cli, tools"):
        reduced({("cli", "tools"), ("tools", "cli"), ("cli", "impl")})


def test_an_import_is_noticed(tmp_path, monkeypatch):
    for folder in ("impl", "dst"):
        (tmp_path / folder).mkdir()
    (tmp_path / "impl" / "a.py").write_text("from highwater.dst.simulate import simulate\n")
    (tmp_path / "dst" / "a.py").write_text("import highwater.impl.world\nfrom highwater import __version__\n")
    monkeypatch.setattr(architecture, "ROOT", tmp_path)
    assert edges() == {("impl", "dst"), ("dst", "impl")}
