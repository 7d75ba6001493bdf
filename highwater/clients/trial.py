"""Safety: no process, held request or rule of a trial outlives it, whatever ends it.

A trial is one run of the client, and of those beside it, on a fresh place in a store, with some faults. Then what they left is
checked, by commands that speak to the server directly.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from highwater.clients.faults import HOLD, Fault, Placed, rule, rules
from highwater.recorder.rules import MUTATIONS
from highwater.recorder.session import Session, recording
from highwater.traces.recorded.s3log import Request

LOOK_AGAIN_S = 0.002
SETUP = "setup"  # the name of its client, in its log
TAKEN = ("client", "check", "check-again", SETUP, "reopen")  # names of commands, so of no client beside the one that is tried
HUNG = -1_000  # in the place of an exit code
Words = tuple[str, ...]  # of a command


class Place(NamedTuple):
    """A place for the data of a trial: a bucket, and a prefix in it, "" or ending with a slash."""

    endpoint: str
    bucket: str
    prefix: str = ""

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


class Asked(NamedTuple):
    """The commands of a campaign. `clients` has those to try by name: the first is tried, and the others run beside it."""

    clients: Mapping[str, Words]
    check: Words = ()
    setup: Words = ()
    reopen: Words = ()
    limit_s: float = 60  # of each command
    environment: Mapping[str, str] = {}  # credentials, and what the commands need beside what this process has


class Ended(NamedTuple):
    """A command that has ended. `exit_code`: negative for a signal, HUNG if it had to be killed."""

    exit_code: int
    seconds: float
    output: str
    told: str = ""  # what it wrote to HIGHWATER_TOLD


class Seen(NamedTuple):
    """The evidence of a trial. `ended` has each client, `checks` each check with its name."""

    before: list[Request]  # those of --setup
    requests: list[Request]
    ended: dict[str, Ended]
    checks: list[tuple[str, Ended]]
    reached: tuple[bool, ...]  # of the faults, in their order
    killed: frozenset[str] = frozenset()  # the clients that a fault has killed


class SetupFailed(Exception):
    """The user's --setup did not succeed. The text says how it ended."""


def seen(asked: Asked, place: Place, placed: Sequence[Placed], faults: dict[str, Fault], folder: Path,
         stopped: Callable[[], bool] = lambda: False) -> Seen:
    """Run a trial. Its log and outputs are in `folder`, which exists. Raises SetupFailed, and KeyboardInterrupt if `stopped`
    says so."""
    with processes(asked, folder, stopped) as started:
        before: list[Request] = []
        if asked.setup:
            with open(folder / f"{SETUP}.ndjson", "w") as log, recording(place.endpoint, (SETUP,), log=log) as session:
                ended = started.run(SETUP, asked.setup, place._replace(endpoint=session.urls[SETUP]))
                before = [*session.settled()]
            if ended.exit_code:
                raise SetupFailed(f"--setup ended with {said(ended)}")
        beside = Beside(started, place, placed, faults)
        with open(folder / "log.ndjson", "w") as log, recording(
                place.endpoint, tuple(asked.clients), rules(placed, faults), log, each=beside.over) as session:
            beside.run(session)
            session.rules("")
            requests = sorted(session.settled(), key=lambda one: one.number)
        checks = [("--check", started.run("check", asked.check, place, beside.ended))] if asked.check else []
        if asked.reopen:
            checks.append(("--reopen", started.run("reopen", asked.reopen, place)))
            if asked.check:
                checks.append(("--check after --reopen", started.run("check-again", asked.check, place, beside.ended)))
    took = {request.rule for request in requests}
    return Seen(before, requests, beside.ended, checks, tuple(
        one in beside.kills or (rule(one, faults) in took and not faults_kill(one, faults)) for one in placed),
        frozenset(one.client for one in beside.kills))


def faults_kill(placed: Placed, faults: dict[str, Fault]) -> bool:
    return placed.fault != HOLD and bool(faults[placed.fault].kills)


class Processes:
    """The commands of a trial that are running, each in a process group of its own."""

    def __init__(self, asked: Asked, folder: Path, stopped: Callable[[], bool]):
        self.asked, self.folder, self.stopped = asked, folder, stopped
        self.running: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
        self.ended: dict[str, Ended] = {}
        self.held = ""  # a client that waits for the others, so its time does not count

    def start(self, name: str, command: Words, place: Place, **more: str) -> None:
        words = [filled(word, place) for word in command]
        environment = {**os.environ, **self.asked.environment, **environment_of(place), **more,
                       "HIGHWATER_TOLD": str(self.told(name).absolute())}
        with open(self.folder / f"{name}.txt", "ab") as output:
            self.running[name] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                                  start_new_session=True, env=environment), time.monotonic()

    def run(self, name: str, command: Words, place: Place, of: Mapping[str, Ended] | None = None) -> Ended:
        """Run a command to its end. It finds the exit code of the first client in HIGHWATER_EXIT."""
        codes = {"HIGHWATER_EXIT": f"{next(iter(of.values())).exit_code}"} if of else {}
        self.start(name, command, place, **codes)
        while name in self.running:
            self.look()
        return self.ended[name]

    def look(self) -> None:
        """Wait a moment, and note what has ended. Kills what has run for too long."""
        time.sleep(LOOK_AGAIN_S)
        if self.stopped():
            raise KeyboardInterrupt
        for name, (process, began) in list(self.running.items()):
            seconds = time.monotonic() - began
            if process.poll() is not None:
                self.end(name, process.returncode, seconds)
            elif seconds > self.asked.limit_s and name != self.held:
                self.kill(name)
                self.end(name, HUNG, seconds)

    def release(self, name: str) -> None:
        """Let the time of a client that was held begin."""
        self.held = ""
        if name in self.running:
            self.running[name] = self.running[name][0], time.monotonic()

    def end(self, name: str, exit_code: int, seconds: float) -> None:
        process, _ = self.running.pop(name)
        kill_group(process)  # what it has started, and left
        text = (self.folder / f"{name}.txt").read_text(errors="replace")
        told = self.told(name).read_text(errors="replace") if self.told(name).exists() else ""
        self.ended[name] = Ended(exit_code, seconds, text, told)

    def told(self, name: str) -> Path:
        """The file to which a client may write `told` lines."""
        return self.folder / f"{name}.told"

    def kill(self, name: str) -> None:
        process, _ = self.running[name]
        kill_group(process)
        process.wait()


@contextmanager
def processes(asked: Asked, folder: Path, stopped: Callable[[], bool]) -> Generator[Processes, None, None]:
    found = Processes(asked, folder, stopped)
    try:
        yield found
    finally:
        for name in list(found.running):
            found.kill(name)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


class Beside:
    """The clients of a trial, side by side: the first alone, then the others; or, where one is held, the others meanwhile."""

    def __init__(self, started: Processes, place: Place, placed: Sequence[Placed], faults: dict[str, Fault]):
        self.started, self.place, self.placed, self.faults = started, place, placed, faults
        self.clients = started.asked.clients
        self.mutated = dict.fromkeys(self.clients, 0)  # client -> its mutations that are over
        self.ended: dict[str, Ended] = {}
        self.kills: set[Placed] = set()  # those faults that have killed

    def run(self, session: Session) -> None:
        self.session = session
        held = next((one for one in self.placed if one.fault == HOLD), None)
        if held:
            self.start(held.client)
            text = rule(held, self.faults)
            while held.client in self.started.running and text not in self.session.held():
                self.look()
            self.started.held = held.client
        for name in self.clients:
            if not held or name != held.client:
                self.start(name)
                self.wait(name)
        if held:
            self.session.rules(rules([one for one in self.placed if one != held], self.faults))
            self.started.release(held.client)
            self.wait(held.client)
        self.ended = {name: self.started.ended[name] for name in self.clients}

    def start(self, name: str) -> None:
        self.started.start(name, self.clients[name], self.place._replace(endpoint=self.session.urls[name]))

    def wait(self, name: str) -> None:
        while name in self.started.running:
            self.look()

    def look(self) -> None:
        self.started.look()
        for one in self.placed:
            if one not in self.kills and faults_kill(one, self.faults) and rule(one, self.faults) in self.session.held():
                self.kill(one)
                self.session.rules(rules([other for other in self.placed if other != one], self.faults))

    def kill(self, one: Placed) -> None:
        if one.client in self.started.running:
            kill_group(self.started.running[one.client][0])
            self.kills.add(one)

    def over(self, request: Request) -> None:
        """Kill a client as soon as it has its reply: this runs in the recorder's thread."""
        if request.op in MUTATIONS:
            self.mutated[request.client] += 1
            for one in self.placed:
                if one[1:] == (request.client, self.mutated[request.client]) and one.fault != HOLD and (
                        self.faults[one.fault].kills == "after"):
                    self.kill(one)


def mutations(requests: Sequence[Request], client: str) -> list[Request]:
    """Return a client's requests that change objects, in the order in which they came."""
    return sorted((one for one in list(requests) if one.client == client and one.op in MUTATIONS), key=lambda one: one.number)


def filled(word: str, place: Place) -> str:
    for name, value in (("endpoint", place.endpoint), ("url", place.url), ("bucket", place.bucket), ("prefix", place.prefix)):
        word = word.replace(f"{{{name}}}", value)
    return word


def environment_of(place: Place) -> dict[str, str]:
    """The usual variables of S3 clients: those of the AWS SDKs, and of Rust's object_store."""
    return {"AWS_ENDPOINT_URL": place.endpoint, "AWS_ENDPOINT_URL_S3": place.endpoint, "AWS_ENDPOINT": place.endpoint,
            "AWS_ALLOW_HTTP": "true", "AWS_EC2_METADATA_DISABLED": "true", "HIGHWATER_ENDPOINT": place.endpoint,
            "HIGHWATER_URL": place.url, "HIGHWATER_BUCKET": place.bucket, "HIGHWATER_PREFIX": place.prefix}


def said(ended: Ended) -> str:
    """How a command ended, with the last line that it printed."""
    how = "no end within its limit" if ended.exit_code == HUNG else \
        signal.Signals(-ended.exit_code).name if ended.exit_code < 0 else f"exit code {ended.exit_code}"
    return ": ".join([how, *ended.output.strip().splitlines()[-1:]])
