"""No machinery names a protocol: a new protocol only adds files of its own in the rooms of protocols."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater import project
from highwater.dst.scenarios import STEMS as SCENARIOS
from highwater.specs.runs import rows

ROOT = Path(__file__).resolve().parents[2]
STEMS = sorted({*SCENARIOS, *(row.stem for row in rows()), *project.ours("model")})
WORDS = ("checkpoints", "clones", "db", "destroy", "raft")  # stems that are words, too: named only as modules of a room
NAMED = re.compile(rf"(?<![a-z0-9])({'|'.join(stem for stem in STEMS if stem not in WORDS)})(?![a-z0-9])"
                   rf"|(?<=protocols[./])({'|'.join(WORDS)})(?![a-z0-9])", re.IGNORECASE)
MACHINERY = (  # rooms, with all below them but `PROTOCOLS`; and files
    "specs", "model", "impl/codecs", "impl/db", "impl/stores", "impl/errors.py", "impl/layout.py", "impl/world.py", "traces",
    "dst", "highwater/cli", "highwater/clients", "highwater/conformance", "highwater/gate", "highwater/recorder",
    "highwater/reports", "highwater/probe", "highwater/servers",
)
PROTOCOLS = (  # the rooms of protocols: a module's name begins with its protocol's stem
    "model/protocols", "model/proofs", "model/refinements", "impl/protocols", "impl/kv", "traces/protocols",
    "traces/damage/protocols", "dst/scenarios", "dst/scripts", "dst/mutants",
    "highwater/conformance/protocols", "highwater/gate/protocols",
)
# folders of one protocol: their modules have names of their own
FOLDERS = {**dict.fromkeys(("model/protocols/database", "traces/protocols/database"), "database_metadata"),
           "traces/protocols/cloned": "database_clones", "dst/scenarios/database": "db",
           "dst/scripts/indexed": "metadata_fsm",
           **dict.fromkeys(("dst/scripts/replicated", "traces/protocols/replicated"), "raft")}
# parts of a system and tools for it: they name our protocols
OF_A_SYSTEM = ("traces/recorded/systems", "highwater/cli/checkpoint.py", "highwater/cli/destroy.py", "impl/db",
               "dst/campaign/bucket")  # a campaign's journal is a log of one of the protocols
BELOW_PROOFS = "model/proofs/engine"  # is machinery again
# Tools of SlateDB's databases, which are sequences of metadata files, may import the protocols that these databases have.
TOOLS: dict[str, set[str]] = {
    "highwater/admin/checkpoints.py": {"impl/protocols/checkpoints", "impl/protocols/destroy_mark"},
    "highwater/admin/clone.py": {f"impl/protocols/{of}" for of in ("checkpoints", "clones", "clones_manifest")},
    "highwater/admin/compact.py": {f"impl/protocols/{of}" for of in ("checkpoints", "destroy_mark")},
    "highwater/admin/destroy.py": {"impl/protocols/destroy"},
    "highwater/admin/detach.py": {f"impl/protocols/{of}" for of in ("clones", "clones_manifest")},
    "highwater/admin/gc_data.py": {f"impl/protocols/{of}" for of in ("database_gc", "manifest_compactions")},
    "highwater/admin/several.py": {f"impl/protocols/{of}" for of in ("checkpoints", "destroy", "destroy_mark")},
    "highwater/admin/unite.py": {f"impl/protocols/{of}" for of in ("checkpoints", "clones", "clones_manifest", "destroy_mark")},
}
PARTS = {f"impl/protocols/{part}" for part in ("boundary_object", "sequenced_storage", "sequenced_metadata")}
# of no protocol: any may be made of them
BOUNDARY = "sequenced_metadata_boundary"
MODELS = {f"model/protocols/{part}" for part in ("manifest_compactions", "manifest_epochs", BOUNDARY, "wal_fencing")}
DATABASE, OF_A_DATABASE = "database_metadata", ("manifest_compactions", "wal_fencing")  # which is made of these two
OF_IMPL = {f"impl/protocols/{part}" for part in OF_A_DATABASE}
OF_DATABASES = {
    **{f"{room}/{DATABASE}": OF_IMPL for room in ("dst/mutants", "dst/scenarios", "dst/scripts")},
    f"impl/protocols/{DATABASE}": {*OF_IMPL, "impl/protocols/checkpoints"},
    f"dst/mutants/{DATABASE}_parts": {*OF_IMPL, *(f"dst/mutants/{part}" for part in (
        *OF_A_DATABASE, BOUNDARY, f"{BOUNDARY}_ambiguity", "update_ids"))},
    f"traces/protocols/{DATABASE}_calls": {f"traces/protocols/{part}_calls" for part in (*OF_A_DATABASE, BOUNDARY)},
    **{f"traces/protocols/database/{part}": {"traces/protocols/manifest_compactions"} for part in ("claims", "contents")},
    "traces/protocols/database/epochs": {"model/protocols/manifest_epochs"},
    "traces/protocols/database/log": {f"{room}/wal_fencing" for room in ("model/protocols", "traces/protocols")},
    "traces/protocols/database/parts": {f"traces/protocols/{part}" for part in (
        *OF_A_DATABASE, BOUNDARY, "manifest_epochs")},
    "traces/protocols/database/sequences": {f"traces/protocols/{BOUNDARY}"},
}
CLONED = "database_clones"  # a database and its clones: it is made of both
INDEXED = "dst/scenarios/indexed"  # the nodes and callers of a metadata index
OF_AN_INDEX = {
    "dst/mutants/compaction_queue": {"dst/mutants/metadata_fsm"},  # whose way of replacing functions it has
    "dst/mutants/metadata_fsm": {f"{INDEXED}/group"},
    "dst/scenarios/compaction_queue": {f"{INDEXED}/group", "dst/scenarios/metadata_fsm", "traces/protocols/metadata_fsm", *(
        f"dst/scripts/indexed/{of}" for of in ("jobs", "letters", "polls", "worker"))},
    "dst/scenarios/metadata_fsm": {*(f"{INDEXED}/{of}" for of in ("end", "group", "workers", "writers")), "dst/scenarios/raft",
                                   "dst/scenarios/replicated/group", "traces/protocols/indexed/log"},
    **{f"dst/scripts/indexed/{of}": {f"dst/scripts/replicated/{part}" for part in ("disks", "node")} for of in (
        "library", "one")},
    "dst/mutants/dlq_recovery": {"dst/mutants/metadata_fsm"},
    "dst/mutants/index_retention": {"dst/mutants/metadata_fsm"},
    "dst/mutants/index_reads": {"dst/mutants/metadata_fsm"},
    "dst/scenarios/index_reads": {f"{INDEXED}/group", f"{INDEXED}/service", "dst/scripts/indexed/reader"},
    "traces/damage/protocols/index_reads": {"traces/damage/protocols/index_retention"},
    "dst/scenarios/index_retention": {f"{INDEXED}/{of}" for of in ("group", "service", "writers")},
    "dst/scenarios/dlq_recovery": {f"{INDEXED}/service", f"{INDEXED}/writers"},
    f"{INDEXED}/service": {f"{INDEXED}/group", "traces/protocols/dlq_recovery"},
    f"{INDEXED}/end": {f"{INDEXED}/group"},
    f"{INDEXED}/group": {"dst/scenarios/raft", "traces/protocols/indexed/log"},
    f"{INDEXED}/workers": {*(f"{INDEXED}/{of}" for of in ("group", "writers")), "dst/scenarios/raft",
                           "traces/protocols/indexed/answers", "traces/protocols/metadata_fsm_calls"},
    f"{INDEXED}/writers": {f"{INDEXED}/group", "dst/scenarios/raft", "traces/protocols/indexed/answers",
                           "traces/protocols/metadata_fsm_calls"},
    "traces/protocols/compaction_queue_calls": {"traces/protocols/metadata_fsm_calls"},
    "traces/protocols/indexed/answers": {"traces/protocols/indexed/rows"},
    "traces/protocols/indexed/log": {f"traces/protocols/indexed/{part}" for part in ("answers", "rows")},
    "traces/protocols/metadata_fsm_calls": {"traces/protocols/raft_calls"},
    **{f"traces/protocols/{of}": {f"traces/protocols/indexed/{part}" for part in ("answers", "log", "rows")} for of in (
        "compaction_queue", "metadata_fsm")},
    **{f"traces/damage/protocols/{of}": {"traces/damage/protocols/indexed"} for of in ("compaction_queue", "metadata_fsm")},
    "traces/damage/protocols/indexed": {"traces/protocols/indexed/rows"},
}
OF_CLONED = {f"impl/protocols/{part}" for part in ("clones", DATABASE, "manifest_compactions")}
CONTENTS = "traces/protocols/clones_contents"
OF_CLONES = {
    f"impl/protocols/{CLONED}": {f"impl/protocols/{part}" for part in (
        DATABASE, "manifest_compactions", "checkpoints", "db_reader_view", "wal_fencing")},
    f"dst/mutants/{CLONED}": {*OF_CLONED, "dst/mutants/clones", *(f"impl/protocols/{part}" for part in (
        "checkpoints", "clones_manifest", "wal_fencing"))},
    f"dst/scenarios/{CLONED}": {*OF_CLONED, CONTENTS, *(f"dst/scenarios/{part}" for part in ("clones", DATABASE))},
    f"traces/protocols/{CLONED}": {CONTENTS},
    f"traces/protocols/{CLONED}_calls": {f"traces/protocols/{part}_calls" for part in ("clones", DATABASE)},
    "traces/protocols/cloned/contents": {CONTENTS},
    "traces/protocols/cloned/projection": {CONTENTS, "traces/protocols/clones", "model/protocols/clones"},
    "traces/protocols/cloned/refiner": {CONTENTS, *(f"traces/protocols/{part}" for part in (
        "clones", DATABASE, "database/parts"))},
    "traces/protocols/cloned/root": {
        CONTENTS, f"traces/protocols/{DATABASE}", "traces/protocols/wal_fencing", f"model/protocols/{BOUNDARY}",
        "model/protocols/manifest_compactions", *(f"traces/protocols/database/{part}" for part in (
            "claims", "contents", "epochs", "log", "parts", "sequences"))},
}
EDGES = {  # module of a protocol -> the modules of others that it imports
    **OF_DATABASES,
    **OF_CLONES,
    **OF_AN_INDEX,
    "dst/mutants/database_gc": {"impl/protocols/manifest_compactions"},  # whose two sequences it has
    "dst/mutants/db": {f"impl/protocols/{of}" for of in ("checkpoints", "wal_fencing")},  # of which a database is made
    "dst/mutants/db_clones": {*(f"dst/mutants/{of}" for of in ("clones", "destroy")), *(f"impl/protocols/{of}" for of in (
        "clones", "database_gc", "destroy", "manifest_compactions"))},  # whose bugs it has
    "dst/mutants/destroy": {"impl/protocols/checkpoints"},
    "dst/mutants/known_latest": {f"dst/mutants/{BOUNDARY}"},
    "dst/mutants/log_gc": {f"{room}/{BOUNDARY}" for room in ("dst/mutants", "impl/protocols")},  # it has its storage
    "dst/mutants/manifest_migration": {f"impl/protocols/{BOUNDARY}"},
    "dst/mutants/wal_fencing": {"impl/kv/wal"},
    **{f"dst/mutants/{of}": {"dst/mutants/raft"} for of in ("consistent_read", "log_snapshot")},  # the same core and node
    "dst/scenarios/consistent_read": {"dst/scenarios/raft", "traces/protocols/raft_calls", *(
        f"dst/scenarios/replicated/{of}" for of in ("group", "reading"))},
    "dst/scenarios/log_snapshot": {"dst/scenarios/raft", "dst/scenarios/replicated/group", *(
        f"dst/scripts/replicated/{of}" for of in ("files", "levels", "log", "node", "owned"))},
    "dst/scenarios/raft": {"dst/scenarios/replicated/group"},
    "dst/mutants/raft_membership": {"dst/mutants/raft", "dst/scenarios/raft"},
    "dst/scenarios/raft_membership": {"dst/scenarios/raft", "dst/scripts/replicated/members", "traces/protocols/raft", *(
        f"dst/scenarios/replicated/{of}" for of in ("changing", "group"))},
    "dst/scenarios/replicated/changing": {"dst/scenarios/replicated/group", "dst/scenarios/replicated/properties",
                                          "traces/protocols/raft_membership_calls"},
    "traces/protocols/raft_membership": {"model/protocols/raft", "traces/protocols/raft", *(
        f"traces/protocols/replicated/{of}" for of in ("log", "members", "servers"))},
    "traces/protocols/raft_membership_calls": {"model/protocols/raft", "traces/protocols/raft_calls",
                                               "traces/protocols/replicated/members"},
    "traces/protocols/consistent_read": {"model/protocols/raft", *(f"traces/protocols/{of}" for of in (
        "raft", "raft_calls", "replicated/servers"))},
    "traces/protocols/log_snapshot": {"traces/protocols/raft", "traces/protocols/replicated/log"},
    "traces/protocols/log_snapshot_calls": {"traces/protocols/raft_calls"},
    "dst/scenarios/replicated/reading": {"dst/scenarios/replicated/group", "traces/protocols/consistent_read"},
    "dst/scenarios/replicated/group": {"dst/scenarios/replicated/disks", "dst/scenarios/replicated/properties",
                                       "traces/protocols/raft"},
    "dst/scenarios/database_gc": {"impl/protocols/database_metadata", "impl/protocols/manifest_compactions"},  # its checkpoints
    "dst/scenarios/database/others": {f"impl/protocols/{of}" for of in ("checkpoints", "database_gc", "db_reader")},
    "dst/scenarios/database/cloner": {f"impl/protocols/{of}" for of in ("checkpoints", "database_clones", "destroy")},
    "dst/scenarios/database/end": {"impl/protocols/destroy_mark"},
    "dst/scenarios/database/shape": {f"impl/protocols/{of}" for of in ("clones", "database_gc", "destroy")},
    "dst/scenarios/database/writer": {"traces/protocols/database/rows"},  # the content of a batch
    "traces/protocols/db": {"traces/protocols/database/answers"},
    "dst/scenarios/destroy": {"impl/protocols/checkpoints", "traces/protocols/checkpoints_contents"},  # its clones' pins
    "dst/scenarios/known_latest": {f"{room}/{BOUNDARY}" for room in ("dst/scenarios", "traces/protocols")},
    "dst/scenarios/sequenced_metadata_boundary": {"dst/scripts/boundary_object", "dst/scripts/sequenced_metadata"},
    "dst/scripts/database_clones": {"impl/protocols/manifest_compactions"},
    "dst/scripts/database_gc": {"impl/protocols/database_metadata", "impl/protocols/manifest_compactions"},
    "dst/scripts/destroy": {"impl/protocols/checkpoints"},
    "dst/scripts/checkpoints": {"impl/protocols/destroy_mark"},
    "dst/scripts/wal_fencing": {"impl/kv/wal"},
    "dst/scenarios/update_ids": {f"traces/protocols/{BOUNDARY}_calls", *(
        f"{room}/{BOUNDARY}" for room in ("dst/scenarios", "traces/protocols"))},
    "dst/scenarios/wal_fencing": {"impl/kv/wal"},
    "traces/protocols/checkpoints_calls": {f"traces/protocols/{part}_calls" for part in (BOUNDARY, "manifest_migration")},
    # an update of manifests in each form
    "traces/damage/protocols/destroy": {"traces/damage/protocols/checkpoints", "traces/protocols/checkpoints_contents"},
    "traces/protocols/destroy": {"traces/protocols/checkpoints_contents"},  # the names of checkpoints and SSTs
    "traces/protocols/destroy_calls": {f"traces/protocols/{part}_calls" for part in ("checkpoints", BOUNDARY)},
    "traces/protocols/manifest_migration_calls": {f"traces/protocols/{BOUNDARY}_calls"},  # whose stores it uses
    **{f"model/protocols/database/{module}": MODELS for module in ("clients", "constants", "state")},
    "model/protocols/database/joint": {f"model/protocols/{BOUNDARY}"},
    "model/protocols/database/requests": {"model/protocols/wal_fencing"},
    "model/protocols/database/writes": {"model/protocols/manifest_compactions", "model/protocols/wal_fencing"},
    "model/protocols/database_metadata": MODELS,  # it is composed of them
    "model/proofs/database_metadata": {f"model/{room}/{BOUNDARY}" for room in ("proofs", "protocols")},
    "model/proofs/refinements/sequenced_write": {"model/proofs/abstract/sequenced_files"},  # the abstract model that it refines
    "impl/protocols/manifest_compactions": {"impl/protocols/checkpoints"},  # a compactor's pin
    "impl/kv/wal": {"impl/protocols/wal_fencing"},  # a store of keys and values whose log it is
    **{f"dst/{room}/clones": {"impl/protocols/checkpoints"} for room in ("mutants", "scenarios")},
    "dst/scripts/clones": {f"impl/protocols/{of}" for of in ("checkpoints", "destroy", "destroy_mark")},
    "impl/protocols/clones": {"impl/protocols/checkpoints", "impl/protocols/destroy_mark"},  # its finals are checkpoints
    "impl/protocols/clones_manifest": {"impl/protocols/checkpoints"},
    "traces/protocols/clones_calls": {"traces/protocols/checkpoints_calls"},
    "dst/mutants/db_reader": {"impl/protocols/checkpoints"},
    "dst/scenarios/db_reader": {f"impl/protocols/{of}" for of in (
        "database_gc", "database_gc_uploads", "database_metadata", "manifest_compactions")},  # its writer and its collector
    "dst/scripts/db_reader": {"impl/protocols/checkpoints"},
    "dst/scripts/db": {f"impl/protocols/{of}" for of in ("checkpoints", "destroy", "destroy_mark", "wal_fencing")},
    "dst/scripts/db_compactor": {"impl/protocols/checkpoints", "impl/protocols/destroy_mark"},
    "dst/scripts/db_reads": {"impl/protocols/db_reader"},
    "impl/protocols/db_reader": {"impl/protocols/checkpoints"},
    "impl/protocols/database_gc": {"impl/protocols/manifest_compactions"},
    "impl/protocols/database_gc_uploads": {"impl/protocols/manifest_compactions"},
    "impl/protocols/checkpoints": {"impl/protocols/destroy_mark"},  # a destroyed database takes none
    "impl/protocols/destroy": {f"impl/protocols/{of}" for of in ("checkpoints", "wal_fencing")},
    "impl/protocols/log_gc": {f"impl/protocols/{BOUNDARY}"},
    "impl/protocols/sequenced_metadata": {f"impl/protocols/{BOUNDARY}"},  # whose boundary is one of its policies
}


def within(path: str, rooms: tuple[str, ...]) -> bool:
    return any(path == room or path.startswith(f"{room}/") for room in rooms)


def is_machinery(path: str) -> bool:
    own = within(path, PROTOCOLS) and not path.startswith(BELOW_PROOFS)
    return within(path, MACHINERY) and not own and not within(path, OF_A_SYSTEM)


def sources() -> list[str]:
    """Files of the real folders: the links in highwater/ are not followed."""
    folders = sorted({room.partition("/")[0] for room in (*MACHINERY, *PROTOCOLS)})
    return [path.relative_to(ROOT).as_posix() for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))
            if path.resolve() == path]


def named(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, stem) wherever a name, an import or a string has a protocol's stem as a word of its own."""
    for node in ast.walk(tree):
        for field in ("id", "attr", "name", "arg", "module", "asname", "value"):
            text = getattr(node, field, None)
            for match in NAMED.finditer(text if isinstance(text, str) else ""):
                yield getattr(node, "lineno", 0), match[0]


@pytest.mark.parametrize("path", [path for path in sources() if is_machinery(path)])
def test_no_machinery_names_a_protocol(path):
    found = sorted(set(named(ast.parse((ROOT / path).read_text()))))
    assert not found, f"{path} names {found}"


@pytest.mark.parametrize("source", [
    "import highwater.model.protocols.wal_fencing", "from highwater.dst.scenarios import log_gc",
    "from highwater.traces.protocols.baseline import Trace", "STEM = 'manifest_epochs'", "def of_baseline(): pass",
    "x.sequenced_write", "import highwater.model.protocols.checkpoints",
    "f(log_gc=1)", "f'highwater.model.protocols.wal_fencing.{name}'", "'''As wal_fencing does.'''"])
def test_a_name_would_be_noticed(source):
    assert list(named(ast.parse(source)))


def test_what_is_no_name_of_a_protocol_is_none():
    assert not list(named(ast.parse("import boundary_peer\nbaselines = 'a catalog_gc, sequenced writes'\n# log_gc\n")))


# --- which protocol may import which

def module_of(path: str) -> str:
    return path.removesuffix(".py")


def protocol_of(module: str) -> str:
    """The stem that a module's name begins with, or the name."""
    folder, _, name = module.rpartition("/")
    if folder in FOLDERS:
        return FOLDERS[folder]
    return max((stem for stem in STEMS if name == stem or name.startswith(f"{stem}_")), key=len, default=name)


MODULES = {module_of(path) for path in sources() if within(path, PROTOCOLS) and not path.startswith(BELOW_PROOFS)
           and not path.endswith("__init__.py")}


def imported(path: str) -> set[str]:
    """The modules of protocols that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    plain = {name.replace(".", "/") for name in names}
    return MODULES & (plain | {name.removeprefix("highwater/") for name in plain})


def edges() -> dict[str, set[str]]:
    found = {module: {other for other in imported(f"{module}.py") - PARTS if protocol_of(other) != protocol_of(module)}
             for module in sorted(MODULES)}
    return {module: others for module, others in found.items() if others}


def test_a_protocol_imports_another_only_as_the_table_says():
    assert edges() == EDGES


def test_tools_import_the_protocols_that_they_are_for():
    admin = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "highwater/admin").glob("*.py"))]
    found = {path: imported(path) - PARTS for path in admin}
    assert {path: modules for path, modules in found.items() if modules} == TOOLS


def test_every_room_and_file_of_the_lists_is_there():
    for path in (*MACHINERY, *PROTOCOLS, *OF_A_SYSTEM, BELOW_PROOFS):
        assert (ROOT / path).exists(), path
