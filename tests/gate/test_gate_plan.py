"""`highwater verify --plan` lists every check that the gate skips, and the reason that the check's row has."""

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from highwater.cli.verify import all_protocols, checks_of
from highwater.gate.sizes import DEEP
from highwater.gate.tools import TOOLS
from highwater.specs.fizzbee.run import build_module
from tests.support.installed import ROOT

OPTIONAL = ("duckdb", "jdk", "pandas", "py4j", "pyarrow", "pyspark", "z3", "boto3", "botocore", "google_crc32c", "grpc", "lmdb",
            "hypothesis")  # libraries of extras that the core does not need
PREFIX = {"fizzbee": "fizzbee-", "versitygw": "s3-versitygw-", "java": "jdk-"}  # of a tool's folder in the cache
ABSENT = '''
    """Make libraries absent from every Python process that starts with this folder on its path."""

    import os
    import sys


    class Absent:
        libraries = set(os.environ["ABSENT"].split())

        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in self.libraries:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)


    sys.meta_path.insert(0, Absent())
'''
COMPARED = '''
    """Print the plan, and the messages of the rows that are skipped: of those in the plan, and of others that are cheap."""

    import json
    import sys

    from highwater.cli.verify import all_protocols, checks_of
    from highwater.gate import tools
    from highwater.gate.protocols import dlq_recovery
    from highwater.gate.run import ran
    from highwater.gate.sizes import GATE

    size = GATE._replace(seeds=20, compared=20)
    checks = [check for name in all_protocols() for check in checks_of(name, size)] + [*dlq_recovery.deep_checks()]
    plan = {check.name: reason for check, reason in tools.skipped(checks)}
    others = [check for check in checks if check.protocol == "baseline" and check.part in sys.argv[1:]]
    tried = [check for check in checks if check.name in plan] + [check for check in others if check.name not in plan]
    rows = [done.row for done in ran([*enumerate(tried)], 2)]
    assert len(rows) > len(plan) or not others
    skipped = {", ".join(row[:3]): row.message for row in rows if row.verdict == "skipped"}
    print(json.dumps([plan, skipped, sorted({row[1] for row in rows if row.verdict == "skipped"})]))
'''
IMPORTS = '''
    """Print the libraries that functions of checks import in their bodies, and that the checks do not name."""

    import ast
    import inspect
    import json
    import sys
    from importlib import import_module

    from sitecustomize import Absent

    wrong = []
    for module, name, names in json.loads(sys.argv[1]):
        Absent.libraries -= {*names}
        function = getattr(import_module(module), name)
        for node in ast.walk(ast.parse(inspect.getsource(function))):
            try:
                if isinstance(node, ast.ImportFrom):
                    __import__(node.module, fromlist=[alias.name for alias in node.names])
                elif isinstance(node, ast.Import):
                    [import_module(alias.name) for alias in node.names]
            except ModuleNotFoundError as error:
                wrong.append([name, error.name])
    print(json.dumps(wrong))
'''


def answer(folder: Path, program: str, libraries: tuple[str, ...], *words: str, **environment: str) -> list:
    """Run a program in a process without these libraries. Return what it prints, which is JSON."""
    (folder / "sitecustomize.py").write_text(dedent(ABSENT))
    path = os.pathsep.join([str(folder), str(ROOT)])
    command = [sys.executable, "-c", dedent(program), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300,
                          env=os.environ | {"PYTHONPATH": path, "ABSENT": " ".join(libraries)} | environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("absent, others, parts", [
    ({"fizzbee"}, (), {"spec", "simulation"}),
    ({"versitygw"}, (), {"story"}),
    ({"java"}, (), {"campaign", "story"}),
    ({"z3"}, (), {"proof"}),
    ({*PREFIX, *OPTIONAL}, ("simulation", "checker", "spec"), {"spec", "simulation", "story", "campaign", "proof"}),
], ids=["fizzbee", "versitygw", "java", "z3", "everything"])
def test_plan_lists_each_row_that_is_skipped(tmp_path, absent, others, parts):
    cache, bare = tmp_path / "cache", tmp_path / "bin"
    cache.mkdir()
    bare.mkdir()
    for built in build_module().cache().iterdir():
        if built.is_dir() and not built.name.startswith(tuple(PREFIX[tool] for tool in absent if tool in PREFIX)):
            (cache / built.name).symlink_to(built)
    java = {"PATH": str(bare), "JAVA_HOME": ""} if "java" in absent else {}
    libraries = tuple(absent & {*OPTIONAL})
    plan, skipped, found = answer(tmp_path, COMPARED, libraries, *others, HIGHWATER_CACHE=str(cache), **java)
    assert skipped == plan and all(plan.values()) and {*found} == parts


def functions() -> list[tuple[str, str, tuple[str, ...]]]:
    """Return the module, the name and the tools of each check's function; those with the fewest tools first."""
    found = {(*check.function, check.tools) for name in all_protocols() for check in checks_of(name, DEEP)}
    return sorted(found, key=lambda function: (len(function[2]), function))


def test_checks_name_each_library_that_they_import(tmp_path):
    assert answer(tmp_path, IMPORTS, OPTIONAL, json.dumps(functions())) == []
    unnamed = [(module, name, ()) for module, name, tools in functions() if {"z3", "pyspark"} & {*tools}]
    assert {"unrolled", "spans", "inherits", "on_spark"} <= {name for name, _ in answer(tmp_path, IMPORTS, OPTIONAL,
                                                                                     json.dumps(unnamed))}


def test_make_builds_every_tool():
    """A tool that a row needs and that a program of ours builds is built by each target that runs or plans rows."""
    programs = {tool.build for tool in TOOLS.values() if tool.build}
    for target in ("verify", "verify-deep", "plan", "test"):
        done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True, check=True)
        assert [program for program in programs if program not in done.stdout] == []
