"""Read the table of runs of each spec: NAME.toml holds the rows of NAME.fizz. Rows are checked as they are read."""

from collections.abc import Set
from pathlib import Path
from typing import Any, NamedTuple

from highwater import project
from highwater.outside import document_of, toml_of

FOLDER = Path(__file__).parent
HOW, EXPECT = ("graph", "check", "guided", "live"), ("PASSED", "FAILED")
KINDS = {  # what the file has for a field of a row
    "states": (int, "a whole number"), "never": (list, "a list of names"), "silent": (list, "a list of actions"),
    "constants": (dict, "a table, { NAME = value }"), "deep": (dict, "a table"),
    **dict.fromkeys(("id", "violates", "eventually"), (str, "a text"))}


class Row(NamedTuple):
    id: str
    spec: str  # "SequencedMetadataBoundary"
    how: str  # graph | check | guided | live
    expect: str  # PASSED | FAILED
    states: int = 0  # 0: not yet known; `model conform --accept` writes the number
    constants: dict[str, object] = {}  # noqa: RUF012  (never written to)
    violates: str = ""
    never: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()  # actions that do not fire in this run; `silent` below has those of many runs
    eventually: str = ""  # the one property that is checked, if how = "live"
    deep: dict[str, Any] = {}  # noqa: RUF012  # what is otherwise in `verify --deep`: constants and states, how, never, silent

    @property
    def path(self) -> Path:
        return project.spec(self.spec, ".fizz")

    @property
    def stem(self) -> str:
        return stem_of(self.spec)


def stem_of(spec: str) -> str:
    """Return the name of the protocol's modules: two_words for the spec "TwoWords"."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in spec).lstrip("_")


def deeper(row: Row) -> Row:
    """Return the row of `highwater verify --deep`: the same question, of a larger instance or of the whole graph."""
    deep = row.deep
    return row._replace(constants=row.constants | deep.get("constants", {}), states=deep.get("states", row.states),
                        how=deep.get("how", row.how), never=tuple(deep.get("never", row.never)),
                        silent=tuple(deep.get("silent", row.silent)))


def rows(folder: Path | None = None) -> list[Row]:
    """Return the rows of all specs, or of those in a folder. If there is a project, all specs are its own. Raises ValueError,
    which names the row, if one is not well formed."""
    found: list[Row] = []
    for spec, path in [(path.stem, path) for path in sorted(folder.glob("*.toml"))] if folder else project.tables():
        found += rows_of(path, {row.id for row in found}, spec)
    return found


def rows_for(protocol: str) -> list[Row]:
    """Return the rows of one protocol. The tables of others are not read. Raises ValueError."""
    return [row for spec, path in project.tables() if stem_of(spec) == protocol for row in rows_of(path, spec=spec)]


def rows_of(path: Path, taken: Set[str] = frozenset(), spec: str = "") -> list[Row]:
    """Return the rows of one spec. `taken`: ids of rows of other specs. `spec`: its name, if the file has another one. Raises
    ValueError."""
    found: list[Row] = []
    try:
        entries = toml_of(document_of(path))["run"]
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    except KeyError:
        raise ValueError(f"{path.name}: there is no [[run]]") from None
    for number, entry in enumerate(entries, 1):
        where = f"{path.name}: run {number} ({entry.get('id', 'without id')})"
        if lacking := [name for name in ("id", "how", "expect") if name not in entry]:
            raise ValueError(f"{where} lacks {lacking[0]!r}: write id, how and expect")
        if strange := [name for name in entry if name not in Row._fields]:
            raise ValueError(f"{where} has {strange[0]!r}, which is no field of a row: {', '.join(Row._fields)}")
        for name, (kind, noun) in KINDS.items():
            if name in entry and type(entry[name]) is not kind:
                raise ValueError(f"{where}: {name} is {entry[name]!r}, and must be {noun}")
        entry |= {name: tuple(entry.get(name, ())) for name in ("never", "silent")}
        row = Row(**{**entry, "spec": spec or path.stem})
        if row.how not in HOW or row.expect not in EXPECT:
            raise ValueError(f"{where}: how is {row.how!r}, one of {', '.join(HOW)}; "
                             f"expect is {row.expect!r}, one of {', '.join(EXPECT)}")
        if (row.expect == "FAILED") != bool(row.violates):
            raise ValueError(f"{path.name}: run {row.id}: violates where, and only where, expect is FAILED")
        if (row.how == "live") != bool(row.eventually) or (row.how == "live" and row.violates not in ("", row.eventually)):
            raise ValueError(f"{path.name}: run {row.id}: eventually where, and only where, how is live; violates is the same")
        if row.deep.keys() - {"constants", "states", "how", "never", "silent"} or (
                ("constants" in row.deep) != ("states" in row.deep)) or row.deep.get("how", "graph") != "graph":
            raise ValueError(f"{path.name}: run {row.id}: deep has constants and states, or how = \"graph\", or all three, and "
                             "perhaps never and silent")
        if row.id in {other.id for other in found} | taken:
            raise ValueError(f"{path.name}: two runs have the id {row.id}")
        found.append(row)
    return found


def silent(spec: str, constants: dict[str, object]) -> set[str]:
    """Return the actions, such as "Writer.Crash", that are declared not to fire if the constants have these values."""
    said = toml_of(document_of(project.spec(spec, ".toml"))).get("silent", ())
    return {action for entry in said for action in entry["actions"]
            if all(constants.get(name) == value for name, value in entry["where"].items())}
