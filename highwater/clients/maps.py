"""Read what a user says of a program's keys: `--map 'PATTERN=PROTOCOL'`, or a TOML file with more."""

from collections.abc import Iterable
from pathlib import Path

from highwater.messages import meant
from highwater.outside import document_of, toml_of
from highwater.traces.recorded.systems.mapped import Map, fit
from highwater.traces.recorded.systems.template import Unfit


def maps_of(texts: Iterable[str]) -> tuple[Map, ...]:
    """Return the maps of the options, each `PATTERN=PROTOCOL` or the name of a TOML file. Raises Unfit."""
    return tuple(one for text in texts for one in (of_file(Path(text)) if text.endswith(".toml") else [of_text(text)]))


def of_text(text: str) -> Map:
    keys, _, protocol = text.rpartition("=")
    if not keys:
        raise Unfit(f"--map {text!r}: write PATTERN=PROTOCOL, as '_delta_log/{{id:020d}}.json=sequenced_files', or FILE.toml")
    return named(f"--map {text!r}", Map(keys, protocol))


def of_file(path: Path) -> list[Map]:
    """Return the maps of a file: a table [[map]] for each, with the fields of Map."""
    try:
        told = toml_of(document_of(path))
    except (OSError, ValueError) as error:
        raise Unfit(f"--map {path}: {error}") from None
    tables = told.get("map")
    if told.keys() != {"map"} or not isinstance(tables, list) or not all(isinstance(one, dict) for one in tables):
        raise Unfit(f"--map {path}: write a table [[map]] for each kind of keys, and nothing else")
    return [of_table(f"--map {path}, map {number}", one) for number, one in enumerate(tables, 1)]


def of_table(name: str, table: dict[str, object]) -> Map:
    fields = {field: bool if field == "chained" else str for field in Map._fields}
    for field, value in table.items():
        if field not in fields:
            raise Unfit(f"{name}: {field} is unknown{meant(field, fields)}; there are {', '.join(fields)}")
        if type(value) is not fields[field]:
            raise Unfit(f"{name}: {field} is {value!r}, and not a {fields[field].__name__}")
    if not {"keys", "protocol"} <= table.keys():
        raise Unfit(f"{name}: give keys and protocol")
    return named(name, Map(**table))  # pyright: ignore[reportArgumentType]  # the types were compared


def named(name: str, one: Map) -> Map:
    try:
        return fit(one)
    except Unfit as error:
        raise Unfit(f"{name}: {error}") from None
