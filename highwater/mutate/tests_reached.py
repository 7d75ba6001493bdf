"""A pytest plugin that records which lines each test that passes executes: `-p highwater.mutate.tests_reached`.

$HIGHWATER_RECORD names the file to append to, a line of JSON for each test. $HIGHWATER_RECORDED names the files whose lines
count; a test that executes none of them is left out, unless $HIGHWATER_RECORD_ALL is set. Threads that a test starts count.
Lines that its fixtures and its processes execute are not seen.
"""

import json
import os
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from highwater import project
from highwater.mutate.reached import Recorder

SIMULATOR = str(project.PACKAGE / "dst" / "simulate.py")  # a test that executes it simulates
RECORDER = pytest.StashKey[Recorder]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[RECORDER] = Recorder([SIMULATOR, *os.environ["HIGHWATER_RECORDED"].split(os.pathsep)])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    recorder, began = item.config.stash[RECORDER], time.monotonic()
    recorder.start()
    threading.settrace(recorder.enter)
    try:
        result = yield
    finally:
        threading.settrace(None)  # pyright: ignore[reportArgumentType]  # as sys.settrace, it takes None
        seen = set(recorder.stop())
    lines: dict[str, list[int]] = {}
    for file, line in sorted(seen):
        lines.setdefault(file, []).append(line)
    simulates = bool(lines.pop(SIMULATOR, ()))
    if lines or os.environ.get("HIGHWATER_RECORD_ALL"):
        entry = {"test": item.nodeid, "simulates": simulates, "seconds": time.monotonic() - began, "lines": lines}
        with Path(os.environ["HIGHWATER_RECORD"]).open("a") as out:
            out.write(json.dumps(entry) + "\n")
    return result
