"""Run a verb in a child process. Safety: the program exits with 0 only if the verb has come to its end.

What a verb runs may end its process with any exit code, and write to any file. So the child reports the verb's exit code by a
pipe when it is done, behind a mark, and the parent trusts nothing else. A run that does not end within its limit, and catches
the alarm's exception, is killed.
"""

import atexit
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from math import inf
from traceback import print_exc

from highwater import interrupt
from highwater.dst.sim import alarm
from highwater.gate.exits import HARNESS, INTERRUPTED, TIMEOUT

GRACE_S = 10.0  # for a run to end after its alarm has gone off, or after Ctrl-C
TICK_S = 0.1


def guarded(verb: Callable[[], int]) -> int:
    """Return the exit code of a verb that runs in a child process. If the process ends otherwise, print that, and return
    TIMEOUT if it was killed here, INTERRUPTED after Ctrl-C or SIGTERM, else HARNESS."""
    (read, report), mark = os.pipe(), os.urandom(16)
    awaited = {signal.SIGCHLD, *(one for one in interrupt.SIGNALS if signal.getsignal(one) is not signal.SIG_IGN)}
    parent, before = os.getpid(), signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    alarm.latest_s[0] = 0
    child = os.fork()
    if not child:
        interrupt.die_with(parent)
        interrupt.install()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        run(verb, report, mark)
    os.close(report)
    os.set_blocking(read, False)
    asked_s, late, said = inf, 0, b""  # late: ticks, in which this process was awake, as Ctrl-Z stops both
    while not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        came, said = signal.sigtimedwait(awaited, TICK_S), latest(said, read)
        if came and came.si_signo != signal.SIGCHLD:
            asked_s = min(asked_s, time.monotonic())
            if came.si_pid:  # else the terminal has sent it to the child, too
                os.kill(child, came.si_signo)
        is_late = alarm.latest_s[0] and time.monotonic() > min(alarm.latest_s[0], asked_s)
        late = late + 1 if is_late else 0
        if late * TICK_S > GRACE_S:
            os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    _, marked, reported = latest(said, read).rpartition(mark)
    if marked and reported:
        return reported[0]
    if asked_s < inf:
        return INTERRUPTED
    if late * TICK_S > GRACE_S:
        print("error: the run did not end within its limit (--seed-limit-s), and could not be interrupted: killed",
              file=sys.stderr)
        return TIMEOUT
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    print(f"error: what this command runs ended its process ({how}), so there is no result", file=sys.stderr)
    return HARNESS


def latest(said: bytes, read: int) -> bytes:
    """Empty a pipe, so that no write to it waits. Return the end of all that came from it; `said` is what came before."""
    with suppress(BlockingIOError):
        said += os.read(read, 1 << 16)
    return said[-1_000:]


def run(verb: Callable[[], int], report: int, mark: bytes) -> None:
    """Run the verb, report its exit code, and end the process with it."""
    me = os.getpid()
    for inherited in [*weakref.finalize._registry]:  # pyright: ignore[reportAttributeAccessIssue]  # no public name
        inherited.atexit = False  # the parent's temporary folders are the parent's to delete
    try:
        code = verb()
    except BaseException:
        print_exc()
        code = HARNESS
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # closed by what ran, or by the reader
            stream.flush()
    if os.getpid() != me:
        os._exit(HARNESS)  # what ran has forked
    with suppress(OSError):  # closed by what ran
        os.write(report, mark + bytes([code]))
    try:  # as at the end of a program, but without SystemExit, which a caller of `guarded` may catch
        threading._shutdown()  # pyright: ignore[reportAttributeAccessIssue]  # it waits for threads
        atexit._run_exitfuncs()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
        os._exit(code)
