"""Tests, and CI's command, run in an environment of their own: variables that are not listed are absent."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import boto3
import pytest

from tests.conftest import KEPT, NO_FILES, OURS

ROOT = Path(__file__).resolve().parents[2]
STRANGE = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "3", "AWS_PROFILE": "theirs",
           "LC_ALL": "C", "AWS_ENDPOINT_URL": "theirs", "SPARK_HOME": "/theirs", "JAVA_TOOL_OPTIONS": "-Dtheirs",
           "GIT_DIR": "/theirs", "COLUMNS": "7", "FORCE_COLOR": "1", "GODEBUG": "theirs", "PIP": "theirs"}
FETCHING = {"PIP_CERT": "a", "GOPROXY": "b", "https_proxy": "c", "HTTPS_PROXY": "d", "SSL_CERT_FILE": "e", "CI": "1"}


OF_A_SERVER = {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_DEFAULT_REGION"}  # set while a test server runs


# What a test run begins with. This process may hold more by now: pyspark and test servers set variables of their own.
AT_FIRST = [sys.executable, "-c", "import json, os, tests.conftest; print(json.dumps(dict(os.environ)))"]


def test_what_the_caller_has_set_is_dropped_before_a_test_sees_it():
    done = subprocess.run(AT_FIRST, cwd=ROOT, env=os.environ | STRANGE | FETCHING, capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout)
    assert not [name for name in seen if not KEPT.fullmatch(name) and name not in OURS | NO_FILES]
    assert not set(STRANGE) & set(seen) and FETCHING.items() <= seen.items()
    assert seen["LANG"] == "C.UTF-8"


@pytest.mark.skipif("HIGHWATER_S3_ENDPOINT" in os.environ, reason="the settings of AWS are those of the server that it names")
def test_no_settings_of_aws_come_from_the_home_folder(tmp_path, monkeypatch):
    (tmp_path / ".aws").mkdir()
    for name, section in (("credentials", "default"), ("config", "default")):
        (tmp_path / ".aws" / name).write_text(f"[{section}]\naws_access_key_id = a\naws_secret_access_key = b\nregion = c\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in OF_A_SERVER:
        monkeypatch.delenv(name, raising=False)
    session = boto3.Session()
    assert session.get_credentials() is None and session.region_name is None
    for name in NO_FILES:
        monkeypatch.delenv(name)
    assert boto3.Session().region_name == "c"


def test_steps_of_workflows_are_make_targets():
    """Every step of a workflow can be run here. project.yml is for repositories of users, which have no Makefile."""
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    steps = [(path.name, line) for path in (ROOT / ".github" / "workflows").glob("*.yml") if path.name != "project.yml"
             for line in re.findall(r"^\s*(?:- )?run:\s*(.*)$", path.read_text(), re.MULTILINE)]
    assert steps
    for name, line in steps:
        assert re.fullmatch(r"make ([a-z-]+)", line) and line.removeprefix("make ") in targets, f"{name}: {line}"


def test_the_command_of_ci_begins_with_an_empty_environment(tmp_path):
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "make $*"\nenv\n')
    make.chmod(0o755)
    env = STRANGE | FETCHING | {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "PIP_TEXT": "two words\nand a line"}
    done = subprocess.run([str(ROOT / ".ci" / "run")], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    nothing, *environments = re.split("make (?:prepare|plan|interop|test)\n", done.stdout)
    assert re.findall("^make (.*)", done.stdout, re.MULTILINE) == ["prepare", "plan", "interop", "test"]
    assert nothing == "" and len({*environments}) == 1
    suite = environments[0]
    assert "PIP_TEXT=two words\nand a line\n" in suite
    seen = {line.partition("=")[0] for line in suite.splitlines() if "=" in line}
    assert set(FETCHING) | {"HOME", "LANG", "PATH", "PIP_TEXT"} == seen - {"PWD", "SHLVL", "_", "OLDPWD"}  # bash's own
    assert "LANG=C.UTF-8" in suite.splitlines()
