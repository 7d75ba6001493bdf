import signal

import pytest


def raises(number, frame):
    raise KeyboardInterrupt  # what the handler of PySpark's context does, which stays when the context is gone


@pytest.fixture(params=[signal.default_int_handler, raises])
def ctrl_c(request):
    """The handler of SIGINT that is in force: Python's, or another's."""
    before = signal.signal(signal.SIGINT, request.param)
    yield
    signal.signal(signal.SIGINT, before)
