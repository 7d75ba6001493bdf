"""The doctor passes deterministic runs. For others it names the choice and the event at which two runs diverge."""

import sys

import pytest
from typer.testing import CliRunner

from highwater.cli.dst import doctor as dst_doctor
from highwater.cli.main import app
from highwater.dst.determinism import doctor
from highwater.dst.determinism.doctor import Broken, Place, check, newer_python, replays
from highwater.dst.run_spec import Run, RunSpec
from highwater.dst.simulate import simulate

UNORDERED = '''
"""Deletes in the order of a set of strings, which is another one under another hash seed."""

from highwater.dst.scenarios.sequenced_metadata_boundary import Codec
from highwater.impl.protocols.sequenced_metadata import MetadataStore, Policies


class Unordered(MetadataStore):
    async def collect(self, min_age_ms):
        now_ms = self.world.clock.now_ms()
        files = await self.bounded.list()
        old = {str(f.id) for f in files[:-1] if now_ms - f.last_modified_ms > min_age_ms}
        if not old:
            return []
        await self.advance_boundary(max(map(int, old)))
        spared = await self._spared(files[-1].id)
        storage = self.bounded.storage
        return [] if spared is None else [i for i in old if int(i) not in spared and await storage.collect(int(i))]


def unordered(world, where, spare, client):
    return Unordered(world, where, Codec, Policies(spare_checkpoints=spare))
'''


def ran(*arguments: str):
    return CliRunner().invoke(app, arguments)


@pytest.fixture
def sick(tmp_path):
    (tmp_path / "unordered.py").write_text(UNORDERED)
    return {"build": "unordered:unordered", "path": str(tmp_path)}


def test_a_good_sample():
    assert check(range(30)) is None
    assert check([3, 5], RunSpec(mutant="no_check", strategy="pct")) is None


def test_a_file_in_the_working_folder_takes_the_place_of_no_module(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit('the working folder is on the path')\n")
    monkeypatch.chdir(tmp_path)
    assert check([3]) is None


def test_a_set_of_strings_is_found_and_located(sick):
    found = check(range(30), **sick)
    assert found is not None
    assert "event " in found.message and "delete id" in found.message
    assert "PYTHONHASHSEED=1" in found.message and "PYTHONHASHSEED=2" in found.message
    same = [Place(sys.executable, 5), Place(sys.executable, 5)]
    assert check(range(30), places=same, **sick) is None  # under one hash seed nobody could tell


def test_the_first_choice_that_differs_is_numbered():
    one, two = [["a", 0, 2], ["b", 3, 9], ["c", 1, 2]], [["a", 0, 2], ["b", 4, 9]]
    assert doctor.first_difference(one, two) == 1 and doctor.choice(one, 1) == "b: 3 of 9"
    assert doctor.first_difference(one, one[:2]) == 2 and doctor.choice(two, 2) == "no more choices"
    assert doctor.first_difference(one, one) is None


def test_the_verb_has_an_exit_code_of_its_own(sick, monkeypatch):
    result = ran("dst", "doctor", "--seeds", "0:5")
    assert result.exit_code == 0 and "ok: 5 seeds" in result.output
    monkeypatch.setattr(dst_doctor, "newer_python", lambda: "none here")
    monkeypatch.setattr(dst_doctor, "check", lambda *arguments, **_: check(*arguments, **sick))
    result = ran("dst", "doctor", "--seeds", "0:30")
    assert result.exit_code == 13 and "gives different runs" in result.output and "delete id" in result.output
    assert "skipped: another version of Python: none here" in result.output


@pytest.mark.parametrize("arguments, says", [(["--seeds", "5:1"], "write A:B"), (["--mutant", "nobody"], "there is no mutant"),
                                             (["--strategy", "luck"], "there is no strategy"),
                                             (["--seeds", "0:9000000"], "at most 100,000")])
def test_bad_input_is_refused_in_one_line(arguments, says):
    result = ran("dst", "doctor", *arguments)
    assert result.exit_code == 2 and says in result.output and "Traceback" not in result.output


def test_a_process_that_does_not_answer_is_no_proof(tmp_path, monkeypatch):
    with pytest.raises(Broken, match="PYTHONHASHSEED=1: .*No such file"):
        check([1], places=[Place(str(tmp_path / "python"), 1)])
    with pytest.raises(Broken, match="ModuleNotFoundError: No module named 'nothing'"):
        check([1], build="nothing:at_all")
    monkeypatch.setattr(dst_doctor, "check", lambda *_, **__: check([1], build="nothing:at_all"))
    result = ran("dst", "doctor", "--seeds", "0:2")
    assert result.exit_code == 14 and "No module named 'nothing'" in result.output


def test_another_python_is_tried_where_there_is_one():
    other = newer_python()
    if isinstance(other, str):
        assert "no other Python" in other
        pytest.skip(other)
    assert check(range(20), places=[Place(sys.executable, 1), other]) is None


def test_another_python_is_looked_for_on_the_path(monkeypatch, tmp_path):
    fake = tmp_path / "python3.12"
    fake.write_text(f"#!/bin/sh\necho {sys.executable}\necho 3.12.99\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert newer_python() == Place(sys.executable, 1, "3.12.99")
    fake.write_text("#!/bin/sh\nexit 127\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert newer_python() == "no other Python 3.11 or newer runs here (python3.12 on PATH do not start)"
    monkeypatch.setenv("PATH", "")
    assert newer_python() == "no other Python 3.11 or newer is on PATH"


def test_a_tape_is_replayed_in_a_fresh_process():
    run = Run(4, mutant="no_check")
    outcome = simulate(run)
    run = run._replace(strategy=outcome.strategy)
    assert replays(outcome, run)
    assert not replays(outcome, run._replace(mutant=None))  # another implementation
    for tape in (outcome.tape[:-1], outcome.tape[1:], []):
        assert not replays(outcome._replace(tape=tape), run)
