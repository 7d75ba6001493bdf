"""Check the specs: FizzBee's verdict on each row of the manifest, and its graph against the model's."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from highwater import project
from highwater.gate.exits import BAD_INPUT, INCOMPLETE, OF_KIND, SPEC
from highwater.gate.rows import Check, Found, said
from highwater.gate.tools import missing

if TYPE_CHECKING:
    from highwater.conformance.conform import Result
    from highwater.specs.runs import Row


def checks(protocol: str, deep: bool) -> Iterator[Check]:
    from highwater.specs.runs import rows_for

    try:
        rows = rows_for(protocol)
    except ValueError as error:
        yield Check(protocol, "spec", "its table of runs", said, ("", BAD_INPUT, str(error)))
        return
    if project.is_users(protocol) and not project.spec(protocol, ".fizz").is_file():
        yield from of_model_alone(protocol, rows, deep)
        return
    if reason := missing("fizzbee"):
        yield Check(protocol, "spec", "all of its rows in specs/", said, ("", INCOMPLETE, reason))
        return
    for row in rows:
        what = f"{row.id}: {row.expect}" + (f" {row.violates}" if row.violates else "")
        yield Check(protocol, "spec", what, conformance, (row.spec, row.id, deep and bool(row.deep)),
                    ("fizzbee",), 3 if row.how == "guided" else 2 + row.states / 200)


def of_model_alone(protocol: str, rows: list["Row"], deep: bool) -> Iterator[Check]:
    """Yield the checks of a user's protocol without a .fizz: its rows hold for the model, and there is no second opinion."""
    if not project.has("model", protocol):
        return
    for row in rows:
        what = f"{row.id}: {row.expect}" + (f" {row.violates}" if row.violates else "")
        yield Check(protocol, "model", what, conformance_alone, (row.spec, row.id, deep and bool(row.deep)))
    none = ("not held against FizzBee", 0, "") if rows else ("", INCOMPLETE, (
        "there is no spec.toml, so no instance of the model is explored: `highwater model conform --accept` writes one"))
    yield Check(protocol, "spec", "no .fizz: the model has no second opinion", said, none)


def row_of(spec: str, name: str, deep: bool) -> "Row":
    """Read one row. The tables of other specs are not read, so the check does not depend on them."""
    from highwater.specs.runs import deeper, rows_of

    row = next(row for row in rows_of(project.spec(spec, ".toml"), spec=spec) if row.id == name)
    return deeper(row) if deep else row


def conformance(spec: str, name: str, deep: bool) -> Found:
    """Check one row. FizzBee runs, also if an earlier run of it is in the cache of specs/fizzbee/cache.py."""
    from highwater.conformance.conform import conform
    from highwater.specs.fizzbee.check import Fizz

    return found(conform(row_of(spec, name, deep), Fizz.find(), cache=False))


def conformance_alone(spec: str, name: str, deep: bool) -> Found:
    from highwater.conformance.conform import conform

    return found(conform(row_of(spec, name, deep), None))


def found(result: "Result") -> Found:
    return Found(result.figure, 0 if result.ok else ({"spec": SPEC} | OF_KIND)[result.kind], result.message)
