"""The public API: the names that `highwater` exports lazily, and the page that describes them."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import highwater
from bench import api

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_current():
    assert api.main(["--check"]) == 0, "run: python -m bench.api"


def test_a_stale_page_is_noticed(monkeypatch, tmp_path):
    (tmp_path / "api.md").write_text(api.page().replace("### Model", "### Modell"))
    monkeypatch.setattr(api, "PAGE", tmp_path / "api.md")
    assert api.main(["--check"]) == 1


def test_each_public_name_is_exported_typed_and_on_the_page():
    tree = ast.parse(Path(highwater.__file__).read_text())
    (typed,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for node in ast.walk(typed) if isinstance(node, ast.ImportFrom)]
    imported = {(node.module, alias.name) for node in imports for alias in node.names}
    assert imported == {(module, name) for name, module in highwater.MODULE.items()}
    assert highwater.__all__ == list(highwater.MODULE)
    assert {module for modules in api.SECTIONS.values() for module in modules} == set(highwater.PLACES)


@pytest.mark.parametrize("name", highwater.__all__)
def test_a_public_name_is_there_and_says_what_it_is(name):
    value = getattr(highwater, name)
    assert value is getattr(sys.modules[highwater.MODULE[name]], name)
    assert name in dir(highwater)
    doc = value.__doc__ or ""
    assert doc and not doc.startswith(f"{name}("), "it has a docstring of its own"


@pytest.mark.parametrize("module", api.OWN)
def test_a_module_for_a_protocol_of_ones_own_has_its_names(module):
    found = import_module(f"highwater.{module}")
    assert found.__doc__ and not [name for name in api.OWN[module] if not hasattr(found, name)]


@pytest.mark.parametrize("name", ["below", "pooled", "clients", "update_of", "_told_of", "_crashed", "_no_action", "end",
                                  "write_one_by_one", "raise_anomalies"])
def test_the_page_says_what_the_functions_of_a_protocol_of_ones_own_do(name):
    assert re.search(rf"^ *- `{name}\([^)]*\)`: [A-Z]\w+ \w+", api.PAGE.read_text(), re.M)


def test_a_protocol_of_ones_own_imports_what_the_page_lists():
    promised = {f"highwater.{name}" for name in highwater.MODULE} | {
        f"highwater.{module}.{name}" for module, names in api.OWN.items() for name in names}
    promised |= {"highwater.traces.trace", "highwater.model.proofs.engine.inductive"}
    projects = (ROOT / "tests" / "highwater" / "register", ROOT / "highwater" / "skeleton", ROOT / "examples" / "lease",
                ROOT / "examples" / "table")
    nodes = [node for folder in projects for path in folder.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    asked = {f"{node.module}.{alias.name}" for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert len(asked) > 20 and {name for name in asked if name.startswith("highwater")} <= promised


def test_what_is_not_public_is_refused():
    with pytest.raises(AttributeError, match="nobody"):
        _ = highwater.nobody


def test_importing_the_package_loads_nothing_else():
    program = "import sys, highwater; print([name for name in sys.modules if name.startswith('highwater.') or name == 'numpy'])"
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"


def test_rooms_export_their_own_names():
    from highwater.impl import ObjectStore
    from highwater.model import Model
    from highwater.traces import Event

    assert (ObjectStore, Model, Event) == (highwater.ObjectStore, highwater.Model, highwater.Event)
