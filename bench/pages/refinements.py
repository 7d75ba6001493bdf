"""Renders which safeguards a refinement needs: with each switched off, the step that is none of the abstract model, or the
property that fails."""

from typing import Any

from bench.pages.protocol import instances_of, safeguards_of, set_to, table
from highwater import project
from highwater.gate.refinements import breaking, explored, first_failure, names_of
from highwater.specs.runs import rows


def refinements() -> str:
    """One row for each safeguard of each protocol that refines an abstract model."""
    body = []
    for stem in project.ours("refinement"):
        mapping = project.load("refinement", stem)
        safeguards = safeguards_of(instances_of(stem).module)
        off = [{name: value for name, value in one.items() if name in safeguards or isinstance(value, str)}
               for one in mapping.OFF]
        only = {str(one): set_to(shown) for shown, one in zip(off, mapping.OFF)}
        body += [(stem, onto, f"`{only[str(one)]}`", broken_step(stem, one, onto)) for one, onto in breaking(stem)]
        for setting, properties in broken_properties(stem, safeguards, off).items():
            body.append((stem, ", ".join(names_of(mapping)), f"`{setting}`", f"property {', '.join(sorted(properties))}"))
    return table(("protocol", "abstract model", "switched off", "what breaks"), body)


def broken_step(stem: str, constants: dict[str, Any], onto: str) -> str:
    _, wrong = first_failure(*explored(stem, constants, (onto,)))
    return f"step {wrong.action}"


def broken_properties(stem: str, safeguards: dict[str, str], shown: list[dict[str, Any]]) -> dict[str, set[str]]:
    """Safeguards that a run of the spec switches off -> the properties that fail, unless a setting in `shown` says enough."""
    names, settings = {name for one in shown for name in one}, [item for one in shown for item in one.items()]
    found: dict[str, set[str]] = {}
    for row in rows():
        off = {name: value for name, value in row.constants.items() if name in safeguards}
        new = off.keys() - names or (len(off) == 1 and not any(item in settings for item in off.items()))
        if row.stem == stem and row.expect == "FAILED" and off and new:
            found.setdefault(set_to(off), set()).add(row.violates)
    return found
