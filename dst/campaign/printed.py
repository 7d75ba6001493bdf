"""Keep the last lines that runs print. Safety: no run fills a terminal, a disk or the memory, however much it prints.

A process that runs seeds writes to a pipe in place of its stdout and stderr. At the beginning of each seed it writes a mark. So
the process that reads the pipe can tell what each seed has printed, also by C code or by programs that it started.
"""

import os
import re
import sys
from contextlib import suppress
from fcntl import F_DUPFD_CLOEXEC, fcntl

LINES, BYTES = 20, 4_000  # of the output of a seed, at most
PIECE = 1 << 20  # as large as pipes may be, so that no mark is cut
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def new_pipe() -> tuple[int, int]:
    """Return a pipe whose numbers are none of a program's standard files, also if those are closed."""
    ends = os.pipe()
    moved = fcntl(ends[0], F_DUPFD_CLOEXEC, 3), fcntl(ends[1], F_DUPFD_CLOEXEC, 3)
    for end in ends:
        os.close(end)
    return moved


class Writer:
    """The end of the pipe in the process that runs seeds."""

    def __init__(self, stream: int, mark: bytes):
        self.stream, self.mark = stream, mark
        for number in (1, 2):
            os.dup2(stream, number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, errors="backslashreplace", closefd=False) for number in (1, 2))

    def begin(self, seed: int) -> None:
        self.flush()
        with suppress(OSError):  # a run has closed it
            os.write(self.stream, b"%b%d\n" % (self.mark, seed))

    def flush(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError, AttributeError):  # a run has closed it, or replaced it
                stream.flush()


class Printed:
    """The end of the pipe in the process that reads it."""

    def __init__(self, stream: int, mark: bytes):
        self.stream, self.mark = stream, mark
        self.seed, self.size, self.end = -1, 0, b""  # the seed that was begun last, how many bytes it has printed, their end
        self.ended: dict[int, tuple[int, bytes]] = {}  # other seed -> the same
        os.set_blocking(stream, False)

    def read(self) -> bool:
        """Read all that is there. Returns False at the end of the pipe."""
        try:
            data = os.read(self.stream, PIECE)
        except BlockingIOError:
            return True
        first, *others = data.split(self.mark)
        self._add(first)
        for piece in others:
            seed, _, output = piece.partition(b"\n")
            self.ended[self.seed] = self.size, self.end
            self.seed, self.size, self.end = int(seed) if seed.isdigit() else -1, 0, b""
            self._add(output)
        return bool(data)

    def text_of(self, seed: int) -> str:
        """Return the last lines that a seed has printed. They do not depend on the sizes in which the pipe was read."""
        size, end = (self.size, self.end) if seed == self.seed else self.ended.get(seed, (0, b""))
        lines = CONTROL.sub("?", end.decode(errors="backslashreplace")).splitlines()
        if size > len(end) and len(lines) > 1:
            lines = lines[1:]  # the first is the end of a line
        return "\n".join([".."] * (size > len(end) or len(lines) > LINES) + lines[-LINES:])

    def forget(self, seed: int) -> None:
        self.ended.pop(seed, None)

    def _add(self, output: bytes) -> None:
        self.size += len(output)
        self.end = (self.end + output)[-BYTES:]
