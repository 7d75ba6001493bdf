"""One story of an index from end to end: its judge can fail, a short story holds, and one with a known bug does not."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from random import Random

import pytest

from highwater.gate.exits import BAD_INPUT, INCOMPLETE
from highwater.index.story import blocks, ledger
from highwater.index.story.faults import KILL, ROLES, STALL, faults
from highwater.index.story.journal import ADDED, DOUBT, KEPT, PUT, Journal, Reading
from highwater.index.story.ledger import Ledger
from highwater.index.story.processes import Broken, Process
from highwater.index.story.story import Story, Told
from highwater.index.story.writer import Writer
from highwater.servers import s3
from highwater.servers.leash import CannotStart
from tests.index.broken import BUGS
from tests.index.processes import ROOT, command, highwater

NOW_MS = 1_795_000_000_000
EVERYWHERE = (blocks.TENANTS, blocks.SHARDS)
SECONDS = 12


# --- the plan of faults

def test_one_seed_gives_the_same_faults_and_another_one_others():
    def first(seed: int, count: int = 50) -> list:
        return [fault for fault, _ in zip(faults(seed, 1.0), range(count))]

    assert first(7) == first(7) and first(7) != first(8)
    for seed in range(5):
        assert {fault.role for fault in first(seed, len(ROLES)) if fault.kind == KILL} == set(ROLES)
    assert {fault.role for fault in first(7) if fault.kind == STALL} == {"node", "leader", "worker", "writer"}


# --- the judge

class Written:
    """Two blocks of a writer, their journal, and a ledger that reads it."""

    def __init__(self, folder: Path, *kinds: str, what: str = ADDED):
        random, self.blocks = Random(1), []
        self.journal = Journal(folder / "journal")
        self.ledger = Ledger([folder / "journal"])
        for number, kind in enumerate(kinds):
            block = blocks.block_of(random, kind, f"w{number}", number, NOW_MS)
            self.journal.begin(kind, block)
            self.journal.note(PUT, block.id)
            self.journal.note(what, block.id)
            self.blocks.append(block)
        self.ledger.read()

    def wrong(self, answer: list, now_ms: int = NOW_MS, letters_too: bool = False) -> str:
        return "; ".join(self.ledger.judged(self.ledger.due(letters_too), answer, now_ms, *EVERYWHERE))


def test_an_answer_with_each_datum_once_is_right(tmp_path):
    assert Written(tmp_path, blocks.FRESH, blocks.FRESH).wrong([]).startswith("4 data are missing, such as ('w0.0'")
    of = Written(tmp_path, blocks.FRESH, blocks.FRESH)
    assert not of.wrong(of.blocks)


def test_a_dropped_datum_a_doubled_one_and_one_of_nobody_are_wrong(tmp_path):
    of = Written(tmp_path, blocks.FRESH, blocks.FRESH)
    one, other = of.blocks
    assert of.wrong([one]).startswith("2 data are missing, such as ('w1.0'")
    assert of.wrong([one, other, other]).startswith("2 data are more than once, such as ('w1.0'")
    del other.datasets[0]
    assert of.wrong([one, other]).startswith("1 data are missing, such as ('w1.0'")
    other.string_table[other.datasets[0].name] = "w9.0"
    assert "1 data are of nobody, such as ('w9.0',)" in of.wrong([one, other])


def test_a_question_for_a_part_is_judged_by_that_part(tmp_path):
    of = Written(tmp_path, *[blocks.FRESH] * 8)
    for tenant in blocks.TENANTS:
        for shard in blocks.SHARDS:
            told = of.ledger.judged(of.ledger.due(), [], NOW_MS, (tenant,), (shard,))
            there = [one for one in of.ledger.data.values() if (one.tenant, one.shard) == (tenant, shard)]
            assert len(told) == bool(there) and (not there or told[0].startswith(f"{len(there)} data are missing"))


def test_a_letter_is_due_once_it_is_swept_and_what_was_seen_is_due_for_ever(tmp_path):
    of = Written(tmp_path, blocks.FRESH, what=KEPT)
    assert not of.wrong([]) and "missing" in of.wrong([], letters_too=True)
    assert not of.wrong(of.blocks) and "missing" in of.wrong([])


def test_a_block_that_was_acknowledged_or_seen_is_known_to_the_check_of_the_bucket(tmp_path):
    of = Written(tmp_path, blocks.FRESH, what=DOUBT)
    (block,) = of.blocks
    key = "", block.shard, block.id
    assert key not in of.ledger.known
    of.wrong([block])
    assert key in of.ledger.known
    for what in (ADDED, KEPT):
        (tmp_path / what).mkdir()
        assert Written(tmp_path / what, blocks.FRESH, what=what).ledger.known


def test_a_block_in_doubt_may_be_there_or_not(tmp_path):
    of = Written(tmp_path, blocks.OLD_FOR_A, what=DOUBT)
    assert not of.wrong([], letters_too=True) and not of.wrong(of.blocks)


def test_only_a_datum_whose_period_has_passed_may_be_dropped(tmp_path):
    of = Written(tmp_path, *[blocks.OLD_FOR_A] * 20, *[blocks.OLD_FOR_ALL] * 20, *[blocks.FRESH] * 5)
    data = of.ledger.data.values()
    gone = {datum.name for datum in data if blocks.is_over(datum, NOW_MS)}
    late = NOW_MS - blocks.PERIODS_S["a"] * 1000
    assert gone == {one.name for one in data if one.max_ms < late and (one.tenant == "a" or writing(one) >= 20)}
    assert any(one.max_ms > late and writing(one) < 40 for one in data)  # of an old window, with later data
    missing = of.wrong([])
    assert missing.startswith(f"{len(data) - len(gone)} data are missing") and 0 < len(gone) < len(data)
    assert of.wrong([], now_ms=NOW_MS + blocks.PERIODS_S["b"] * 2000) == ""


def writing(datum: blocks.Datum) -> int:
    return int(datum.name[1:].split(".")[0])


def test_a_rebuilt_index_that_lacks_a_block_has_one_more_or_another_is_told(tmp_path):
    of = Written(tmp_path, blocks.FRESH, blocks.FRESH)
    whole = ledger.exported(of.blocks)
    assert not ledger.differences(whole, ledger.exported(reversed(of.blocks)))
    one = ledger.exported(of.blocks[:1])
    assert ledger.differences(whole, one)[0].startswith("the rebuilt index lacks 1 blocks, such as ('', ")
    assert ledger.differences(one, whole)[0].startswith("the rebuilt index has besides 1 blocks")
    of.blocks[0].max_time += 1
    assert ledger.differences(whole, ledger.exported(of.blocks))[0].startswith("the rebuilt index has otherwise 1 blocks")


def test_what_did_not_happen_is_told():
    assert Told({"kill worker": 2, "data added": 1}, []).kills == {"worker": 2}
    missing = Told({"data added": 1}, []).missing
    assert "data kept in letters" in missing and "data added" not in missing


def test_a_story_goes_on_until_enough_has_happened(tmp_path):
    story = Story(tmp_path, "memory://", 1)
    journal = Journal(story.cast.journals[0])
    story.counts |= {"answers with compacted blocks": 1, "objects read": 1}
    for kind, what in ((blocks.FRESH, KEPT), (blocks.OLD_FOR_ALL, ADDED)):
        assert not story.is_enough
        for number in range(9):  # some have later data
            block = blocks.block_of(Random(number), kind, f"{kind}.{number}", number, blocks.now_ms())
            journal.begin(kind, block)
            journal.note(what, block.id)
    assert story.is_enough
    story.counts["objects read"] = 0
    assert not story.is_enough


# --- the writers, and processes

def test_a_line_that_a_kill_has_cut_counts_for_nothing(tmp_path):
    block = blocks.block_of(Random(1), blocks.FRESH, "w0", 0, NOW_MS)
    Journal(tmp_path / "j").begin(blocks.FRESH, block)
    with (tmp_path / "j").open("a") as file:
        file.write(json.dumps({"what": ADDED, "id": block.id})[:-3])
    reading = Reading(tmp_path / "j")
    assert [line.what for line in reading.new()] == ["begun"]
    Journal(tmp_path / "j").note(KEPT, block.id)
    assert [line.what for line in reading.new()] == [KEPT]


def test_a_writer_that_was_killed_ends_what_it_has_begun_and_adds_no_old_block_twice(tmp_path):
    random = Random(1)
    one, other, old = (blocks.block_of(random, kind, f"w{number}", number, NOW_MS)
                       for number, kind in enumerate((blocks.FRESH, blocks.FRESH, blocks.OLD_FOR_A)))
    journal = Journal(tmp_path / "j")
    for kind, block in ((blocks.FRESH, one), (blocks.FRESH, other), (blocks.OLD_FOR_A, old)):
        journal.begin(kind, block)
        journal.note(PUT, block.id)
    journal.note(ADDED, one.id)
    writer = Writer(None, None, journal, random)  # type: ignore[arg-type]  # it asks nobody
    assert writer.resume(tmp_path / "j") == (3, 1) and list(writer.open) == [other.id]
    assert writer.there == {one.id, other.id, old.id}
    assert [(line.what, line.ulid) for line in Reading(tmp_path / "j").new()][-1] == (DOUBT, old.id)


def test_a_block_is_as_its_object_says():
    for seed in range(20):
        block = blocks.block_of(Random(seed), blocks.KINDS[seed % 5], f"w{seed}", seed, NOW_MS)
        from highwater.impl.codecs.index.footer import metadata_of

        body = blocks.body_of(block)
        assert metadata_of(body, len(body)) == block


def test_a_process_that_ends_by_itself_is_noticed_and_a_killed_one_is_not(tmp_path):
    long = Process("long", [sys.executable, "-c", "import time; time.sleep(100)"], tmp_path / "long.log", os.environ)
    long.start()
    long.kill()
    long.check()
    short = Process("short", [sys.executable, "-c", "import sys; sys.exit('no room')"], tmp_path / "short.log", os.environ)
    short.start()
    with pytest.raises(Broken, match="short ended by itself with 1: no room"):
        while True:
            short.check()
            time.sleep(0.01)
    short.close()


def test_a_process_ends_with_its_story_however_that_ends(tmp_path):
    code = ("import os, signal, sys, pathlib; from highwater.index.story.processes import Process; "
            "sleep = [sys.executable, '-c', 'import time; time.sleep(100)']; "
            "of = Process('long', sleep, pathlib.Path(sys.argv[1]), os.environ); of.start(); "
            "of.signal(signal.SIGSTOP); print(of.pid_file.read_text(), flush=True); "
            "os.kill(os.getpid(), signal.SIGKILL)")
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path / "long.log")], cwd=ROOT, capture_output=True, text=True)
    until_s = time.monotonic() + 30
    while is_there(int(ran.stdout)) and time.monotonic() < until_s:
        time.sleep(0.05)
    assert not is_there(int(ran.stdout))


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False


# --- stories

def test_a_short_story_loses_nothing(tmp_path):
    ran = subprocess.run(command("index", "story", "--seconds", SECONDS, "--seed", 5, "--fault-ms", 500, "--out", tmp_path),
                         cwd=ROOT, capture_output=True, text=True)
    if "is not built" in ran.stdout:
        pytest.skip(ran.stdout)
    assert ran.returncode == 0, (ran.stdout, ran.stderr)
    assert f"seed 5, folder {tmp_path}" in ran.stdout and " kills (" in ran.stdout and "blocks rebuilt" in ran.stdout
    assert {"node-1.log", "writer-0.ndjson", "faults.log", "rebuilt.snapshot"} <= {path.name for path in tmp_path.iterdir()}


def told(folder: Path, bug: str, seconds: float) -> list[str]:
    """Return what a story finds wrong with a bug in the nodes and the workers."""
    try:
        with s3.s3_server() as url, pytest.MonkeyPatch.context() as patch:
            for name, value in {**s3.CREDENTIALS, "AWS_ENDPOINT_URL_S3": url}.items():
                patch.setenv(name, value)
            program = (sys.executable, "-m", "tests.index.broken", bug)
            patch.chdir(ROOT)
            story = Story(folder, f"s3://{s3.new_bucket(url)}/of", 4, program=program)
            return asyncio.run(story.told(seconds)).wrong
    except CannotStart as error:
        pytest.skip(str(error))


FOUND = {"letters": "missing", "removed": "more than once", "hasty": "its object is gone", "boundary": "missing",
         "idle": "its object is not deleted"}


def test_every_bug_is_listed():
    assert FOUND.keys() == BUGS.keys()


def test_a_story_notices_a_block_that_is_added_twice(tmp_path):
    assert FOUND["removed"] in "\n".join(told(tmp_path, "removed", 15))


@pytest.mark.slow
@pytest.mark.parametrize("bug", sorted(FOUND.keys() - {"removed"}))
def test_a_story_notices_a_bug(tmp_path, bug):
    assert FOUND[bug] in "\n".join(told(tmp_path, bug, 30))


def test_what_cannot_be_used_is_one_line(tmp_path):
    (tmp_path / "there").touch()
    for words, code, line in ((("--out", tmp_path), BAD_INPUT, "has something in it"),
                              (("--master", "local"), BAD_INPUT, "add --engine spark"),
                              (("--endpoint", "http://127.0.0.1:1"), INCOMPLETE, "no bucket can be made")):
        said = highwater("index", "story", "--seconds", 1, *words)
        assert said.returncode == code and line in said.stderr and "Traceback" not in said.stderr, said


def test_levels_that_are_none_are_one_line(tmp_path):
    for text in ("", "5", "5:", "x:1", "5:1000,", "0:5"):
        said = highwater("index", "serve", tmp_path / "node", "--levels", text)
        assert said.returncode == BAD_INPUT and "Traceback" not in said.stderr, said
