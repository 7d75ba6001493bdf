"""The rows of manifest.toml, checked as they are read."""

import tomllib
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent


class Row(NamedTuple):
    id: str
    spec: str  # "SequencedMetadataBoundary"
    how: str  # graph | check | guided
    expect: str  # PASSED | FAILED
    states: int
    constants: dict[str, object] = {}  # noqa: RUF012  (never written to)
    violates: str = ""
    never: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.spec}.fizz"

    @property
    def stem(self) -> str:
        """sequenced_metadata_boundary"""
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in self.spec).lstrip("_")


def rows(path: Path = FOLDER / "manifest.toml") -> list[Row]:
    """Raises ValueError for a row that is not well formed, naming it."""
    found = []
    for number, entry in enumerate(tomllib.loads(path.read_text())["run"], 1):
        try:
            row = Row(**{**entry, "never": tuple(entry.get("never", ()))})
        except TypeError as error:
            raise ValueError(f"{path.name}: run {number} ({entry.get('id', 'without id')}): {error}") from None
        if row.how not in ("graph", "check", "guided") or row.expect not in ("PASSED", "FAILED"):
            raise ValueError(f"{path.name}: run {row.id}: how = {row.how!r}, expect = {row.expect!r}")
        if (row.expect == "FAILED") != bool(row.violates):
            raise ValueError(f"{path.name}: run {row.id}: violates where, and only where, expect is FAILED")
        if row.id in {other.id for other in found}:
            raise ValueError(f"{path.name}: two runs have the id {row.id}")
        found.append(row)
    return found
