"""Run seeds in a forked process. Safety: each seed that was begun has a result, whatever its run does to its process.

A run may end its process, stop it, close its files, or catch every exception, also the alarm's. So another process waits for
the results. It kills the process of a seed that is overdue, and runs the next seeds in a new one. Of what runs print, it keeps
the last lines (printed.py).
"""

import os
import pickle
import select
import signal
import struct
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from traceback import format_exc
from typing import Any, NamedTuple

from highwater import interrupt
from highwater.dst.campaign.printed import Printed, Writer, new_pipe
from highwater.dst.sim import alarm

GRACE_S = 5.0  # after the alarm of a seed has gone off for certain
TICK_S = 1.0  # between looks at a process that sends nothing
END_S = 1.0  # for a process that has closed its pipe to end
LENGTH = struct.Struct("<Q")  # of the frame that follows, in bytes

Work = Callable[[Any], Iterable[Any]]
"""Job -> Begun(seed), its result, Begun(seed), .. It may end after any result: a new process then does the rest."""


class Begun(NamedTuple):
    """Precedes the result of a seed."""

    seed: int


class Died(NamedTuple):
    """Takes the place of the result of a seed whose run had no outcome."""

    kind: str  # "death"; "timeout", also if the process was killed here; "memory"
    message: str


class Gone(Exception):
    """The process ended before its job was done. Its argument is a Died."""


class NoSeed(Exception):
    """A process ended, and not because of a seed."""


class Child:
    """A forked process, which does one job after another. It ends with its parent."""

    def __init__(self, work: Work):
        jobs, results, prints, mark, self._parent = new_pipe(), new_pipe(), new_pipe(), os.urandom(16), os.getpid()
        for stream in (sys.stdout, sys.stderr):
            with suppress(ValueError):  # it is closed
                stream.flush()  # else both processes print what is buffered
        with interrupt.deferred():
            self.pid = os.fork()
            if not self.pid:
                os.close(jobs[1])
                os.close(results[0])
                os.close(prints[0])
                serve(work, jobs[0], results[1], prints[1], mark, self._parent)
        with suppress(OSError):  # it has ended already
            os.setpgid(self.pid, self.pid)
        os.close(jobs[0])
        os.close(results[1])
        os.close(prints[1])
        self._jobs, self._results, self.printed = jobs[1], results[0], Printed(prints[0], mark)
        self._open = [results[0], prints[0]]  # what to wait for

    def results(self, job: Any, limit_s: float) -> Generator[Any, None, None]:
        """Yield what `work` yields for a job. Raises Gone, also if nothing comes for as long as a run may take whose limit is
        `limit_s`; and what `work` raises."""
        try:
            send(self._jobs, job)
        except BrokenPipeError:
            raise Gone(self._ended(END_S)) from None
        while True:
            kind, result = self._receive(limit_s)
            if kind == "raised":
                raise result
            if kind == "done":
                return
            self.printed.read()
            yield result

    def close(self) -> int:
        """Kill the process, if it is there, and those of its group. Return its exit code, or minus the signal that ended it."""
        if not self.pid:
            return 0
        for kill in (os.killpg, os.kill):  # it may have left its group
            with suppress(ProcessLookupError):
                kill(self.pid, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self.pid = 0
        self.printed.read()
        for stream in (self._jobs, self._results, self.printed.stream):
            os.close(stream)
        return code

    def __del__(self) -> None:
        if getattr(self, "pid", 0) and os.getpid() == self._parent:
            self.close()

    def _receive(self, limit_s: float) -> tuple[str, Any]:
        until_s, frame, wanted = time.monotonic() + alarm.longest_s(limit_s) + GRACE_S, b"", LENGTH.size
        while len(frame) < wanted:
            self._await(until_s, limit_s)
            part = os.read(self._results, min(wanted - len(frame), 1 << 20))
            if not part:
                raise Gone(self._ended(END_S))
            frame += part
            if wanted == LENGTH.size == len(frame):
                wanted += LENGTH.unpack(frame)[0]
        return pickle.loads(frame[LENGTH.size:])

    def _await(self, until_s: float, limit_s: float) -> None:
        """Wait for a byte, or for the end of the pipe. Reads what is printed meanwhile. Raises Gone."""
        while self._results not in (ready := select.select(self._open, [], [], TICK_S)[0]):
            if ready and not self.printed.read():
                self._open.remove(self.printed.stream)
            if has_ended(self.pid) and not select.select([self._results], [], [], 0)[0]:
                raise Gone(self._ended(0))  # a process that it has forked holds the pipe
            if time.monotonic() > until_s:
                self.close()
                raise Gone(Died("timeout", f"not done after {limit_s:g} s, and it could not be interrupted: killed"))

    def _ended(self, within_s: float) -> Died:
        """Return how the process ended. It is killed if it does not."""
        until_s = time.monotonic() + within_s
        while not has_ended(self.pid):
            if time.monotonic() > until_s:
                self.close()
                return Died("death", "it closed the files of its process")
            time.sleep(0.01)
        code = self.close()
        if code < 0:
            return Died("death", f"it killed its process: {signal.Signals(-code).name}")
        return Died("death", f"it ended its process, with exit code {code}")


def has_ended(process: int) -> bool:
    """Return whether a child process has ended, which stays to be waited for."""
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def send(to: int, what: Any) -> None:
    data = pickle.dumps(what)
    left = memoryview(LENGTH.pack(len(data)) + data)
    while left:
        left = left[os.write(to, left):]


def receive(stream: int) -> bytes:
    """Return the next frame; b"" at the end of the stream."""
    def take(size: int) -> bytes:
        found = b""
        while len(found) < size and (part := os.read(stream, size - len(found))):
            found += part
        return found

    header = take(LENGTH.size)
    return take(*LENGTH.unpack(header)) if header else b""


def serve(work: Work, jobs: int, results: int, prints: int, mark: bytes, parent: int) -> None:
    """Do jobs until the parent has no more, and end the process. Runs in the child."""
    me, code = os.getpid(), 1
    try:
        writer = Writer(prints, mark)
        os.setpgid(0, 0)  # signals to the group of a run's process do not reach the parent
        interrupt.die_with(parent)
        for number in interrupt.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupt.SIGNALS)
        alarm.latest_s = [0.0]  # what this process does is the business of its parent alone
        while job := receive(jobs):
            try:
                for result in work(pickle.loads(job)):
                    if os.getpid() != me:
                        return  # a run has forked
                    if isinstance(result, Begun):
                        writer.begin(result.seed)
                    else:
                        writer.flush()
                    send(results, ("result", result))
                answer = "done", None
            except Exception as error:
                error.add_note(format_exc())
                answer = "raised", error
            if os.getpid() != me:
                return
            send(results, answer)
        code = 0
    finally:
        os._exit(code)


class Supervisor:
    """Runs seeds in a child process, and in a new one after one has died."""

    def __init__(self, work: Work):
        self.work = work
        self.child: Child | None = None
        self.printed: Printed | None = None  # by the latest child
        self.seed = -1  # the latest

    def results(self, job_of: Callable[[range], Any], seeds: range, limit_s: float
                ) -> Generator[tuple[int, Any], None, None]:
        """Yield (seed, result) as the work does, in order; the result of a seed whose process died, or cannot go on, is a Died.

        A seed that the work begins twice may have two results. Raises NoSeed, and what the work raises before a seed."""
        at = seeds.start
        while at < seeds.stop:
            idle, self.child = self.child, None
            child, seed = idle or Child(self.work), None
            self.printed = child.printed
            try:
                for result in child.results(job_of(range(at, seeds.stop)), limit_s):
                    if isinstance(result, Begun):
                        child.printed.forget(self.seed)
                        self.seed = seed = result.seed
                        at = max(at, seed + 1)
                    else:
                        assert seed is not None  # Begun precedes each result
                        yield seed, result
                if seed is None:
                    raise NoSeed(f"no process runs seed {at}")
                if at == seeds.stop:
                    child, self.child = None, child
                continue
            except Gone as gone:
                died = gone.args[0]
                if seed is None and idle:  # an earlier job has left something in it
                    continue
                if seed is None:
                    raise NoSeed(f"the process that runs the seeds ended before seed {at}: {died.message}") from None
            except Exception as error:  # not of the run: it has spoilt what its process needs, for example a module
                if seed is None:
                    raise
                died = Died("death", f"its process cannot go on: {type(error).__name__}: {error}")
            finally:
                if child:
                    child.close()
            yield seed, died

    def output(self) -> str:
        """Return the last lines that the seed of the latest result has printed."""
        return self.printed.text_of(self.seed) if self.printed else ""

    def close(self) -> None:
        if self.child:
            self.child.close()
            self.child = None
