"""After Ctrl-C the gate reports the checks that have ended, and none of its processes is left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from textwrap import dedent
from xml.etree import ElementTree

from highwater.gate.exits import INTERRUPTED
from tests.support.installed import ROOT

CHECKS = '''
    """One check ends, and the other one, which has started a program, does not. Or: listing the checks does not end."""

    import signal
    import subprocess
    import sys
    import time
    from pathlib import Path

    from highwater.cli import verify
    from highwater.cli.main import main
    from highwater.gate.rows import Check, Found


    def ends():
        return Found("1")


    def lasts():
        child = subprocess.Popen(["sleep", "600"])
        Path("lasts.new").write_text(str(child.pid))
        Path("lasts.new").rename("lasts")
        time.sleep(600)


    def checks_of(protocol, size):
        yield Check("p", "a", "ends", ends)
        if Path("listing").exists():
            Path("lasts").write_text("")
            time.sleep(600)
        yield Check("p", "a", "lasts", lasts)
        yield Check("q", "b", "waits", ends)


    if __name__ == "__main__":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite that a shell began with `&` ignores Ctrl-C
        verify.checks_of = checks_of
        for check in (ends, lasts):
            check.__module__ = "interrupted"
        main()
'''
FILES = ("--json", "out.json", "--junit", "out.xml", "--summary", "out.md")


def interrupted(folder: Path, after: str = "") -> tuple[int, str]:
    """Run these checks in a process of its own, one at a time. Send it Ctrl-C once it sleeps and has printed this."""
    (folder / "interrupted.py").write_text(dedent(CHECKS))
    command = [sys.executable, "interrupted.py", "verify", "--protocol", "baseline", "--rows", "--jobs", "1", *FILES]
    path = os.pathsep.join([str(ROOT), str(folder)])
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=os.environ | {"PYTHONPATH": path, "HIGHWATER_CACHE": str(folder / "cache")}) as process:
        until = time.monotonic() + 60
        while not (folder / "lasts").exists() and time.monotonic() < until:
            time.sleep(0.05)
        assert process.stdout and (not after or any(after in line for line in process.stdout))
        process.send_signal(signal.SIGINT)
        output = process.communicate(timeout=60)[0]
    return process.returncode, output


def is_gone(process: int) -> bool:
    """Tell whether this process is gone soon. The system may take a moment to remove a killed one."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_ctrl_c_leaves_the_rows_that_have_ended_and_no_process(tmp_path):
    code, output = interrupted(tmp_path, "p: a: ends: 1")
    said = "interrupted by Ctrl-C: 2 of 3 checks have no verdict"
    assert code == INTERRUPTED and said in output and "1 ok (0 kept), 0 failed" in output and "Traceback" not in output, output
    document = json.loads((tmp_path / "out.json").read_text())
    assert (document["exit"], document["cut"]) == (INTERRUPTED, said)
    assert [(row["what"], row["verdict"]) for row in document["rows"]] == [("ends", "ok")]
    suites = ElementTree.parse(tmp_path / "out.xml").getroot()
    assert (suites.get("tests"), suites.get("errors")) == ("2", "1")
    assert [error.get("message") for error in suites.iter("error")] == [said]
    assert said in (tmp_path / "out.md").read_text()
    assert is_gone(int((tmp_path / "lasts").read_text()))


def test_ctrl_c_before_the_first_check_is_reported_too(tmp_path):
    (tmp_path / "listing").touch()
    code, output = interrupted(tmp_path)
    document = json.loads((tmp_path / "out.json").read_text())
    assert code == INTERRUPTED and "no check had begun" in output and "Traceback" not in output, output
    assert document["rows"] == [] and document["cut"] == "interrupted by Ctrl-C: no check had begun"
