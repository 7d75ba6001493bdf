"""Safety: no process of a story outlives it, whatever ends it, and one that ends by itself is noticed.

Each runs under the leash of highwater/servers/leash.py. Signals go to the process itself, so that a stopped one still ends with
its leash.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from highwater.servers import leash

START_LIMIT_S = 60.0
END_LIMIT_S = 180.0


class Broken(Exception):
    """A process of the story did what it must not, or a step of the story cannot be done. The message says which."""


class Process:
    """A process that may be killed, stopped and started again. What it prints is appended to `log`."""

    def __init__(self, name: str, words: Sequence[str], log: Path, environment: Mapping[str, str]):
        self.name, self.words, self.log, self.environment = name, list(words), log, environment
        self.pid_file = log.with_suffix(".pid")
        self.leash: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.pid_file.unlink(missing_ok=True)
        held = [sys.executable, "-SE", leash.__file__, "--pid", str(self.pid_file), *self.words]
        with self.log.open("ab") as out:
            self.leash = subprocess.Popen(held, stdin=subprocess.PIPE, stdout=out, stderr=out, env=dict(self.environment))

    @property
    def runs(self) -> bool:
        """Return whether it was started, and not ended by `kill` or `end`."""
        return self.leash is not None

    def signal(self, number: int) -> None:
        """Send a signal. Raises Broken if the process has ended by itself."""
        until_s = time.monotonic() + START_LIMIT_S
        while not self.pid_file.exists() and time.monotonic() < until_s:
            self.check()
            time.sleep(0.01)
        self.check()
        os.kill(int(self.pid_file.read_text()), number)

    def check(self) -> None:
        """Raise Broken if the process has ended by itself."""
        if self.leash is not None and self.leash.poll() is not None:
            raise Broken(f"{self.name} ended by itself with {self.leash.returncode}: {last_line(self.log)}")

    def kill(self) -> None:
        """Kill it, stopped or not, and wait for its end."""
        self.signal(signal.SIGKILL)
        self._waited()

    def ended(self) -> None:
        """Wait for its end, once it was told to end. Raises Broken if it has another exit code than 0."""
        if code := self._waited():
            raise Broken(f"{self.name} ended with {code} when it was told to end: {last_line(self.log)}")

    def _waited(self) -> int:
        assert self.leash is not None and self.leash.stdin is not None
        try:
            return self.leash.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Broken(f"{self.name} did not end within {END_LIMIT_S:.0f} s: {last_line(self.log)}") from None
        finally:
            self.close()

    def close(self) -> None:
        """End it in any case."""
        if self.leash is not None:
            held, self.leash = self.leash, None
            leash.end(held)


def last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return f"{lines[-1] if lines else 'it said nothing'} ({log})"
