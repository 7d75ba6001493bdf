"""The machinery names no protocol: no module of its rooms holds a stem as a string, a name or an import."""

import ast
import re
from pathlib import Path

import pytest

from highwater.dst.scenarios import STEMS

ROOT = Path(__file__).resolve().parents[2]
MACHINERY = ("traces/*.py", "traces/histories/*.py", "traces/explain/*.py", "traces/damage/*.py", "traces/recorded/*.py",
             "traces/protocols/__init__.py", "traces/damage/protocols/__init__.py", "dst/verdict.py", "dst/bulk/*.py",
             "highwater/cli/trace/*.py")
MODULES = [path for pattern in MACHINERY for path in sorted(ROOT.glob(pattern))]
STEM = re.compile(rf"(?<![a-z0-9])(?:{'|'.join(STEMS)})(?![a-z0-9])")


def texts(tree: ast.AST) -> list[str]:
    """All strings, names and imports of a module."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found.append(node.module or "")
        values = (getattr(node, field, "") for field in ("value", "id", "attr", "name", "arg"))
        found += [value for value in values if isinstance(value, str)]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_protocol_is_named(path):
    assert not [text for text in texts(ast.parse(path.read_text())) if STEM.search(text)]


def test_a_name_would_be_noticed():
    for code in ("from highwater.traces.protocols import log_gc", "import highwater.traces.protocols.log_gc_x", "log_gc.f()",
                 "x = 'as in log_gc'", "of.log_gc", "f(log_gc=1)", "from a.log_gc import b"):
        assert any(STEM.search(text) for text in texts(ast.parse(code))), code
    assert len(MODULES) > 30
