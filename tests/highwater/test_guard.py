"""No verb exits with 0 unless it has a result, whatever the code does that it runs, and none outlives its parent."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from highwater.cli import guard
from highwater.dst.campaign import supervised
from highwater.gate.exits import HARNESS, INTERRUPTED, MEANING, SAFETY, TIMEOUT
from highwater.gate.rows import Check
from highwater.gate.run import ran
from highwater.gate.simulation import deterministic, seeds_refine
from tests.support.projects import REGISTER, begun, below, ended, forget, highwater, planted, used

WAYS = ["sys.exit(0)", "os._exit(0)", "sys.stdout.close()", "os.close(1)", "kill(getpid(), signal.SIGKILL)",
        "raise KeyboardInterrupt", "raise GeneratorExit", "raise Odd", "if os.fork(): os._exit(0)",
        "os.execv('/bin/true', ['true'])"]
HANGS = ["while True: swallow()", "signal.signal(signal.SIGALRM, signal.SIG_IGN); time.sleep(60)",
         "kill(getpid(), signal.SIGSTOP)"]
NUMBER = count()


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    monkeypatch.setattr(guard, "GRACE_S", 0.5)
    monkeypatch.setattr(supervised, "GRACE_S", 0.5)
    yield
    forget()


@pytest.fixture(scope="module")
def bundle(tmp_path_factory) -> Path:
    """A run of the register that passes, and the events of four of its runs."""
    folder = tmp_path_factory.mktemp("register")
    assert highwater("dst", "run", "--seed", 3, "--out", folder / "bundle", "--project", REGISTER)[0] == 0
    assert highwater("dst", "run", "--seeds", "0:4", "--traces", folder / "runs.ndjson", "--project", REGISTER)[0] == 0
    return folder


def run(folder: Path, *words: object) -> tuple[int, str, str]:
    return ended(begun(folder, *words), folder)


def codes(folder: Path, project: Path, verbs: list[list]) -> dict[str, int]:
    """Return the exit codes of verbs that have no result."""
    found = {}
    for words in verbs:
        code, out, err = run(folder, *words, "--project", project)
        assert code in MEANING and out + err, f"{words}: {code}"
        found[" ".join(map(str, words[:2])) + f" {words[-1]}" * (words[0] == "trace")] = code
    return found


@pytest.mark.parametrize("way", WAYS)
def test_verb_that_runs_implementation_is_not_green(tmp_path, way):
    verbs = [["dst", "run", "--seed", 3], ["dst", "replay", 3], ["dst", "shrink", 3, "--budget", 2], ["dst", "explain", 3],
             ["dst", "timeline", 3, "-o", tmp_path / "page.html"], ["dst", "export", 3, "--shiviz", "-o", tmp_path / "log"]]
    found = codes(tmp_path, planted(tmp_path / "p", "impl", way), verbs)
    of_verdict = [found[f"dst {verb}"] for verb in ("run", "replay", "explain")]  # the others make something of a failed run
    assert 0 not in of_verdict and (set(of_verdict) == {SAFETY}) is way.startswith(("raise", "sys.exit")), found
    assert way.startswith(("raise", "sys.exit")) or 0 not in found.values(), found


@pytest.mark.parametrize("way", WAYS)
def test_verb_that_runs_mapping_is_not_green(tmp_path, bundle, way):
    verbs = [["trace", "check", bundle / "bundle"], ["trace", "check", bundle / "runs.ndjson"], ["dst", "replay", 3]]
    found = codes(tmp_path, planted(tmp_path / "p", "mapping", way), verbs)
    assert 0 not in found.values(), found


@pytest.mark.parametrize("way", WAYS)
def test_verb_that_runs_model_is_not_green(tmp_path, bundle, way):
    verbs = [["model", "conform"], ["model", "explore"], ["model", "walk", "--walks", 5], ["trace", "check", bundle / "bundle"]]
    found = codes(tmp_path, planted(tmp_path / "p", "model", way), verbs)
    assert 0 not in found.values(), found


@pytest.mark.parametrize("way", ["shout(); os._exit(0)", "shout()"])
def test_code_that_writes_to_every_pipe_is_not_green(tmp_path, way):
    """In a program of its own, because the pipes of this one are the test runner's."""
    project = planted(tmp_path / "p", "impl", way)
    for words in (["replay", "3"], ["run", "--seeds", "0:9"]):
        with open(tmp_path / "out", "wb") as out:
            words = [sys.executable, "-m", "highwater", "dst", *words, "--project", project]
            done = subprocess.run(words, stdout=out, stderr=out, stdin=subprocess.DEVNULL, timeout=300)
        assert done.returncode == (0 if way == "shout()" and "replay" in words else HARNESS), (tmp_path / "out").read_text()


def test_child_leaves_temporary_folders_of_its_parent_alone(tmp_path):
    ours = TemporaryDirectory(dir=tmp_path)
    assert run(tmp_path, "dst", "run", "--seeds", "0:2", "--protocol", "simple_conditional", "--no-project")[0] == 0
    assert Path(ours.name).is_dir()


def test_verb_before_options_and_at_import_is_not_green(tmp_path):
    project = planted(tmp_path / "p", "impl", "os._exit(0)")
    assert run(tmp_path, "--project", project, "dst", "replay", 3)[0] == HARNESS
    source = project / "register/impl.py"
    source.write_text(source.read_text().replace("class Register", "os._exit(0)\nclass Register"))
    for verb in (["dst", "run", "--seeds", "0:9"], ["verify", "--plan"], ["campaign", "run", "--seeds", "0:9", "--out",
                                                                         tmp_path / "c"]):
        code, _, err = run(tmp_path, *verb, "--project", project)
        assert code == HARNESS and err.endswith("ended its process (exit code 0), so there is no result\n")


def test_mutant_is_not_killed_by_code_that_dies_without_it(tmp_path):
    project = planted(tmp_path / "p", "impl", "if self.world.clock.now_ms() % 5 == 3: os._exit(0)")
    code, out, _ = run(tmp_path, "dst", "mutate", "--count", 1, "--budget", 40, "--jobs", 1, "--project", project)
    assert code == HARNESS and "its process ended with 0" in out, out


@pytest.mark.parametrize("part, way", [("impl", "os._exit(0)"), ("impl", "sys.exit(0)"), ("mapping", "os._exit(0)")])
def test_row_of_gate_is_not_green(tmp_path, part, way):
    with used(planted(tmp_path, part, way)):
        checks = [Check("register", "simulation", "refine", seeds_refine, ("register", 5, 0)),
                  Check("register", "simulation", "digests", deterministic, ("register", 5))]
        found = [done.row.code for done in ran([*enumerate(checks)], 1)]
    assert found[0] in (SAFETY, HARNESS) and (way == "sys.exit(0)" or found[1] == HARNESS)


@pytest.mark.parametrize("way", HANGS)
def test_hung_run_that_cannot_be_interrupted_is_killed(tmp_path, way):
    project = planted(tmp_path / "p", "impl", way)
    for verb in (["replay", 3], ["shrink", 3], ["explain", 3], ["timeline", 3, "-o", tmp_path / "page.html"]):
        code, _, err = run(tmp_path, "dst", *verb, "--seed-limit-s", 0.1, "--project", project)
        assert code == TIMEOUT and "could not be interrupted: killed" in err, err


# --- the user's signals

def wait_until(holds) -> None:
    end_s = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def at_work(process: int) -> int:
    """Count the processes below one, without Python's tracker of resources: this program may have one already, and share it."""
    found = 0
    for one in below(process):
        with suppress(OSError):  # it has ended
            found += b"resource_tracker import main" not in Path(f"/proc/{one}/cmdline").read_bytes()
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_of_user_ends_range_and_gives_its_seeds_no_row(tmp_path, number):
    project = planted(tmp_path / "p", "impl", "if self.world.clock.now_ms() % 5 == 3:\n            while True: swallow()")
    words = ["dst", "run", "--seeds", "0:1000", "--digests", "--seed-limit-s", 5, "--project", project]
    process = begun(tmp_path, *words)
    wait_until(lambda: len(below(process)) == 2)
    time.sleep(1)
    os.kill(process, number)
    code, out, err = ended(process, tmp_path)
    left = re.search(r"interrupted; (\d+) seeds were not run", err)
    assert code == INTERRUPTED and left and len(out.splitlines()) == 1000 - int(left[1]), err
    assert {line.split()[1] for line in out.splitlines()} <= {"ok"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_of_user_ends_run_that_swallows_it(tmp_path, number):
    process = begun(tmp_path, "dst", "replay", 3, "--project", planted(tmp_path / "p", "impl", "while True: swallow()"))
    wait_until(lambda: below(process))
    time.sleep(2)
    os.kill(process, number)
    assert ended(process, tmp_path)[0] == INTERRUPTED


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_of_user_ends_campaign_and_gives_its_seeds_no_row(tmp_path, number):
    words = ["--engine", "local", "--jobs", 1, "--seeds", "0:200", "--range-size", 5, "--out", tmp_path / "c"]
    process = begun(tmp_path, "campaign", "run", *words, "--project", planted(tmp_path / "p", "impl", "while True: swallow()"))
    wait_until(lambda: at_work(process) >= 3)  # the verb, its worker, the seed's process
    os.kill(process, number)
    code, _, err = ended(process, tmp_path)
    assert code == INTERRUPTED and "Finished waves are kept" in err, err
    assert not list((tmp_path / "c").rglob("*.parquet"))


@pytest.mark.parametrize("words", [["dst", "run", "--seeds", "0:9"], ["dst", "replay", 3],
                                   ["campaign", "run", "--jobs", 1, "--seeds", "0:9", "--out", "c"]], ids=str)
def test_verb_ends_with_its_parent(tmp_path, words, monkeypatch):
    monkeypatch.chdir(tmp_path)
    project = planted(tmp_path / "p", "impl", "kill(getpid(), signal.SIGSTOP)")
    process = begun(tmp_path, *words, "--project", project)
    wait_until(lambda: at_work(process) >= {"run": 2, "replay": 1}[words[1]] + (words[0] == "campaign"))
    time.sleep(1)
    processes = below(process)
    os.kill(process, signal.SIGKILL)
    assert ended(process, tmp_path)[0] == -signal.SIGKILL
    wait_until(lambda: not any(Path(f"/proc/{one}").exists() for one in processes))


def test_caller_that_catches_exit_goes_on_once():
    program = ("import sys; from highwater.cli.main import main\n"
               "sys.argv[1:] = 'dst run --seed 0 --scenario baseline'.split()\ntry: main()\nexcept SystemExit: print('caught')")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.count("caught") == 1, done
