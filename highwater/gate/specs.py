"""Check the specs: FizzBee's verdict on each row of the manifest, and its graph against the model's."""

from collections.abc import Iterator

from highwater.gate.exits import INCOMPLETE, OF_KIND, SPEC
from highwater.gate.rows import Check, Found


def checks(protocol: str, deep: bool) -> Iterator[Check]:
    from highwater.specs.fizzbee.check import Fizz
    from highwater.specs.fizzbee.errors import FizzMissing
    from highwater.specs.runs import rows

    try:
        Fizz.find()
    except FizzMissing as error:
        yield Check(protocol, "spec", "all of its rows in specs/", missing, (str(error),))
        return
    for row in rows():
        if row.stem == protocol:
            what = f"{row.id}: {row.expect}" + (f" {row.violates}" if row.violates else "")
            yield Check(protocol, "spec", what, conformance, (row.spec, row.id, deep and bool(row.deep)),
                        ("fizzbee",), 3 if row.how == "guided" else 2 + row.states / 200)


def missing(why: str) -> Found:
    return Found("", INCOMPLETE, why)


def conformance(spec: str, name: str, deep: bool) -> Found:
    """Check one row. FizzBee runs, also if an earlier run of it is in the cache of specs/fizzbee/cache.py."""
    from highwater.conformance.conform import conform
    from highwater.specs.fizzbee.check import Fizz
    from highwater.specs.runs import FOLDER, deeper, rows_of

    [row] = [row for row in rows_of(FOLDER / f"{spec}.toml") if row.id == name]
    result = conform(deeper(row) if deep else row, Fizz.find(), cache=False)
    return Found(result.figure, 0 if result.ok else ({"spec": SPEC} | OF_KIND)[result.kind], result.message)
