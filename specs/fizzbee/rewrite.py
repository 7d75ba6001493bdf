"""Rewrite the text of a spec: other values for its constants, or fewer assertions. The number of lines stays the same, so that
a line that FizzBee names is a line of the spec's own file."""

from collections.abc import Collection, Iterable
from pathlib import Path

from highwater.specs.fizzbee.errors import SpecError
from highwater.specs.fizzbee.reader import Block, read
from highwater.specs.fizzbee.values import literal


def with_constants(text: str, constants: dict[str, object], spec: Path) -> str:
    """Return the spec's text with its top-level `NAME = ...` lines rewritten. Raises SpecError."""
    known, lines = read(text).constants, text.split("\n")
    for name, value in constants.items():
        found = [constant for constant in known if constant.name == name]
        if len(found) != 1:
            raise SpecError(f"{spec}: {'no' if not found else 'more than one'} top-level constant {name}")
        if not found[0].on_one_line:
            raise SpecError(f"{spec}: the constant {name} is not on one line")
        lines[found[0].line - 1] = f"{name} = {literal(value)}"
    return "\n".join(lines)


def without_assertions(text: str) -> str:
    return blanked(text, read(text).assertions)


def without_liveness(text: str) -> str:
    return blanked(text, (assertion for assertion in read(text).assertions if assertion.eventually))


def with_only(names: Collection[str], text: str, spec: Path) -> str:
    """Return the spec's text with only these assertions. Raises SpecError for a name that the spec does not have."""
    assertions = read(text).assertions
    known = {assertion.name for assertion in assertions}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SpecError(f"{spec}: no assertion {unknown[0]}")
    return blanked(text, (assertion for assertion in assertions if assertion.name not in names))


def blanked(text: str, blocks: Iterable[Block]) -> str:
    """Return the text with these blocks, and the comments after each, as empty lines."""
    lines = text.split("\n")
    for block in blocks:
        lines[block.line - 1:block.until - 1] = [""] * (block.until - block.line)
    return "\n".join(lines)
