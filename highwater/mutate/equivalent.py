"""Read the list of mutants that change nothing that anybody could observe, and that of known survivors. Each has a reason.

Ours are in equivalent.toml and survivors.toml beside this module, a project's in its highwater.toml, as `[[equivalent]]` and
`[[survivor]]`. An entry names a mutant by its file, its function, its operator, and the text before and after. Without a
function it is of all functions. It does not name the line, so it outlives other edits.
"""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from highwater import project
from highwater.mutate.operators import Mutant

OURS = {"equivalent": Path(__file__).with_name("equivalent.toml"), "survivor": Path(__file__).with_name("survivors.toml")}


class Listed(NamedTuple):
    file: str
    operator: str
    before: str
    after: str
    reason: str
    function: str = ""  # "" for any

    def is_of(self, mutant: Mutant) -> bool:
        same = self[:4] == (mutant.file, mutant.operator, mutant.before, mutant.after)
        return same and self.function in ("", mutant.function)


def listed(kind: str = "equivalent") -> list[Listed]:
    """Return the mutants that are listed as "equivalent", or as a known "survivor". Raises ValueError if an entry lacks a field
    or has an unknown one."""
    settings = project.settings() if project.current() else tomllib.loads(OURS[kind].read_text())
    try:
        return [Listed(**entry) for entry in settings.get(kind, ())]
    except TypeError as error:
        raise ValueError(f"[[{kind}]] has the fields {', '.join(Listed._fields)}: {error}") from None


def place_of(kind: str) -> str:
    """Return the name of the file that holds the list, as a message names it."""
    return project.FILE if project.current() else f"highwater/mutate/{OURS[kind].name}"


def reason(mutant: Mutant, entries: Sequence[Listed]) -> str:
    """Return why a mutant is listed; "" if it is not."""
    return next((entry.reason for entry in entries if entry.is_of(mutant)), "")


def entry_of(mutant: Mutant, kind: str, why: str) -> str:
    """Return the entry of a list for a mutant, as TOML."""
    fields = {"file": mutant.file, "function": mutant.function, "operator": mutant.operator, "before": mutant.before,
              "after": mutant.after, "reason": why}
    return "\n".join([f"[[{kind}]]", *(f"{name} = {json.dumps(text, ensure_ascii=False)}" for name, text in fields.items())])
