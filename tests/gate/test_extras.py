"""The command that installs a missing extra, for each way in which highwater may have been installed (PEP 610)."""

import json
import shlex
import sys
from importlib.metadata import requires

import pytest

from highwater.gate import extras
from tests.support.installed import ROOT

INDEX = "pip install 'highwater-verify[spark]'"


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a function that installs highwater's metadata: with this direct_url.json, and with `pip` beside this Python."""
    def install(origin: dict | None) -> None:
        (tmp_path / "pip").touch(mode=0o755)
        info = tmp_path / "highwater_verify-9.9.dist-info"
        info.mkdir()
        lines = [f"Requires-Dist: {line}" for line in requires("highwater-verify") or []]
        (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", "Name: highwater-verify", "Version: 9.9", *lines]))
        if origin is not None:
            (info / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    return install


def command_for(module: str) -> str:
    return extras.install_command(ModuleNotFoundError("", name=module))


@pytest.mark.parametrize("origin, words", [
    (None, ["highwater-verify[spark]"]),
    ({"dir_info": {"editable": True}, "url": "file:///a%20b/c"}, ["-e", "/a b/c[spark]"]),
    ({"dir_info": {}, "url": "file:///a/c"}, ["highwater-verify[spark] @ file:///a/c"]),
    ({"archive_info": {"hash": "x"}, "url": "file:///a/b.whl"}, ["highwater-verify[spark] @ file:///a/b.whl"]),
    ({"vcs_info": {"vcs": "git", "commit_id": "abc"}, "url": "https://a.example/b"},
     ["highwater-verify[spark] @ git+https://a.example/b@abc"]),
], ids=["index", "checkout", "folder", "wheel", "git"])
def test_install_command_follows_the_installation(installed, origin, words):
    installed(origin)
    assert shlex.split(command_for("duckdb")) == ["pip", "install", *words]


@pytest.mark.parametrize("module, extra", [
    ("pyarrow.parquet", "spark"), ("jdk", "spark"), ("py4j", "spark"), ("z3", "proofs"), ("botocore", "s3"), ("grpc", "index"),
    ("google_crc32c", "index"), ("lmdb", "index"), ("hypothesis", "dev"),
])
def test_install_command_names_the_extra_of_a_module(installed, module, extra):
    installed(None)
    assert command_for(module) == f"pip install 'highwater-verify[{extra}]'"


@pytest.mark.parametrize("module", ["google.protobuf", "re2", "ulid", "numpy"])
def test_install_command_restores_a_library_of_the_core(installed, module):
    installed(None)
    assert command_for(module) == "pip install highwater-verify"


def test_install_command_is_empty_for_an_unknown_module(installed):
    installed(None)
    assert command_for("nobody") == command_for("") == command_for("highwater") == ""


def test_install_command_is_for_the_python_that_runs(installed, tmp_path, monkeypatch):
    installed(None)
    elsewhere = tmp_path / "other" / "python"
    monkeypatch.setattr(sys, "executable", str(elsewhere))
    assert command_for("duckdb") == INDEX.replace("pip", f"{elsewhere} -m pip", 1)


def test_install_command_of_this_checkout_installs_it_editable():
    assert shlex.split(command_for("duckdb"))[-2:] == ["-e", f"{ROOT}[spark]"]
