"""Runs all tests and their processes in an environment of their own: a few of the caller's names, and the values below.

A test that passes here also passes where nothing else is set. A setting of one's shell (a profile of AWS, a home of Spark, a
hook's GIT_DIR, PYTHONUNBUFFERED) changes no verdict. Importing this file sets the environment, before any test module is
imported, and in each of xdist's workers.

HOME stays, because pip, Go and pyenv keep their downloads there. AWS's settings below HOME are not read.
"""

import gc
import os
import re
import signal
import sys
from pathlib import Path

import pytest

KEPT = re.compile("|".join((
    r"PATH|HOME|TMPDIR|CI|PYTHONPATH|PYTEST_\w+",
    r"HIGHWATER_(?!PROJECT$)\w+",
    r"PYENV_ROOT|PYENV_VERSION|JAVA_HOME",  # where an interpreter and a runtime are, which are tried before they are used
    r"PIP_\w+|(?i:https?_proxy|no_proxy|all_proxy)|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE",  # to fetch
    r"GOPROXY|GOSUMDB|GONOSUMDB|GONOPROXY|GOPRIVATE|GOINSECURE",
    *([r"AWS_\w+"] if os.environ.get("HIGHWATER_S3_ENDPOINT") else []),  # how to ask the server that it names
)))
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # Java compiles quickly rather than well: a test's session lives seconds
SPARK = {"SPARK_LAUNCHER_OPTS": JAVA, "SPARK_SUBMIT_OPTS": JAVA,
         "SPARK_CONF_DIR": str(Path(__file__).parent / "support" / "spark")}
OURS = {"LANG": "C.UTF-8", "AWS_EC2_METADATA_DISABLED": "true", **SPARK}
NO_FILES = {"AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull}

for name in [*os.environ]:
    if not KEPT.fullmatch(name):
        del os.environ[name]
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # of a shell that runs the suite in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ.update(OURS if os.environ.get("HIGHWATER_S3_ENDPOINT") else OURS | NO_FILES)


@pytest.fixture(scope="session")
def home() -> str:
    """The folder of Java, without which Spark does not run: then the test is skipped."""
    from highwater.dst.spark.session import load_java

    found = load_java().find_java()
    if found is None:
        pytest.skip("no Java")
    return found


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items):
    from tests.support.schedule import place
    from tests.support.slow import OTHERS, ROWS

    slow = {*ROWS, *OTHERS}
    for item in items:
        if item.nodeid.partition("[")[0] in slow:
            item.add_marker("slow")

    items.sort(key=lambda item: place(item.nodeid))


@pytest.hookimpl(optionalhook=True)  # of xdist
def pytest_xdist_make_scheduler(config, log):
    from tests.support.schedule import LongestFirst

    return LongestFirst(config, log) if config.getvalue("dist") == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def few_collections():
    """Let the garbage collector visit neither the collected tests nor the modules again, and wait longer between its visits.

    Simulating and exploring make many objects and hardly a cycle, so a fifth of their time would go to it."""
    gc.collect()
    gc.freeze()
    before = gc.get_threshold()
    gc.set_threshold(20_000, 20, 20)
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def no_module_is_loaded_twice():
    """Check this process and each of xdist's workers; tests/highwater/test_modules.py says why."""
    from tests.support.watched import loaded_twice, of_this_process

    yield
    twice = loaded_twice(of_this_process(sys.modules, Path(__file__).resolve().parents[1]))
    assert not twice, f"modules that were loaded twice: {twice}"
