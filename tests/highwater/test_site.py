"""The site of the pages: every page is in its navigation, and a link to nothing fails the build."""

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from bench import site
from tests.highwater.test_english import tracked

ROOT = Path(__file__).resolve().parents[2]
LIVE = ("explorer.html", "timeline.html", "campaign.html", "cost.html")


@pytest.fixture(scope="module")
def conf() -> ModuleType:
    spec = spec_from_file_location("conf", ROOT / "docs" / "conf.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def sphinx(source: Path, out: Path, builder: str, *options: str) -> subprocess.CompletedProcess:
    """Build as `make site` does, but into another folder."""
    return subprocess.run([sys.executable, "-m", "sphinx", "-qEW", "--keep-going", "-b", builder, "-c", ROOT / "docs", "-d",
                           out / "read", *options, source, out / "built"], cwd=ROOT, capture_output=True, text=True,
                          env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "HIGHWATER_REPOSITORY": "https://example.org/r/"})


def test_pages_build_without_a_warning(tmp_path):
    result = sphinx(ROOT, tmp_path, "dummy")
    assert (result.returncode, result.stderr) == (0, "")


def test_build_refuses_dead_links_and_unlisted_pages(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "first.md").write_text(
        "# First\n\n[file](nothing.md), [anchor](other.md#nothing), [own](#nothing)\n\n"
        "[code](../impl/world.py), [folder](../impl)\n")
    (tmp_path / "docs" / "other.md").write_text("# Other\n")
    result = sphinx(tmp_path, tmp_path, "html", "-D", "root_doc=docs/first")
    assert result.returncode == 1
    for refused in ("not found: 'nothing.md'", "in doc 'docs/other': 'nothing'", "not found: 'nothing'",
                    "other.md: WARNING: document isn't"):
        assert refused in result.stderr
    assert result.stderr.count("WARNING") == 4
    built = (tmp_path / "built" / "docs" / "first.html").read_text()
    assert 'href="https://example.org/r/blob/HEAD/impl/world.py"' in built
    assert 'href="https://example.org/r/tree/HEAD/impl"' in built


def test_faults_name_dead_links_and_foreign_files(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="here"></h1><a href="#here">1</a><a href="https://example.org/x">2</a><a href="b.html">3</a>'
        '<a href="#there">4</a><a href="a.html#there">5</a><img src="c.png"><script src="https://example.org/s.js"></script>'
        '<style>@import "//example.org/t.css";</style><link href="s.css">')
    (tmp_path / "s.css").write_text("body { background: url(https://example.org/i.png) url(data:x) }")
    assert list(site.faults(tmp_path)) == [
        "a.html loads https://example.org/s.js", "a.html loads //example.org/t.css", "a.html: b.html: there is no such file",
        "a.html: #there: the page has no such anchor", "a.html: a.html#there: the page has no such anchor",
        "a.html: c.png: there is no such file", "s.css loads https://example.org/i.png"]


def test_navigation_holds_every_page_in_order(conf):
    listed = re.findall(r"^/(.*)$", conf.navigation(), re.MULTILINE)
    written = [path.relative_to(ROOT).with_suffix("").as_posix()
               for path in tracked("*.md") if path.parent == ROOT or path.is_relative_to(ROOT / "docs")]
    assert not {*written} - {*listed, conf.root_doc}
    assert listed[0] == conf.INDEX
    of_folders = [listed.index(f"docs/{page}") for page in (
        "guide/project", "operating/slatedb", "protocols/baseline", "checking/checking", "simulation/zoo")]
    assert of_folders == sorted(of_folders)


def test_every_arrow_of_a_flowchart_is_a_row(conf):
    charts = [chart for path in tracked("*.md") for chart in conf.FLOWCHART.findall(path.read_text())]
    assert charts
    for chart in charts:
        assert conf.as_table(chart).count("\n") - 2 == len(re.findall(r"-->|\.->", chart))
    assert conf.as_table('flowchart TD\n    a["x: y"] -->|"by z"| b[("w")]\n    b -. "v" .-> a\n') == (
        "| from | to | how |\n| --- | --- | --- |\n| x: y | w | by z |\n| w | x: y | v |\n")


def test_live_examples_have_a_command_and_a_link(conf):
    text = (ROOT / "docs" / "examples.md").read_text()
    source = [text]
    conf.add_what_the_site_needs(None, conf.EXAMPLES, source)
    assert re.findall(r'<a href="\.\./examples/(.*?)">', source[0]) == list(LIVE)
    commands = "\n".join(site.COMMANDS.findall(text))
    assert re.findall(r"out/examples/([\w-]+\.html)", commands) == list(LIVE)
