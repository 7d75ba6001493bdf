"""Build the programs of tools/raft/etcd, which run etcd's Raft, once for their sources. Without Go a test is skipped."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from highwater.specs.fizzbee.run import build_module

SOURCES = Path(__file__).resolve().parents[2] / "tools" / "raft" / "etcd"
ENV = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}


def go() -> str:
    found = build_module().go_on_path()
    if found is None:
        pytest.skip("Go is not installed: etcd's Raft judges nothing here")
    return found


def built(package: str, *flags: str) -> Path:
    """Return the program of a package of SOURCES."""
    sources = [path for path in sorted(SOURCES.rglob("*")) if path.is_file()]
    stamp = hashlib.sha256(b"".join([package.encode(), *map(str.encode, flags), *(path.read_bytes() for path in sources)]))
    program = build_module().cache() / f"etcd-raft-{stamp.hexdigest()[:16]}"
    if not program.exists() and (problem := built_at(program, SOURCES, package, *flags)):
        pytest.skip(f"etcd's Raft cannot be built, so it judges nothing here: {problem}")
    return program


def built_at(program: Path, sources: Path, package: str, *flags: str) -> str:
    """Build a program. Return the end of what Go says if it cannot; "" if it can."""
    done = subprocess.run([go(), "build", *flags, "-o", program, package], cwd=sources, env=os.environ | ENV,
                          capture_output=True, text=True)
    return done.stderr.strip()[-300:] if done.returncode else ""


def module() -> Path:
    """Return the folder of etcd's module, which Go has fetched."""
    done = subprocess.run([go(), "list", "-m", "-f", "{{.Dir}}", "go.etcd.io/raft/v3"], cwd=SOURCES, env=os.environ | ENV,
                          capture_output=True, text=True)
    if done.returncode or not done.stdout.strip():
        pytest.skip(f"etcd's Raft cannot be fetched, so it judges nothing here: {done.stderr.strip()[-300:]}")
    return Path(done.stdout.strip())
