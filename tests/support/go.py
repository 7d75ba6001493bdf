"""Go programs that judge us: built from a folder of tools/, once for each state of its files."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from highwater.specs.fizzbee.run import build_module

ENV = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}


def go(judge: str) -> str:
    """Return Go's path; skip the test if there is none. `judge`: who judges nothing then."""
    found = build_module().go_on_path()
    if found is None:
        pytest.skip(f"Go is not installed: {judge} judges nothing here")
    return found


def built(sources: Path, name: str, judge: str, *what: str) -> Path:
    """Return the program; skip the test if there is no Go, or if it cannot be built. `what`: flags and the package, for another
    one than that of the folder itself."""
    go(judge)
    files = [path for path in sorted(sources.rglob("*")) if path.is_file()]
    stamp = hashlib.sha256(b"".join([*map(str.encode, what), *(path.read_bytes() for path in files)])).hexdigest()[:16]
    program = build_module().cache() / f"{name}-{stamp}"
    if not program.exists() and (problem := built_at(program, sources, judge, *what)):
        pytest.skip(f"{judge} cannot be built, so it judges nothing here: {problem}")
    return program


def built_at(program: Path, sources: Path, judge: str, *what: str) -> str:
    """Build a program. Return the end of what Go says if it cannot; "" if it can."""
    done = subprocess.run([go(judge), "build", "-o", program, *(what or (".",))], cwd=sources, env=os.environ | ENV,
                          capture_output=True, text=True)
    return done.stderr.strip()[-300:] if done.returncode else ""


def module(sources: Path, name: str, judge: str) -> Path:
    """Return the folder of a module that Go has fetched; skip the test if it has not."""
    done = subprocess.run([go(judge), "list", "-m", "-f", "{{.Dir}}", name], cwd=sources, env=os.environ | ENV,
                          capture_output=True, text=True)
    if done.returncode or not done.stdout.strip():
        pytest.skip(f"{judge} cannot be fetched, so it judges nothing here: {done.stderr.strip()[-300:]}")
    return Path(done.stdout.strip())
