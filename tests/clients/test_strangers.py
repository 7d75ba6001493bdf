"""The shelf of other programs and servers: what says how each is run, and what becomes of one that cannot be installed."""

import json
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

from highwater.clients.maps import maps_of

STRANGERS = Path(__file__).parents[2] / "strangers"


def loaded(path: str) -> ModuleType:
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location(f"highwater_{path.replace('/', '_')}", STRANGERS / path / "run.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SHELF, STORES = loaded("."), loaded("stores")


def test_each_release_has_a_command_and_is_pinned():
    found = SHELF.strangers()
    assert {"slatedb 0.13.1", "slatedb 0.17.0", "lance 14.0.2"} <= {one.title for one in found}
    for one in found:
        assert all("==" in text and "{" not in text for text in one.of["requirements"]), one.title
        words = SHELF.command(one, "PYTHON", STRANGERS)
        assert words[words.index("--") + 1] == "PYTHON" and {"--check", "--setup", "--pairs"} <= {*words}
        assert (STRANGERS / one.name / "client.py").exists()
        assert maps_of(words[at + 1] for at, word in enumerate(words) if word == "--map") is not None


def test_a_field_that_nobody_reads_is_refused(monkeypatch, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/stranger.toml").write_text("requirements = ['a==1']\nsetups = 'x'\n")
    monkeypatch.setattr(SHELF, "HERE", tmp_path)
    with pytest.raises(ValueError, match="unknown: setups; there are check, command"):
        SHELF.strangers()


@pytest.mark.parametrize("module", [SHELF, STORES], ids=["clients", "stores"])
def test_an_unknown_name_is_refused(module, capsys):
    assert module.main(["raft"]) == 2 and "raft; there are " in capsys.readouterr().err


def test_one_that_cannot_be_installed_stops_no_other(monkeypatch, capsys, tmp_path):
    asked = []

    def environment(one):
        asked.append(one.title)
        raise subprocess.CalledProcessError(1, "pip")

    monkeypatch.setattr(SHELF, "environment", environment)
    monkeypatch.setattr(SHELF, "VERDICTS", tmp_path / "verdicts.json")
    assert SHELF.main(["slatedb"]) == 3 and len(asked) == 4
    assert "slatedb 0.15.0 cannot be installed" in capsys.readouterr().err and not (tmp_path / "verdicts.json").exists()


def test_each_server_is_pinned_and_can_be_installed():
    for name, of in STORES.stores().items():
        pins = [of[kind] for kind in STORES.INSTALL if kind in of]
        assert len(pins) == 1 and of["version"] in str(pins[0]) and "{port}" in of["start"], name


def test_the_verdicts_are_of_what_is_on_the_shelf():
    assert json.loads(SHELF.VERDICTS.read_text()).keys() == {one.title for one in SHELF.strangers()}
    assert {name: of["version"] for name, of in json.loads(STORES.VERDICTS.read_text()).items()} == {
        name: of["version"] for name, of in STORES.stores().items()}
