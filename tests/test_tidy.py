"""Who may import whom, where the world may be touched, and what no commit may hold: design.md's rules, walked in the ast."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OURS = {"specs", "model", "impl", "traces", "dst", "recorder", "probe", "cli", "bench"}
MAY = {  # folder -> our folders, and the libraries beside stdlib
    "specs": (set(), set()),
    "model": (set(), {"numpy"}),
    "model/proofs": ({"model"}, {"z3"}),
    "impl": (set(), set()),
    "impl/stores": ({"impl"}, {"boto3", "botocore", "ulid"}),
    "traces": ({"model", "impl.layout", "impl.errors"}, set()),  # and codecs
    "dst": ({"impl", "traces", "model"}, {"pyspark", "pyarrow", "numpy", "hypothesis"}),
    "recorder": ({"traces.s3log"}, set()),
    "probe": ({"recorder", "impl", "dst.world", "traces.s3log"}, {"boto3", "botocore"}),
    "cli": (OURS, {"typer", "rich", "pyspark", "pyarrow", "numpy", "duckdb"}),
    "bench": (OURS, {"rich", "matplotlib", "boto3", "botocore", "numpy", "pyarrow", "stores_support"}),
}
CODECS = sorted(path.stem for kind in ("json", "slatedb") for path in (ROOT / "impl").glob(f"*_{kind}.py"))
WORLD = {"time", "random", "uuid", "ulid", "os", "asyncio", "threading", "datetime", "secrets"}
MAY_TOUCH_THE_WORLD = {"impl/stores", "dst/choose.py", "dst/campaign/", "dst/bulk/"}


def sources() -> list[Path]:
    return [path for folder in sorted(OURS) for path in sorted((ROOT / folder).rglob("*.py"))]


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module} if node.module not in OURS else {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def rule(path: Path) -> tuple[set[str], set[str]]:
    name = path.relative_to(ROOT).parent.as_posix()
    return MAY.get(name) or MAY[name.partition("/")[0]]


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_forward(path):
    ours, libraries = rule(path)
    ours = ours | {path.relative_to(ROOT).parts[0]} | ({
        f"impl.{name}" for name in (path.stem, *CODECS)} if path.parent.name == "traces" else set())
    for name in imports(path):
        top = name.partition(".")[0]
        if top in OURS:
            assert any(name == allowed or name.startswith(allowed + ".") for allowed in ours), f"{path} imports {name}"
        else:
            assert top in libraries or top in sys.stdlib_module_names, f"{path} imports {name}"


@pytest.mark.parametrize("path", [p for p in sources() if p.relative_to(ROOT).parts[0] in ("impl", "model", "dst")],
                         ids=lambda path: path.relative_to(ROOT).as_posix())
def test_only_the_seam_touches_the_world(path):
    name = path.relative_to(ROOT).as_posix()
    if not any(name.startswith(allowed) for allowed in MAY_TOUCH_THE_WORLD):
        touched = {module.partition(".")[0] for module in imports(path)} & WORLD
        assert not touched, f"{name} imports {touched}"


def test_the_rules_would_notice():
    assert imports(ROOT / "impl/stores/system.py") & WORLD
    assert "model.core" in imports(ROOT / "traces/refine.py")


def test_modules_open_with_what_they_are_for():
    for path in sources():
        if path.name != "__init__.py":
            assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


def test_ruff():
    result = subprocess.run([sys.executable, "-m", "ruff", "check", "--no-cache", str(ROOT)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
