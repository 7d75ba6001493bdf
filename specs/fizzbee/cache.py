"""Cache the results of FizzBee, so that an unchanged question is not asked twice.

Safety: an entry is used only for the same spec, constants, options, FizzBee and sources of this folder. So no entry of an
earlier wrapper is used, which may have let something pass. A run without a verdict (ERROR, STOPPED) is not kept.
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
    path = build_module().cache() / "specs" / f"{spec.stem}-{what}-{key(what, version, spec, constants, options)}.z"
    try:
        entry = marshal.loads(zlib.decompress(path.read_bytes()))
        return READ[what](entry)
    except (OSError, zlib.error, ValueError, TypeError, EOFError):
        pass
    result = compute()
    verdict = result[0].verdict if isinstance(result, tuple) else getattr(result, "verdict", "PASSED")
    if verdict in KEPT:
        keep(path, result)
    return result


def both_of(entry: list) -> Both:
    checked, graph = entry
    return CheckResult(**checked), Graph(*graph)


READ: dict[str, Callable[[Any], Any]] = {  # what was asked -> how its entry is read
    "graph": lambda entry: Graph(*entry), "check": lambda entry: CheckResult(**entry),
    "guided": lambda entry: CheckResult(**entry), "explored": both_of}


def key(what: str, version: str, spec: Path, constants: dict[str, object], options: list) -> str:
    """Digest all that a result depends on."""
    knobs = {name: literal(value) for name, value in constants.items()}
    asked = json.dumps([what, spec.name, version, options, knobs, marshal.version], sort_keys=True)
    digest = hashlib.sha256()
    for part in (spec.read_bytes(), asked.encode(), *sources()):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()[:32]


def sources() -> list[bytes]:
    """Read every module of this folder: its name, then its text. Each may decide a result."""
    return [part for path in sorted(SOURCES.glob("*.py")) for part in (path.name.encode(), path.read_bytes())]


def plain(result: Graph | CheckResult) -> Any:
    return (result.states, result.initial, result.edges) if isinstance(result, Graph) else asdict(result)


def keep(path: Path, result: Graph | CheckResult | Both) -> None:
    """Write the entry whole, and put it in place in one step."""
    entry = [plain(one) for one in result] if isinstance(result, tuple) else plain(result)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as new:
        new.write(zlib.compress(marshal.dumps(entry)))
    os.replace(new.name, path)
