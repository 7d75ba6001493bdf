"""Go programs that judge us: built from a folder of tools/, once for each state of its files."""

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from highwater.specs.fizzbee.run import build_module


def built(sources: Path, name: str, judge: str) -> Path:
    """Return the program; skip the test if there is no Go, or if it cannot be built. `judge`: who judges nothing then."""
    build = build_module()
    go = build.go_on_path()
    if go is None:
        pytest.skip(f"Go is not installed: {judge} judges nothing here")
    stamp = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources.iterdir()))).hexdigest()[:16]
    program = build.cache() / f"{name}-{stamp}"
    if not program.exists():
        env = os.environ | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false"}
        done = subprocess.run([go, "build", "-o", program, "."], cwd=sources, env=env, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{judge} cannot be built, so it judges nothing here: {done.stderr.strip()[-300:]}")
    return program
