"""Cache the results of FizzBee, and what its parser has written, so that an unchanged question is not asked twice.

Safety: an entry is used only for the same spec, constants, options, FizzBee and sources of this folder. So no entry of an
earlier wrapper is used, which may have let something pass. A run without a verdict (ERROR, STOPPED) is not kept, and nor is a
parse of a spec about which the parser complained.
"""

import hashlib
import json
import marshal
import os
import tempfile
import zlib
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from highwater.specs.fizzbee.files import Graph
from highwater.specs.fizzbee.run import build_module
from highwater.specs.fizzbee.values import literal
from highwater.specs.fizzbee.verdict import CheckResult

SOURCES = Path(__file__).parent
KEPT = ("PASSED", "FAILED", "DEADLOCK")

Both = tuple[CheckResult, Graph]
Found = TypeVar("Found", Graph, CheckResult, Both)


def kept(what: str, version: str, spec: Path, constants: dict[str, object], options: list,
         compute: Callable[[], Found]) -> Found:
    """Return the result of `compute`, from the cache if it is there. An entry that cannot be read is computed again. `what` is
    the verb, `version` is FizzBee's."""
    path = entry_path(f"{spec.stem}-{what}-{key(what, version, spec, constants, options)}")
    try:
        return READ[what](entry_at(path))
    except UNREADABLE:
        pass
    result = compute()
    verdict = result[0].verdict if isinstance(result, tuple) else getattr(result, "verdict", "PASSED")
    if verdict in KEPT:
        keep(path, [plain(one) for one in result] if isinstance(result, tuple) else plain(result))
    return result


def kept_parse(parser: Path, version: str, name: str, text: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result of `compute`, which is what this parser makes of the spec's text, from the cache if it is there."""
    program = parser.stat()
    asked = json.dumps([version, str(parser), program.st_size, program.st_mtime_ns])
    path = entry_path(f"{name}-parse-{digest(text.encode(), asked.encode())}")
    try:
        return dict(entry_at(path))
    except UNREADABLE:
        pass
    parsed = compute()
    keep(path, parsed)
    return parsed


def entry_path(name: str) -> Path:
    return build_module().cache() / "specs" / f"{name}.z"


def entry_at(path: Path) -> Any:
    """Read an entry. Raises one of UNREADABLE if there is none, or if it is damaged."""
    return marshal.loads(zlib.decompress(path.read_bytes()))


def both_of(entry: list) -> Both:
    checked, graph = entry
    return CheckResult(**checked), Graph(*graph)


UNREADABLE = (OSError, zlib.error, ValueError, TypeError, EOFError)
READ: dict[str, Callable[[Any], Any]] = {  # what was asked -> how its entry is read
    "graph": lambda entry: Graph(*entry), "check": lambda entry: CheckResult(**entry),
    "guided": lambda entry: CheckResult(**entry), "explored": both_of}


def key(what: str, version: str, spec: Path, constants: dict[str, object], options: list) -> str:
    """Digest all that a result depends on."""
    knobs = {name: literal(value) for name, value in constants.items()}
    asked = json.dumps([what, spec.name, version, options, knobs, marshal.version], sort_keys=True)
    return digest(spec.read_bytes(), asked.encode())


def digest(*parts: bytes) -> str:
    """Digest these parts, and the sources of this folder."""
    found = hashlib.sha256()
    for part in (*parts, *sources()):
        found.update(len(part).to_bytes(8, "big") + part)
    return found.hexdigest()[:32]


def sources() -> list[bytes]:
    """Read every module of this folder: its name, then its text. Each may decide a result."""
    return [part for path in sorted(SOURCES.glob("*.py")) for part in (path.name.encode(), path.read_bytes())]


def plain(result: Graph | CheckResult) -> Any:
    return (result.states, result.initial, result.edges) if isinstance(result, Graph) else asdict(result)


def keep(path: Path, entry: Any) -> None:
    """Write the entry whole, and put it in place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as new:
        new.write(zlib.compress(marshal.dumps(entry)))
    os.replace(new.name, path)
