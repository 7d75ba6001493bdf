"""Make an instance of a spec: other values for its constants, or fewer assertions.

The parser takes more than a second, and a spec has many runs. So a spec is parsed once, and what the parser has written is
rewritten for each run. Lines stay the same, so that a line that FizzBee names is a line of the spec's own file.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from highwater.specs.fizzbee.errors import SpecError
from highwater.specs.fizzbee.reader import Block, Constant, read
from highwater.specs.fizzbee.values import literal


def with_constants(text: str, constants: dict[str, object], spec: Path) -> str:
    """Return the spec's text with its top-level `NAME = ...` lines rewritten. Raises SpecError."""
    lines = text.split("\n")
    for name, value in constants.items():
        lines[constant_of(text, name, spec).line - 1] = f"{name} = {literal(value)}"
    return "\n".join(lines)


def constant_of(text: str, name: str, spec: Path) -> Constant:
    """Return a top-level constant that stands on one line. Raises SpecError if there is none of that name."""
    found = [constant for constant in read(text).constants if constant.name == name]
    if len(found) != 1:
        raise SpecError(f"{spec}: {'no' if not found else 'more than one'} top-level constant {name}")
    if not found[0].on_one_line:
        raise SpecError(f"{spec}: the constant {name} is not on one line")
    return found[0]


def named(names: Collection[str], text: str, spec: Path) -> tuple[Block, ...]:
    """Return the assertions of these names. Raises SpecError for a name that the spec does not have."""
    assertions = read(text).assertions
    unknown = [name for name in names if name not in {assertion.name for assertion in assertions}]
    if unknown:
        raise SpecError(f"{spec}: no assertion {unknown[0]}")
    return tuple(assertion for assertion in assertions if assertion.name in names)


def instance(parsed: dict[str, Any], text: str, constants: dict[str, object], assertions: Collection[str],
             spec: Path) -> dict[str, Any]:
    """Return the parsed spec with these values for its constants, and with these assertions alone. Raises SpecError."""
    statements = list(parsed.get("stmts", ()))
    at = {of["sourceInfo"]["start"]["line"]: number for number, of in enumerate(statements)}
    for name, value in constants.items():
        line = constant_of(text, name, spec).line
        number = at.get(line, -1)
        if number < 0 or not statements[number].get("pyStmt", {}).get("code", "").startswith(name):
            raise SpecError(f"{spec}:{line}: the parser does not see the constant {name} as a statement of its own")
        statements[number] = assigned(statements[number], f"{name} = {literal(value)}")
    kept = [assertion for assertion in parsed.get("invariants", ()) if assertion["name"] in assertions]
    return {name: value for name, value in (parsed | {"stmts": statements, "invariants": kept}).items() if value}


def assigned(statement: dict[str, Any], code: str) -> dict[str, Any]:
    """Return a parsed top-level assignment with another right side."""
    where = statement["pyStmt"]["sourceInfo"]
    start = where["start"]
    end = {"line": start["line"], "column": start["column"] + len(code) - 1}
    return statement | {"pyStmt": {"sourceInfo": where | {"end": end}, "code": code}}
