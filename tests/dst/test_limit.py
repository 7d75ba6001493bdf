"""A run that does not end is stopped after its limit, and a command does not wait for many of them."""

import re
import signal
import time
from pathlib import Path

import pytest

from highwater.dst.campaign.processes import local_engine
from highwater.dst.campaign.rows import run_range
from highwater.dst.campaign.what import Work, campaign_of
from highwater.dst.limit import limited, place_of
from highwater.dst.mutants.sequenced_metadata_boundary import BUILDS as ZOO
from highwater.dst.run_spec import Run
from highwater.dst.search import shrink as shrinking
from highwater.dst.search.nearest import nearest
from highwater.dst.search.shrink import shrink
from highwater.dst.sim.alarm import MOST_HUNG, Hung
from highwater.dst.simulate import simulate
from highwater.gate.exits import TIMEOUT
from tests.support.projects import REGISTER, forget, highwater, made, used

LIMIT = ("--seed-limit-s", 0.2)


@pytest.fixture(autouse=True)
def alone():
    yield
    forget()
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def edited(folder: Path, old: str, new: str) -> Path:
    """Write the register with another implementation."""
    source = (REGISTER / "register/impl.py").read_text()
    assert source.count(old) == 1
    return made(folder, {**{path.relative_to(REGISTER).as_posix(): path.read_text() for path in REGISTER.rglob("*.*")
                            if path.suffix in (".py", ".toml")}, "register/impl.py": source.replace(old, new)})


@pytest.fixture
def endless(tmp_path) -> Path:
    """A project whose writers loop without await."""
    return edited(tmp_path / "endless", "        try:\n", "        while True:\n            pass\n        try:\n")


def line_of(folder: Path) -> int:
    return (folder / "register/impl.py").read_text().split("\n").index("            pass") + 1


# --- one run

@pytest.mark.parametrize("words", [["run", "--seed", 3], ["replay", 3], ["shrink", 3], ["explain", 3],
                                   ["timeline", 3, "-o", "page.html"], ["export", 3, "--shiviz", "-o", "log"]])
def test_verb_stops_endless_run(endless, words, monkeypatch):
    monkeypatch.chdir(endless)
    code, out, _ = highwater("dst", *words, *LIMIT)
    said = rf"timeout: the run did not end within 0.2 s; it was at impl.py:({line_of(endless)}|{line_of(endless) - 1}), perhaps"
    assert code == TIMEOUT and re.match(said, out) and "--seed 3" in out, out


@pytest.mark.parametrize("verb", ["replay", "shrink", "explain"])
def test_verb_stops_endless_bundle(tmp_path, verb, monkeypatch):
    """A bundle of other code, as after a change of the implementation."""
    folder = edited(tmp_path / "register", "await self.world", "await  self.world")
    monkeypatch.chdir(folder)
    highwater("dst", "run", "--seed", 7, "--mutant", "hopeful", "--out", tmp_path / "bundle")
    mutants = folder / "register/mutants.py"
    endless = r"\1        while True:\n            pass\n"
    mutants.write_text(re.sub(r"(\n +async def write\(.*\n)", endless, mutants.read_text()))
    code, out, _ = highwater("dst", verb, tmp_path / "bundle", *LIMIT)
    assert code == TIMEOUT and "did not end within 0.2 s; it was at mutants.py:" in out, out


def test_limit_names_interrupted_line_and_restores_alarm():
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(Hung) as raised, limited(0.01):
        while True:
            pass
    assert place_of(raised.value).startswith("test_limit.py:") and signal.getsignal(signal.SIGALRM) is before


def test_run_that_waits_for_the_processor_has_its_time():
    with limited(0.3):
        time.sleep(1.5)
    with pytest.raises(Hung), limited(0.1):
        time.sleep(5)


# --- many runs

def test_range_of_seeds_stops_after_three(endless):
    code, out, err = highwater("dst", "run", "--seeds", "0:1000", "--project", endless, *LIMIT)
    assert code == TIMEOUT and "3 seeds, 3 failed" in out, out
    assert "stopped, because 3 runs did not end within 0.2 s each, 997 were not run" in out and "3 timeout: " in out
    code, out, err = highwater("dst", "run", "--seeds", "0:9", "--digests", "--project", endless, *LIMIT)
    assert (code, out) == (TIMEOUT, "0 timeout \n1 timeout \n2 timeout \n")
    assert err.startswith("error: stopped, because 3 runs did not end within 0.2 s each; 6 seeds were not run\n")


def test_last_seeds_of_range_are_no_reason_to_stop(endless):
    out = highwater("dst", "run", "--seeds", "0:3", "--project", endless, *LIMIT)[1]
    assert "3 seeds, 3 failed" in out and "not run" not in out


def test_shrink_gives_up_after_three_endless_runs(monkeypatch):
    build = ZOO["no_check"][1]
    outcome = next(found for found in (simulate(Run(seed), build) for seed in range(400)) if found.kind)

    def hangs(*_: object, **__: object) -> None:
        while True:
            pass

    monkeypatch.setattr(shrinking, "simulate", hangs)
    found = shrink(outcome, build, limit_s=0.01)
    assert (found.outcome, found.runs, found.hung) == (outcome, MOST_HUNG, MOST_HUNG)


def test_nearest_gives_up_after_three_endless_runs():
    build = ZOO["no_check"][1]
    outcome = next(found for found in (simulate(Run(seed), build) for seed in range(400)) if found.kind)
    assert nearest(outcome, lambda tape: None).tried == MOST_HUNG


# --- campaigns

def test_range_of_campaign_stops_after_three(endless):
    with used(endless):
        rows = run_range(Work(campaign_of("register"), 0.1), (0, 50)).to_pylist()
    assert [(row["seed"], row["kind"]) for row in rows] == [(0, "timeout"), (1, "timeout"), (2, "timeout")]


def test_campaign_stops_after_endless_range(endless, tmp_path, monkeypatch):
    out = tmp_path / "campaign"
    words = ["campaign", "run", "--seeds", "0:1000", "--jobs", 1, "--range-size", 20, "--project", endless, *LIMIT]
    code, _, err = highwater(*words, "--out", out)
    assert code == TIMEOUT and "Stopped: " in err and "seeds did not end within 0.2 s each" in err, err
    said = highwater("campaign", "status", out)[1]
    done = int(re.findall(r"(\d+) have rows", said)[0])
    assert MOST_HUNG <= done <= 4 * MOST_HUNG and f"{1000 - done} are left" in said  # a process has a few ranges at hand
    code, text, _ = highwater("campaign", "replay", out, 0)
    assert code == TIMEOUT and "the run did not end within 0.2 s" in text


def test_campaign_of_single_seeds_stops_too(endless, tmp_path):
    """No range has three seeds that do not end, but a wave has."""
    words = ["campaign", "run", "--seeds", "0:40", "--jobs", 1, "--range-size", 1, "--project", endless, *LIMIT]
    assert highwater(*words, "--out", tmp_path / "campaign")[0] == TIMEOUT
    assert "10 have rows, 30 are left" in highwater("campaign", "status", tmp_path / "campaign")[1]


def test_campaign_with_few_endless_seeds_is_whole(endless, tmp_path):
    words = ["campaign", "run", "--seeds", "0:3", "--jobs", 1, "--project", endless, *LIMIT]
    code, out, _ = highwater(*words, "--out", tmp_path / "campaign")
    assert code == TIMEOUT and "3 runs of register, 3 failed" in out


def test_engine_keeps_ranges_before_endless_one(tmp_path):
    """A cancelled range is not taken for one whose worker died."""
    with local_engine(1) as engine:
        engine(Work(campaign_of("baseline"), 1e-6), [(low, low + 5) for low in range(0, 50, 5)], tmp_path, lambda done: None)
    assert 1 <= len(list(tmp_path.glob("*.parquet"))) < 10
