"""Safety: however a recording ends, its log says whether it is whole.

This module runs a recording from beginning to end: from the command line, with a file of rules that is read repeatedly, or
inside a program, in a separate thread.
"""

import asyncio
import contextlib
import io
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from pathlib import Path
from typing import TextIO

from highwater.recorder.proxy import Recorder
from highwater.recorder.rules import BadRule, Rules
from highwater.traces.recorded.s3log import Request

LOOK_AGAIN_S = 0.02


async def record(upstream: str, clients: list[tuple[str, int]], log: TextIO, rules: Path | None, keep_bytes: int,
                 on_open: Callable[[dict[str, str]], None], more: str = "") -> int:
    """Record until SIGINT or SIGTERM; return the number of requests. `more` are rules behind those of the file.

    Raises OSError if a port is taken, BadRule for bad rules.
    """
    count = [0]

    def one_more(request: Request) -> None:
        count[0] += 1

    recorder = Recorder(upstream, log, Rules(text_of(rules, more)), keep_bytes, one_more)
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    on_open(await recorder.open(clients))
    watching = asyncio.ensure_future(watch(recorder, rules, more)) if rules else None
    await stopped.wait()
    if watching:
        watching.cancel()
    await recorder.close()
    return count[0]


def text_of(path: Path | None, more: str = "") -> str:
    """Return the rules of a file, if there is one, and more behind them. Raises OSError, BadRule."""
    return with_more(encodable(path.read_text(errors="surrogateescape")), more) if path else more


def with_more(text: str, more: str) -> str:
    return f"{text}\n{more}" if more else text


def encodable(text: str) -> str:
    """Return the text. Raises BadRule if the file was not UTF-8."""
    for number, line in enumerate(text.splitlines(), 1):
        if any("\udc80" <= letter <= "\udcff" for letter in line):
            raise BadRule(f"line {number}: it is not UTF-8")
    return text


async def watch(recorder: Recorder, path: Path, more: str) -> None:
    """Put the file's rules in force when they change.

    A line that is not a rule is reported, and the old rules stay. An empty file counts only if it is still empty at the second
    look, because a program that rewrites it empties it first.
    """
    last = before = recorder.rules.text
    while True:
        await asyncio.sleep(LOOK_AGAIN_S)
        try:
            own = path.read_text(errors="surrogateescape")
        except OSError:
            own = ""
        text = with_more(own, more)
        if text != last and (own.strip() or text == before):
            last = text
            try:
                recorder.set_rules(encodable(text))
            except BadRule as error:
                recorder.note("bad rules", error=f"{path}: {error}")
                print(f"{path}: {error}; the old rules stay in force", file=sys.stderr, flush=True)
        before = text


class Session:
    """A running recording, for the program that started it; any thread may use it."""

    def __init__(self, recorder: Recorder, loop: asyncio.AbstractEventLoop, requests: list[Request]):
        self._recorder, self._loop, self.requests = recorder, loop, requests
        self.urls: dict[str, str] = {}

    def rules(self, text: str) -> None:
        """Replace the rules. Raises BadRule."""
        async def set_them() -> None:
            self._recorder.set_rules(text)

        asyncio.run_coroutine_threadsafe(set_them(), self._loop).result()

    def held(self) -> list[str]:
        """Return the rules that hold a request now, once for each request."""
        return list(self._recorder.held.values())

    def settled(self) -> list[Request]:
        """Return all requests once none is in flight: a client has its reply a moment before its request is logged."""
        self.wait(lambda session: session._recorder.quiet)
        return self.requests

    def wait(self, condition: Callable[["Session"], bool], limit_s: float = 30) -> None:
        """Wait until the condition holds. Raises TimeoutError."""
        end_s = time.monotonic() + limit_s
        while not condition(self):
            if time.monotonic() > end_s:
                raise TimeoutError(f"not within {limit_s} s")
            time.sleep(0.005)


@contextlib.contextmanager
def recording(upstream: str, clients: tuple[str, ...] = ("client",), rules: str = "", log: TextIO | None = None,
              keep_bytes: int = 65_536, each: Callable[[Request], None] = lambda request: None
              ) -> Generator[Session, None, None]:
    """Record while the block runs; `session.urls[client]` is the URL to give to a client. `each` is called with each request
    when it is over, in the recorder's thread."""
    opened: Future = Future()
    stopped: list[Callable[[], object]] = []
    file = log or io.StringIO()

    async def serve() -> None:
        requests: list[Request] = []

        def over(request: Request) -> None:
            requests.append(request)
            each(request)

        recorder = Recorder(upstream, file, Rules(rules), keep_bytes, over)
        session, stop = Session(recorder, asyncio.get_running_loop(), requests), asyncio.Event()
        stopped.append(lambda: session._loop.call_soon_threadsafe(stop.set))
        try:
            session.urls = await recorder.open((name, 0) for name in clients)
        except BaseException as error:
            opened.set_exception(error)
            return
        opened.set_result(session)
        await stop.wait()
        await recorder.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    try:
        yield opened.result()
    finally:
        for stop in stopped:
            with contextlib.suppress(RuntimeError):  # it never opened
                stop()
        thread.join()
