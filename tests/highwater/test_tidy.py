"""Checks the rules of imports, of access to the outside world, and of commits, on the syntax trees of all modules."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = {"specs", "model", "impl", "traces", "dst", "highwater", "bench"}
SEAM = {"impl.errors", "impl.layout", "impl.world"}
NODE_SEAM = {"impl.errors", "impl.level", "impl.node_world", "impl.settings", "impl.world"}
REFINEMENT = {"traces.calls", "traces.contents", "traces.event", "traces.evidence", "traces.follow", "traces.form",
              "traces.machines", "traces.nodes", "traces.options", "traces.reads", "traces.refine", "traces.store",
              "traces.trace"}
SIMULATION = {"dst.actors", "dst.bundle", "dst.limit", "dst.run_spec", "dst.scenario", "dst.scenarios", "dst.sim",
              "dst.simulate", "dst.verdict", "dst.version", "dst.world", "dst.zoo"}
BELOW = {"specs", "model", "impl", "traces", "dst"}
# These import the standard library only.
ANYWHERE = {"highwater.interrupt", "highwater.messages", "highwater.outside", "highwater.pages", "highwater.project",
            "model.uncollected"}
MAY = {  # room -> the rooms and modules that it may import beside itself, and the libraries beside stdlib
    "specs": (set(), set()),
    "model": ({"model.core", "model.parts", "model.explore.tabulated"}, set()),
    "model/protocols": ({"model.compose", "model.core", "model.parts"}, set()),
    "model/abstract": ({"model.core", "model.parts"}, set()),
    "model/refinements": ({"model.abstract", "model.beside", "model.protocols", "model.refine"}, set()),
    "model/explore": ({"model.core"}, {"numpy"}),
    "model/functions": (set(), set()),
    "model/proofs": ({"model.core", "model.protocols"}, {"z3"}),
    "model/proofs/engine": ({"model.core", "model.guards"}, {"z3"}),
    "model/proofs/abstract": ({"model.core", "model.abstract", "model.proofs.engine"}, set()),
    "model/proofs/functions": ({"model.functions", "model.proofs.engine"}, {"z3"}),
    "model/proofs/refinements": ({"model.proofs", "model.protocols", "model.refinements"}, set()),
    "impl": (SEAM, set()),
    "impl/codecs": ({"impl.errors"}, {"google_crc32c"}),
    "impl/codecs/index": ({"impl.errors", "impl.codecs"}, {"google", "re2", "xxhash", "zstandard"}),
    "impl/index/query": ({"impl.errors", "impl.codecs", "impl.index"}, {"numpy"}),
    "impl/index": ({*NODE_SEAM, "impl.codecs", "impl.raft"}, set()),
    "impl/manifests": ({"impl.errors", "impl.codecs"}, set()),
    "impl/db": ({*SEAM, "impl.codecs", "impl.manifests", "impl.protocols"}, {"pyarrow"}),
    "impl/protocols": ({*SEAM, "impl.codecs"}, set()),
    "impl/raft": ({*NODE_SEAM, "impl.codecs"}, set()),
    "impl/kv": ({*SEAM, "impl.codecs", "impl.protocols"}, set()),
    "impl/stores": ({*SEAM, *NODE_SEAM, "impl.index.kv", "impl.protocols.boundary_object", "impl.codecs"},
                    {"boto3", "botocore", "grpc", "lmdb", "ulid", "urllib3"}),
    "traces": ({*REFINEMENT, "model.core", "model.explore.tabulated", "impl.layout", "impl.codecs"}, set()),
    "traces/protocols": ({*REFINEMENT, "model.core", "model.protocols", "model.explore.tabulated", "impl.layout", "impl.errors",
                          "impl.db.damaged", "impl.codecs", "traces.recorded"}, set()),
    "traces/protocols/database": ({*REFINEMENT, "model.core", "model.protocols", "model.explore.tabulated", "impl.layout",
                                   "impl.db", "impl.codecs", "traces.histories", "traces.protocols", "traces.recorded"}, set()),
    "traces/histories": ({"traces.event", "impl.layout", "impl.codecs", "impl.db", "impl.manifests"}, set()),
    "traces/recorded": ({"traces.store", "model.guards"}, set()),
    "traces/recorded/systems": ({*REFINEMENT, "traces.recorded", "traces.protocols", "model.abstract", "impl.layout",
                                 "impl.errors", "impl.codecs"}, set()),
    "traces/explain": ({*REFINEMENT, "model.core", "model.guards"}, set()),
    "traces/damage": (REFINEMENT, set()),
    "traces/damage/protocols": ({*REFINEMENT, "impl.layout", "impl.codecs", "traces.histories", "traces.damage",
                                  "traces.protocols"}, set()),
    "dst": ({"dst", "impl.errors", "impl.layout", "impl.stores.memory", "impl.world", "traces"}, set()),
    "dst/sim": ({"dst.run_spec", "dst.simulate", "dst.scenarios", "dst.world.node_faults"}, {"hypothesis"}),
    "dst/world": ({"dst.sim", "impl.codecs", "impl.errors", "impl.level", "impl.node_world", "impl.stores.keys",
                   "impl.stores.ranges", "impl.world", "traces.event"}, set()),
    "dst/scenarios": ({"dst.actors", "dst.scenario", "dst.scripts", "dst.sim", "dst.world", "impl", "traces",
                       "model.protocols"}, set()),
    "dst/scripts": ({"dst.script", "impl"}, {"zstandard"}),
    "dst/mutants": ({"dst.scenario", "dst.scenarios", "dst.world.faults", "dst.world.node_faults", "impl"}, set()),
    "dst/search": ({*SIMULATION, "traces.event", "traces.refine", "model.explore.tabulated"}, {"numpy"}),
    "dst/determinism": ({*SIMULATION, "traces"}, set()),
    "dst/campaign": ({"dst", "traces", "model.explore.disk"}, {"pyarrow", "numpy", "hypothesis"}),
    "dst/campaign/bucket": ({*SEAM, "dst.campaign", "impl.protocols", "impl.stores"}, {"pyarrow"}),
    "dst/bulk": ({"dst", "traces", "impl.index.bucket", "impl.stores", "impl.world"}, {"pyarrow", "numpy"}),
    "dst/spark": ({"dst", "model.explore.disk"}, {"pyspark", "pyarrow"}),
    "highwater": ({*BELOW, "highwater.cli"}, set()),
    "highwater/admin": ({"impl"}, {"rich"}),
    "highwater/recorder": ({"impl.stores.bounds", "traces.recorded"}, set()),
    "highwater/probe": ({"highwater.recorder", "impl", "dst.world", "dst.scenarios", "traces.recorded"},
                        {"boto3", "botocore", "urllib3"}),
    "highwater/clients": ({"highwater.gate.exits", "highwater.gate.rows", "highwater.recorder", "traces.recorded",
                           "traces.store"}, set()),
    "highwater/cluster": ({"impl"}, set()),
    "highwater/index": ({"dst.bulk", "dst.campaign", "dst.spark", "highwater.cluster", "impl"}, {"duckdb", "pyarrow"}),
    "highwater/index/story": ({"highwater.index", "highwater.servers.leash", "impl"}, {"pyarrow"}),
    "highwater/spark": ({"dst"}, {"pyspark"}),
    "highwater/servers": ({"impl.stores"}, {"botocore"}),
    "highwater/conformance": (BELOW, set()),
    "highwater/gate": ({*BELOW, "highwater.conformance", "highwater.mutate", "highwater.reports.steps", "highwater.servers"},
                       {"numpy", "pyspark"}),
    "highwater/mutate": (BELOW, {"pytest"}),  # as a plugin of it
    "highwater/reports": ({*BELOW, "highwater.conformance"}, {"numpy", "pyarrow", "duckdb", "pyspark", "rich"}),
    "highwater/cli": ({*BELOW, "highwater"}, {"typer", "rich", "pyspark", "pyarrow", "numpy"}),
    "highwater/skeleton": ({*BELOW, "highwater"}, {"pytest", "NAME"}),  # a project of a user's
    "bench": ({*BELOW, "highwater"}, {"rich", "matplotlib", "boto3", "botocore", "numpy", "pyarrow", "tests"}),
}
WORLD = {"time", "random", "uuid", "ulid", "os", "asyncio", "threading", "datetime", "secrets"}
MOST_IN_A_FOLDER_OF_DOCS = 27  # one page for each protocol
MAY_TOUCH_THE_WORLD = {"impl/stores", "dst/sim/alarm.py", "dst/sim/choose.py", "dst/campaign/", "dst/bulk/", "dst/spark/"}


def sources() -> list[Path]:
    """Files of the real folders: the links in highwater/ are not followed."""
    return [path for folder in sorted(OURS) for path in sorted((ROOT / folder).rglob("*.py"))
            if path.resolve() == path]


def imports(path: Path) -> set[str]:
    """Full names; of ours without the package: `model.core`, `highwater.cli.console`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            within = ".".join(path.relative_to(ROOT).parts[:-node.level]) + "." if node.level else ""
            found |= {f"{within}{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("highwater.") if name.split(".")[:2][-1] in BELOW else name for name in found}


def room(path: Path) -> str:
    folder = path.relative_to(ROOT).parent
    return next(name for name in (of.as_posix() for of in (folder, *folder.parents)) if name in MAY)


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_forward(path):
    ours, libraries = MAY[room(path)]
    own = {f"impl.protocols.{path.stem}"} if room(path) == "traces/protocols" else set()
    ours = ours | {room(path).replace("/", ".")} | own | ANYWHERE
    for name in imports(path):
        if name.partition(".")[0] in OURS:
            assert any(name == allowed or name.startswith(allowed + ".") for allowed in ours), f"{path} imports {name}"
        else:
            top = name.partition(".")[0]
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
    assert "model.core.Model" in imports(ROOT / "traces/refine.py")


def test_modules_open_with_what_they_are_for():
    for path in sources():
        if path.name != "__init__.py":
            assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


@pytest.mark.parametrize("folder", sorted({ROOT / "docs", *(path.parent for path in (ROOT / "docs").rglob("*.md"))}),
                         ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_folder_of_docs_is_read_at_a_glance(folder):
    assert len(list(folder.iterdir())) <= MOST_IN_A_FOLDER_OF_DOCS, f"group the pages of {folder} by what their readers want"


def test_readme_is_one_page():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 110, "move it to docs/, and link it"


def test_ruff():
    result = subprocess.run([sys.executable, "-m", "ruff", "check", "--no-cache", str(ROOT)], capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
