"""`make dist`: each of its checks refuses what it is there for. Installing from an index is left to `make dist` itself."""

import re
from pathlib import Path

import pytest

from bench import dist
from highwater import __version__
from highwater.gate.exits import INCOMPLETE

CHANGELOG = (dist.ROOT / "CHANGELOG.md").read_text()
PROJECT = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "small"
version = "1"
readme = "README.md"
[tool.setuptools]
packages = ["small"]
[tool.setuptools.package-data]
small = ["*.txt"]
"""


def small(folder: Path, **files: str) -> Path:
    """Write a distribution with a data file."""
    for name, text in {"pyproject.toml": PROJECT, "README.md": "# small\n", "small/__init__.py": "", "small/data.txt": "1",
                       **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_wheel_of_a_complete_source_distribution_is_accepted(tmp_path):
    wheel = dist.build_both(small(tmp_path / "source"), tmp_path / "out")
    assert "small/data.txt" in dist.contents(wheel)
    dist.check_rendering(tmp_path / "out")


def test_source_distribution_without_a_data_file_is_refused(tmp_path):
    source = small(tmp_path / "source", **{"MANIFEST.in": "exclude small/data.txt\n"})
    with pytest.raises(dist.CheckFailed, match=r"small/data\.txt"):
        dist.build_both(source, tmp_path / "out")


def test_long_description_that_is_empty_is_refused(tmp_path):
    dist.build_both(small(tmp_path / "source", **{"README.md": ""}), tmp_path / "out")
    with pytest.raises(dist.CheckFailed, match="long_description"):
        dist.check_rendering(tmp_path / "out")


def test_tag_of_another_version_is_refused():
    dist.check_tag(f"v{__version__}", f"## [{__version__}] - 2026-01-02\n")
    with pytest.raises(dist.CheckFailed, match=re.escape(f"the version in highwater/__init__.py is {__version__}")):
        dist.check_tag("v9.9.9", CHANGELOG)
    with pytest.raises(dist.CheckFailed, match="no section"):
        dist.check_tag(f"v{__version__}", "## [Unreleased]\n")


def test_changelog_has_the_version_and_short_sections():
    dist.check_tag(f"v{__version__}", CHANGELOG)
    for section in CHANGELOG.split("\n## ")[1:]:
        assert len(section.splitlines()) <= 60, section.splitlines()[0]


@pytest.mark.parametrize("repository, shown", [
    ("https://a.example/b", f"[a](https://a.example/b/blob/v{__version__}/docs/a.md#b) [c](https://c.example) [d](#d) "
                            f"![e](https://a.example/b/raw/v{__version__}/e.png)"),
    ("", "a [c](https://c.example) [d](#d) "),
])
def test_long_description_has_no_relative_link(repository, shown):
    assert dist.long_description("[a](docs/a.md#b) [c](https://c.example) [d](#d) ![e](e.png)", repository) == shown
    readme = dist.long_description((dist.ROOT / "README.md").read_text(), repository)
    assert not re.findall(r"\]\((?!https://|#)[^)]*\)|(?:src|srcset|href)=\"(?!https://|#)[^\"]*\"", readme)


def test_locked_keeps_the_hashes_of_the_named_distributions():
    lock = "a==1 \\\n    --hash=sha256:0\nb-c==2 ; x \\\n    --hash=sha256:1\nd==3\n"
    assert dist.locked(lock, {"B.C"}) == "b-c==2 ; x \\\n    --hash=sha256:1"


def test_missing_version_of_python_makes_dist_incomplete(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dist, "OUT", tmp_path / "out")
    monkeypatch.setattr(dist, "copy_sources", small)
    assert dist.main(["0.1"]) == INCOMPLETE
    assert "Python 0.1 is not installed" in capsys.readouterr().err
    assert dist.main(["--tag", "v9.9.9", "0.1"]) == 1
