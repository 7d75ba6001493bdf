"""Find what a check needs beside this package: a program, the tests of a checkout, or a library of an extra.

Safety: the gate asks this module before it runs a check, and skips the check if a tool is missing. `highwater verify --plan`
asks it too, so the plan lists what the gate would skip.
"""

import os
import shutil
from collections.abc import Callable, Iterable
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

from highwater.gate.exits import INCOMPLETE
from highwater.gate.rows import Check, failed, said


class Tool(NamedTuple):
    missing: Callable[[], str]  # returns why it cannot be used here, and what to do; "" if it can be used
    identity: Callable[[], str]  # returns which one a check would use: another one may give another result
    build: str = ""  # the program of ours that builds or downloads it


def missing_fizzbee() -> str:
    from highwater.specs.fizzbee.check import Fizz
    from highwater.specs.fizzbee.errors import FizzMissing

    try:
        Fizz.find()
    except FizzMissing as error:
        return str(error)
    return ""


def fizzbee() -> str:
    from highwater.specs.fizzbee.run import build_module

    return " ".join(map(str, build_module().find() or ()))


def missing_java() -> str:
    from highwater.dst.spark.session import load_java

    java = load_java()
    return "" if java.installed_java() else java.MISSING


def java() -> str:
    return f"{os.environ.get('JAVA_HOME', '')} {os.path.realpath(shutil.which('java') or '')}"


def missing_versitygw() -> str:
    from highwater.servers.leash import CannotStart
    from highwater.servers.s3 import program_of

    try:
        program_of("versitygw")
    except CannotStart as error:
        return str(error)
    return ""


def versitygw() -> str:
    from highwater.servers.s3 import found

    return str(found("versitygw") or "")


def missing_checkout() -> str:
    from highwater.gate.soak import root

    return "" if (root() / "tests").is_dir() else "the tests are not installed: run this in a checkout"


def missing_library(name: str) -> str:
    try:
        found = find_spec(name)
    except ModuleNotFoundError:
        found = None
    return "" if found else failed(ModuleNotFoundError(f"No module named {name!r}", name=name)).message


TOOLS = {
    "fizzbee": Tool(missing_fizzbee, fizzbee, "tools/fizzbee/build.py"),
    "java": Tool(missing_java, java, "tools/java.py"),
    "versitygw": Tool(missing_versitygw, versitygw, "tools/s3/build.py"),
    "checkout": Tool(missing_checkout, str),
}


def missing(name: str) -> str:
    """Return why a tool or a library cannot be used here; "" if it can."""
    return TOOLS[name].missing() if name in TOOLS else missing_library(name)


def identity(name: str) -> str:
    """Return which program a check would use. The version of a library is noted when the check imports it."""
    return TOOLS[name].identity() if name in TOOLS else ""


def missing_tool(check: Check, missing: Callable[[str], str] = missing) -> str:
    """Return why a check cannot run here; "" if it has its tools."""
    return next(filter(None, map(missing, check.tools)), "")


def skipped(checks: Iterable[Check]) -> list[tuple[Check, str]]:
    """Return the checks that cannot run here, each with the reason. Look for each tool once."""
    once = cache(missing)
    reasons = [(check, known_reason(check) or missing_tool(check, once)) for check in checks]
    return [(check, reason) for check, reason in reasons if reason]


def known_reason(check: Check) -> str:
    """Return why a check is skipped, if that was known when the checks were listed."""
    if check.run is not said:
        return ""
    _, code, message = check.arguments
    return message if code == INCOMPLETE else ""
