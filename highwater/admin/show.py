"""Shows every field of every file, as a tree and as JSON; the JSON holds the full value of each field."""

from datetime import UTC, datetime
from typing import Any

from rich.markup import escape
from rich.tree import Tree

from highwater.admin.database import Database
from highwater.impl.codecs.slatedb.tables import STATUSES, Bound, Checkpoint, Compaction

TIMES_S = {"expire_time_s", "create_time_s"}


def plain(value: Any) -> Any:
    """Turn a value into what JSON can hold. Bytes become text with \\x escapes; a union names its kind."""
    if isinstance(value, bytes):
        return repr(value)[2:-1]
    if hasattr(value, "_asdict"):
        kind = {"is": type(value).__name__} if type(value).__name__ in ("Tiered", "Drain") else {}
        return kind | {name: plain(one) for name, one in value._asdict().items()}
    if isinstance(value, tuple | list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value


def as_json(database: Database) -> dict[str, Any]:
    """Return the latest manifest and compactions file in full, and the headers of the others."""
    shown = plain(database) | {"ssts": sorted(database.ssts)}
    for name in ("manifests", "compactions"):
        for file in shown[name][:-1]:
            del file["value"]
    return shown


def as_tree(database: Database, title: str) -> Tree:
    tree = Tree(escape(title or "database"))
    add_files(tree, "manifest", database.manifests, database)
    if database.latest:
        add(tree.add("latest manifest"), database.latest._asdict())
    add_files(tree, "compactions", database.compactions, database)
    if database.compactions and database.compactions[-1].value:
        add(tree.add("latest compactions"), database.compactions[-1].value._asdict())
    fences = [one.id for one in database.wal if one.fence]
    ids = f"{database.wal[0].id} to {database.wal[-1].id}" if database.wal else "none"
    tree.add(f"WAL: {ids}, {len(database.wal)} files, {len(fences)} of them fences" + (f" ({fences})" if fences else ""))
    tree.add(f"compacted: {len(database.ssts)} SSTs")
    for key in database.foreign:
        tree.add(f"foreign file: {escape(key)}")
    if database.deleting:
        tree.add("it has the mark .deleting")
    return tree


def add_files(tree: Tree, name: str, files: tuple, database: Database) -> None:
    ids = f"{files[0].id} to {files[-1].id}, {len(files)} files" if files else "none"
    versions = ", ".join(f"V{version}" for version in sorted({file.version for file in files}))
    boundary = database.boundaries[name]
    told = "none" if boundary.value == 0 else escape(boundary.fault) if boundary.value is None else boundary.value
    branch = tree.add(f"{name}: {ids} {versions}; boundary: {told}")
    for file in files:
        if file.fault:
            branch.add(f"{file.id} cannot be read: {escape(file.fault)}")


def add(branch: Tree, fields: dict[str, Any]) -> None:
    for name, value in fields.items():
        if isinstance(value, tuple) and value and hasattr(value[0], "_asdict"):
            below = branch.add(f"{name}: {len(value)}")
            for one in value:
                add_one(below, one)
        else:
            branch.add(f"{name}: {escape(line(name, value))}")


def add_one(branch: Tree, one: Any) -> None:
    """Add a record: on one line, unless it has records of its own."""
    fields = one._asdict()
    if isinstance(one, Compaction):
        fields["status"] = STATUSES[one.status] if one.status < len(STATUSES) else one.status
    if any(isinstance(value, tuple) and value and isinstance(value[0], tuple) for value in fields.values()):
        title, *rest = fields.items()
        add(branch.add(escape(f"{title[0]} {title[1]}")), dict(rest))
    else:
        shown = (f"{name} {line(name, value, isinstance(one, Checkpoint))}" for name, value in fields.items()
                 if value not in (None, ()))
        branch.add(escape(", ".join(shown)))


def line(name: str, value: Any, dated: bool = False) -> str:
    if isinstance(value, Bound):
        return {1: "unbounded", 2: f"{plain(value.key)!r} included", 3: f"{plain(value.key)!r} excluded"}.get(value.kind, "?")
    if hasattr(value, "_asdict"):
        shown = ", ".join(f"{n} {line(n, v)}" for n, v in value._asdict().items() if v not in (None, ()))
        return f"{type(value).__name__}({shown})"
    if dated and name in TIMES_S:
        return "never" if not value else datetime.fromtimestamp(value, UTC).isoformat()
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(plain(value))
