"""Safety: a server that a program has started never outlives the program, whatever ends the program.

`python leash.py COMMAND ...` runs the command and ends it when its own standard input closes. The end of the parent process
closes it, whatever the cause. leash.py also ends when the command ends. `leashed` starts a server in this way, on a free port.
"""

import fcntl
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import cache
from random import SystemRandom
from typing import TextIO

START_LIMIT_S = 60
TRIES = 3  # another program may take the port between our looking for it and the server's


class CannotStart(Exception):
    """The server is not there or did not come up; the text says why."""


@contextmanager
def leashed(name: str, command: Callable[[int], list[str]]) -> Generator[str, None, None]:
    """The server's URL, while it runs; `command` tells how to start it on a port. Raises CannotStart."""
    with tempfile.TemporaryFile("w+") as said:
        server, port = started(name, command, said)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            end(server)


def started(name: str, command: Callable[[int], list[str]], said: TextIO) -> tuple[subprocess.Popen[bytes], int]:
    """Start the server on a free port. What it prints goes to `said`. Raises CannotStart."""
    for _ in range(TRIES):
        port = free_port()
        server = subprocess.Popen([sys.executable, "-SE", os.path.abspath(__file__), *command(port)], stdin=subprocess.PIPE,
                                  stdout=said, stderr=said)
        if answers(server, port):
            return server, port
        end(server)
    said.seek(0)
    raise CannotStart(f"{name} did not start: {(said.read().strip().splitlines() or ['it said nothing'])[-1]}")


GIVEN: set[int] = set()  # ports, to this process


def free_port() -> int:
    """Return a port that nobody listens on, outside the range from which the kernel gives ports to connections that go out.

    None is returned twice, neither to this process nor to another one of this user while this one lives: whoever has it may not
    listen yet, or may be down at the moment."""
    given = locks()
    while True:
        port = SystemRandom().randrange(10_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            fcntl.lockf(given, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
            if port not in GIVEN:
                GIVEN.add(port)
                return port


@cache
def locks() -> int:
    """Return the file, open, in which a process locks the byte whose place is the number of the port."""
    return os.open(os.path.join(tempfile.gettempdir(), f"highwater-ports-{os.getuid()}"),
                   os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def answers(server: subprocess.Popen[bytes], port: int) -> bool:
    """Return whether the server accepts connections before the time limit and before it ends."""
    end_s = time.monotonic() + START_LIMIT_S
    while time.monotonic() < end_s and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return True
        except OSError:
            time.sleep(0.02)
    return False


def end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin  # it was started with a pipe
    server.stdin.close()
    try:
        server.wait(10)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def hold(command: list[str], pid_file: str = "") -> int:
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    if pid_file:
        with open(f"{pid_file}.half", "w") as half:
            half.write(str(child.pid))
        os.replace(half.name, pid_file)

    def wait_for_the_end_of_input() -> None:
        sys.stdin.buffer.read()
        child.kill()

    threading.Thread(target=wait_for_the_end_of_input, daemon=True).start()
    return child.wait()


if __name__ == "__main__":
    words = sys.argv[1:]
    os._exit((hold(words[2:], words[1]) if words[0] == "--pid" else hold(words)) & 255)
