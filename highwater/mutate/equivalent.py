"""Read the list of mutants that change nothing that anybody could observe. Each has a reason.

Ours are in equivalent.toml beside this module, a project's in its highwater.toml, as `[[equivalent]]`. An entry names a mutant
by its file, its operator, and the text before and after. It does not name the line, so it outlives other edits.
"""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from highwater import project
from highwater.mutate.operators import Mutant

OURS = Path(__file__).with_name("equivalent.toml")


class Equivalent(NamedTuple):
    file: str
    operator: str
    before: str
    after: str
    reason: str

    def is_of(self, mutant: Mutant) -> bool:
        return self[:4] == (mutant.file, mutant.operator, mutant.before, mutant.after)


def listed() -> list[Equivalent]:
    """Return the listed mutants. Raises ValueError if an entry lacks a field or has an unknown one."""
    settings = project.settings() if project.current() else tomllib.loads(OURS.read_text())
    try:
        return [Equivalent(**entry) for entry in settings.get("equivalent", ())]
    except TypeError as error:
        raise ValueError(f"[[equivalent]] has the fields {', '.join(Equivalent._fields)}: {error}") from None


def reason(mutant: Mutant, entries: Sequence[Equivalent]) -> str:
    """Return why a mutant is equivalent; "" if it is not listed."""
    return next((entry.reason for entry in entries if entry.is_of(mutant)), "")
