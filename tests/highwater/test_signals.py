"""A signal that a test sends to its own process is never swallowed by the garbage collector."""

import gc
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.installed import ROOT
from tests.support.signals import deliver

SENT = re.compile(r"os\.kill\(os\.getpid\(\), (?!signal\.SIGKILL|9\))|interrupt_main\(|raise_signal\(|os\.killpg\(0,")
SWALLOWED = '''
import gc

import pytest


def interrupt(phase, info):
    raise {error}


def test_swallows():
    gc.callbacks.append(interrupt)
    gc.collect()
    gc.callbacks.remove(interrupt)
'''


@pytest.fixture
def busy_collector():
    """Let the garbage collector run a callback of ours after every few objects."""
    before, called = gc.get_threshold(), []

    def callback(*_):
        called.append(sum(range(5)))

    gc.callbacks.append(callback)
    gc.set_threshold(1, 1, 1)
    yield called
    gc.set_threshold(*before)
    gc.callbacks.remove(callback)


def test_delivered_signal_raises_at_once(busy_collector, ctrl_c):
    before = signal.getsignal(signal.SIGINT)
    for _ in range(100):
        steps = []
        with pytest.raises(KeyboardInterrupt):
            deliver(signal.SIGINT)
            steps.append("after")
        assert not steps
    assert busy_collector and gc.isenabled() and signal.getsignal(signal.SIGINT) is before


@pytest.fixture(params=["of python", "of a library"])
def ctrl_c(request):
    def raises(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, signal.default_int_handler if request.param == "of python" else raises)
    yield
    signal.signal(signal.SIGINT, before)


def test_delivery_from_another_thread_is_refused():
    errors = []

    def send():
        try:
            deliver(signal.SIGINT)
        except AssertionError as error:
            errors.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    thread.join()
    assert len(errors) == 1


def test_delivery_without_a_handler_is_refused():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(AssertionError, match="has no handler"):
            deliver(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_tests_signal_themselves_by_deliver_only():
    """SIGKILL is free: it ends a child process that a test has started."""
    files = [path for path in (ROOT / "tests").rglob("*.py") if path not in (Path(__file__), ROOT / "tests/support/signals.py")]
    assert [path.name for path in files if SENT.search(path.read_text())] == []


@pytest.mark.parametrize("error, code", [("KeyboardInterrupt", 1), ("ValueError", 0)])
def test_swallowed_interrupt_fails_the_test(tmp_path, error, code):
    """Another exception stays a warning: the alarm that ends a long run repeats, because a callback may swallow it."""
    (tmp_path / "test_it.py").write_text(SWALLOWED.format(error=error))
    command = [sys.executable, "-m", "pytest", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-n", "0", "."]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == code and error in done.stdout and "PytestUnraisableExceptionWarning" in done.stdout, done.stdout
