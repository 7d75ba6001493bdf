"""Whatever an implementation does to the process of its run, each seed ends as a row that names it."""

from pathlib import Path

import pytest

from highwater.dst.campaign import supervised
from highwater.dst.campaign.rows import run_range
from highwater.dst.campaign.triage import shrunk
from highwater.dst.campaign.what import Work, campaign_of
from highwater.gate.exits import HARNESS, SAFETY, TIMEOUT
from tests.support.projects import forget, highwater, planted, used

RAISES = ["raise SystemExit(0)", "raise KeyboardInterrupt", "raise GeneratorExit", "sys.exit(3)", "raise Odd", "os.chdir('/x')"]
DIES = {
    "os._exit(0)": "it ended its process, with exit code 0",
    "os._exit(3)": "it ended its process, with exit code 3",
    "kill(getpid(), signal.SIGKILL)": "it killed its process: SIGKILL",
    "kill(getpid(), signal.SIGTERM)": "it killed its process: SIGTERM",
    "kill(getpid(), signal.SIGINT)": "it killed its process: SIGINT",
    "killpg(0, signal.SIGKILL)": "it killed its process: SIGKILL",
    "ctypes.string_at(0)": "it killed its process: SIGSEGV",
    "os.closerange(3, 99); os._exit(0)": "it ended its process, with exit code 0",
    "os.closerange(3, 99); time.sleep(60)": "it closed the files of its process",
    "if os.fork(): os._exit(0)": "it ended its process, with exit code 0",
    "os.execv('/bin/true', ['true'])": "it ended its process, with exit code 0",
    "sys.modules.clear()": "its process cannot go on: PicklingError",
}
HANGS = ["while True: swallow()", "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM]); time.sleep(60)",
         "signal.signal(signal.SIGALRM, signal.SIG_IGN); time.sleep(60)", "kill(getpid(), signal.SIGSTOP)"]
HARMLESS = ["sys.stdout.close()", "os.close(1); os.close(2)", "if not os.fork(): os._exit(0)"]


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    monkeypatch.setattr(supervised, "GRACE_S", 0.3)
    monkeypatch.setattr(supervised, "TICK_S", 0.1)
    yield
    forget()


def dying(folder: Path, way: str) -> Path:
    """Write the register with an implementation that does this in about one seed of five."""
    return planted(folder, "impl", f"if self.world.clock.now_ms() % 5 == 3:\n            {way}")


def digests(folder: Path, seeds: str, *words: object) -> tuple[int, dict[int, str]]:
    code, out, err = highwater("dst", "run", "--seeds", seeds, "--digests", "--project", folder, *words)
    rows = [line.split(" ") for line in out.splitlines()]
    assert [int(seed) for seed, _, _ in rows] == list(range(len(rows))), out + err
    return code, {int(seed): signature for seed, signature, _ in rows}


@pytest.mark.parametrize("way", RAISES)
def test_seed_that_raises_is_a_failed_seed(tmp_path, way):
    code, found = digests(dying(tmp_path / "p", way), "0:12")
    assert code == SAFETY and len(found) == 12 and "ok" in found.values()
    assert {signature.split(":")[0] for signature in found.values()} == {"ok", "exception"}


@pytest.mark.parametrize("way", DIES)
def test_seed_that_ends_its_process_is_a_row(tmp_path, way):
    folder = dying(tmp_path / "p", way)
    code, found = digests(folder, "0:12")
    assert code == HARNESS and len(found) == 12 and set(found.values()) == {"ok", "death"}, found
    with used(folder):
        rows = run_range(Work(campaign_of("register"), 60), (0, 12)).to_pylist()
    assert {row["seed"]: row["signature"] or "ok" for row in rows} == found
    assert {row["message"].partition(": Can't")[0] for row in rows if row["kind"]} == {DIES[way]}


@pytest.mark.parametrize("way", HANGS)
def test_seed_that_cannot_be_interrupted_is_killed(tmp_path, way):
    folder = dying(tmp_path / "p", way)
    code, found = digests(folder, "0:40", "--seed-limit-s", 0.1)
    assert code == TIMEOUT and list(found.values()).count("timeout") == 3 and [*found.values()][-1] == "timeout", found
    with used(folder):
        rows = run_range(Work(campaign_of("register"), 0.1), (0, 40)).to_pylist()
    assert {row["seed"]: row["signature"] or "ok" for row in rows} == found


@pytest.mark.parametrize("way", HARMLESS)
def test_seed_that_harms_nothing_is_no_failure(tmp_path, way):
    code, found = digests(dying(tmp_path / "p", way), "0:12")
    assert code == 0 and list(found.values()) == ["ok"] * 12


# --- what a run prints

MUCH = "[os.write(1, (b'y' * 99 + b'\\n') * 10_000) for _ in range(40)]"  # 40 MB
ENDS = "os.write(2, b'raw \\xff\\x1b\\n'); print('no end of line', end=''); sys.stdout.flush()"


@pytest.mark.parametrize("way, kind", [("os._exit(3)", "death"), ("raise Odd", "safety"), ("kill(getpid(), 9)", "death")])
def test_output_is_cut_and_shown_with_the_failure(tmp_path, way, kind, capfd):
    folder = dying(tmp_path / "p", f"print('first'); {MUCH}; [print('line', i) for i in range(999)]; {ENDS}; {way}")
    code, out, err = highwater("dst", "run", "--seeds", "0:12", "--project", folder)
    assert code in (HARNESS, SAFETY) and "       | line 998\n       | raw \\xff?\n       | no end of line\n" in out
    assert "first" not in out + err and "yyy" not in out + err and len(out.splitlines()) < 60 and capfd.readouterr() == ("", "")
    with used(folder):
        work = Work(campaign_of("register"), 60)
        rows = run_range(work, (0, 12)).to_pylist()
        apart = [row for seeds in ((0, 5), (5, 12)) for row in run_range(work, seeds).to_pylist()]
    assert [row["output"] for row in rows] == [row["output"] for row in apart]
    assert {row["kind"]: row["output"].count("\n") for row in rows} == {"": 0, kind: 20}
    assert {row["output"][:11] for row in rows} == {"", "..\nline 981"} and capfd.readouterr() == ("", "")


def test_output_of_passing_seeds_is_dropped(tmp_path, capfd):
    folder = dying(tmp_path / "p", f"{MUCH}; print('noise')")
    code, out, err = highwater("dst", "run", "--seeds", "0:12", "--project", folder)
    assert code == 0 and "noise" not in out + err and capfd.readouterr() == ("", "")
    assert digests(folder, "0:12")[1].keys() == set(range(12))
    assert highwater("dst", "doctor", "--seeds", "0:3", "--project", folder)[0] == 0


@pytest.mark.parametrize("way", ["while True: print('again')", "while True: swallow(); os.write(1, b'w' * 60_000)"])
def test_seed_that_prints_for_ever_is_a_timeout(tmp_path, monkeypatch, way):
    monkeypatch.setattr(supervised, "GRACE_S", 3)
    folder = dying(tmp_path / "p", way)
    with used(folder):
        rows = run_range(Work(campaign_of("register"), 0.5), (0, 40)).to_pylist()
    failed = [row for row in rows if row["kind"]]
    assert [row["kind"] for row in failed] == ["timeout"] * 3 and all(len(row["output"]) > 100 for row in failed)


def test_shrinking_prints_nothing(tmp_path, capsys):
    with used(dying(tmp_path / "p", "print('noise'); raise Odd")):
        work = Work(campaign_of("register"), 60)
        failed = next(row for row in run_range(work, (0, 12)).to_pylist() if row["kind"])
        assert shrunk(tuple(work.campaign), failed["seed"], failed["signature"], 20)["runs"]
    assert capsys.readouterr() == ("", "")
