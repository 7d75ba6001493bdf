"""A bundle is complete or absent, has the same bytes everywhere, and replays on other machines."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from highwater.cli.dst import explain as dst_explain
from highwater.cli.dst import replay as dst_replay
from highwater.cli.dst import shrink as dst_shrink
from highwater.cli.main import app
from highwater.dst.bundle import Refused, read
from highwater.dst.run_spec import Run, RunSpec
from highwater.dst.scenarios import mutants_of, named, stems
from highwater.dst.search.nearest import nearest
from highwater.dst.simulate import Outcome, simulate
from highwater.traces.explain.explain import replay
from highwater.traces.refine import Failure

RUN = ("dst", "run", "--seed", "4", "--mutant", "no_check")
CODE = 10  # safety


def ran(*arguments: str):
    return CliRunner().invoke(app, arguments)


@pytest.fixture(scope="module")
def bundled(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bundles") / "one"
    assert ran(*RUN, "--out", str(folder)).exit_code == CODE
    return folder


@pytest.fixture
def carried(bundled, tmp_path) -> Path:
    return Path(shutil.copytree(bundled, tmp_path / "elsewhere"))


def test_it_holds_the_run(bundled):
    assert sorted(path.name for path in bundled.iterdir()) == [
        "manifest.json", "report.txt", "tape.json", "timeline.html", "trace.ndjson"]
    manifest = json.loads((bundled / "manifest.json").read_text())
    of = [manifest[name] for name in ("seed", "mutant", "strategy", "kind")]
    assert of == [4, "no_check", "portfolio", "safety"]
    assert manifest["shape"] is manifest["weights"] is None and manifest["signature"] == "told:committed"
    assert "told:committed" in (bundled / "report.txt").read_text()
    assert not list(bundled.parent.glob(".*"))


def test_its_bytes_are_the_same_from_another_process_folder_and_hash_seed(bundled, tmp_path):
    command = [sys.executable, "-m", "highwater", *RUN, "--out", "here/and there"]
    environment = {**os.environ, "PYTHONHASHSEED": "77", "PYTHONPATH": str(Path(__file__).parents[2])}
    assert subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True).returncode == CODE
    there = tmp_path / "here" / "and there"
    for path in bundled.iterdir():
        assert path.read_bytes() == (there / path.name).read_bytes(), path.name
        text = path.read_text()
        assert str(tmp_path) not in text and str(bundled.parent) not in text and " at 0x" not in text
        assert str(Path(__file__).parents[2]) not in text


def test_it_replays_wherever_it_is_carried(carried):
    result = ran("dst", "replay", str(carried))
    assert result.exit_code == CODE and "told:committed" in result.output and "code has changed" not in result.output
    assert f"Replay: {Run(4, mutant='no_check').command()}" in result.output
    assert ran("dst", "replay", str(carried / "tape.json")).exit_code == CODE  # the tape is enough


@pytest.mark.parametrize("name", ["tape.json", "trace.ndjson", "report.txt", "timeline.html"])
def test_what_is_damaged_is_refused(carried, name):
    file = carried / name
    good = file.read_bytes()
    for bad in (good[:-1], good + b" ", b"", b"\xff" + good[1:], None):
        file.unlink()
        if bad is not None:
            file.write_bytes(bad)
        result = ran("dst", "replay", str(carried))
        assert result.exit_code == 2 and result.output.count("\n") == 1 and str(name) in result.output, result.output
        file.write_bytes(good)
    assert ran("dst", "replay", str(carried)).exit_code == CODE


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "null", '{"format": 2}', '{"format": 2, "files": 3}',
                                  '{"format": 9, "files": {}}', '{"format": 2, "files": {"../tape.json": "x"}}',
                                  '{"format": 2, "files": {}}'])
def test_a_damaged_manifest_is_refused(carried, text):
    (carried / "manifest.json").write_text(text)
    result = ran("dst", "replay", str(carried))
    assert result.exit_code == 2 and result.output.count("\n") == 1 and str(carried) in result.output


@pytest.mark.parametrize("field, value", [
    ("v", 9), ("scenario", "nothing"), ("mutant", "nobody"), ("strategy", "luck"), ("strategy", ["x"]), ("seed", "x"),
    ("shape", {"writers": 99}), ("shape", {"page_size": 0}), ("shape", {"colour": 1}), ("shape", 3), ("shape", {"store": "x"}),
    ("weights", {"stall": "often"}), ("tape", [["site", 5, 2]]), ("tape", [["site", 5]]), ("tape", 7)])
def test_a_tape_that_makes_no_sense_is_refused(carried, field, value):
    tape = carried / "tape.json"
    tape.write_text(json.dumps({**json.loads(tape.read_text()), field: value}))
    result = ran("dst", "replay", str(tape))
    assert result.exit_code == 2 and result.output.count("\n") == 1, result.output


def test_it_is_never_half_written(bundled, tmp_path, monkeypatch):
    """The disk is full at the third file: there is no bundle, or the one that was there."""
    written, full = Path.write_bytes, []

    def write_bytes(path, data):
        full.append(path)
        if len(full) % 3 == 0:
            raise OSError(28, "No space left on device")
        return written(path, data)

    shutil.copytree(bundled, tmp_path / "old")
    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    for name in ("new", "old"):
        result = ran(*RUN, "--out", str(tmp_path / name))
        assert result.exit_code == 2 and "cannot be written: No space left" in result.output
    monkeypatch.undo()
    assert not (tmp_path / "new").exists() and ran("dst", "replay", str(tmp_path / "old")).exit_code == CODE
    assert ran("dst", "run", "--seed", "5", "--out", str(tmp_path / "old")).exit_code == 0  # replaced, and nothing is left over
    assert read(tmp_path / "old").run.seed == 5
    assert sorted(path.name for path in tmp_path.iterdir()) == [".new.writing", "old"]
    assert ran("dst", "run", "--seed", "5", "--out", str(tmp_path / "new")).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    result = ran(*RUN, "--out", str(tmp_path))
    assert result.exit_code == 2 and "not empty, and is not a bundle" in result.output and result.output.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_what_is_of_no_bundle_is_left_alone(carried, tmp_path):
    (tmp_path / "ext/src").mkdir(parents=True)
    (tmp_path / "ext/manifest.json").write_text('{"manifest_version": 3}')
    (tmp_path / "file.txt").write_text("mine")
    (carried / "notes.txt").write_text("mine")
    for place, why in (("ext", "is not a bundle"), ("file.txt", "is a file"), ("elsewhere", "holds notes.txt")):
        result = ran(*RUN, "--out", str(tmp_path / place))
        assert result.exit_code == 2 and why in result.output and result.output.count("\n") == 1, result.output
    assert (tmp_path / "ext/src").is_dir()
    assert (tmp_path / "file.txt").read_text() == (carried / "notes.txt").read_text() == "mine"
    (carried / "notes.txt").unlink()
    assert ran(*RUN, "--out", str(carried)).exit_code == CODE


@pytest.mark.parametrize("field", ["seed", "kind", "digest", "profile", "code"])
def test_an_edited_manifest_is_noticed(carried, field):
    manifest = json.loads((carried / "manifest.json").read_text())
    (carried / "manifest.json").write_text(json.dumps({**manifest, field: "0"}))
    result = ran("dst", "replay", str(carried))
    assert result.exit_code == 2 and "manifest.json is not what was written" in result.output


def test_what_does_not_replay_is_neither_drawn_nor_explained(carried, tmp_path):
    tape = json.loads((carried / "tape.json").read_text())
    alone = tmp_path / "tape.json"
    for changed in (tape["tape"][:-1], [*tape["tape"], ["x", 0, 3]], [["x", 0, 3], *tape["tape"]]):
        alone.write_text(json.dumps({**tape, "tape": changed}))
        for verb in (("replay",), ("explain",), ("shrink",), ("timeline", "-o", str(tmp_path / "x.html")),
                     ("export", "--shiviz", "-o", str(tmp_path / "x.log"))):
            result = ran("dst", verb[0], str(alone), *verb[1:])
            assert result.exit_code == 13 and "tape" in result.output, (verb, result.output)
    assert not (tmp_path / "x.html").exists() and not (tmp_path / "x.log").exists()
    alone.write_text(json.dumps({**tape, "tape": [[tape["tape"][0][0], 0.5, tape["tape"][0][2]], *tape["tape"][1:]]}))
    assert ran("dst", "replay", str(alone)).exit_code == 2


def test_changed_code_is_told_and_named(carried, monkeypatch):
    monkeypatch.setattr(dst_replay, "code_version", lambda: "0123456789abcdef")
    result = ran("dst", "replay", str(carried))
    assert result.exit_code == CODE and "this is 0123456789abcdef" in result.output
    assert result.output.startswith("the code has changed: it was recorded with ")


def test_of_other_code_the_reason_comes_first_and_it_is_no_nondeterminism(carried, monkeypatch):
    tape = carried / "tape.json"
    saved = json.loads(tape.read_text())
    for at in (0, len(saved["tape"]) - 3):  # before the run, and amid it
        choices = [*saved["tape"][:at], ["Writer#0.renamed", 1, 3], *saved["tape"][at:]]
        tape.write_text(json.dumps({**saved, "tape": choices, "code": "0123456789abcdef"}))
        for verb in ("replay", "explain"):
            result = ran("dst", verb, str(tape))
            reason, ways, found = result.stdout.splitlines()
            assert reason.startswith("the code has changed") and "0123456789abcdef" in reason and "because of that" in reason
            assert "check out the code" in ways and found.startswith("the tape does not fit this code: ")
            assert result.exit_code == 3 and "nondeterminism" not in result.output
        lenient = ran(*shlex.split(ways.partition(": ")[2])[1:])
        assert lenient.exit_code == CODE and lenient.output.startswith("the code has changed")
        assert "check out" not in lenient.output
    tape.write_text(json.dumps({**saved, "code": "0123456789abcdef", "digest": "0" * 32}))  # it fits, and is another run
    result = ran("dst", "replay", str(tape))
    assert result.exit_code == CODE and "nondeterminism" not in result.output
    assert "the trace differs from the recorded one" in result.output
    tape.write_text(json.dumps({**saved, "mutant": None, "code": "0123456789abcdef"}))  # what failed then passes now
    assert ran("dst", "replay", str(tape), "--lenient").exit_code == 0
    fits = dst_replay.recorded(4, RunSpec())
    monkeypatch.setattr(dst_replay, "read", lambda *_: fits._replace(code="0123456789abcdef", digest="0" * 32))
    result = ran("dst", "replay", str(tape))
    assert result.exit_code == 3 and "ok: " in result.output and "nondeterminism" not in result.output


# --- a line that is shown can be typed


def typed(output: str, monkeypatch, folder: Path) -> None:
    """The line that shows the run again does so, where it says that it does."""
    line = re.search(r"(?m)^Replay: (?:in [^:]*: )?(.*)$", output)[1]
    monkeypatch.chdir(folder)
    words = shlex.split(line)
    assert words[:3] == ["highwater", "dst", "replay"] and ran(*words[1:]).exit_code == CODE, line


def test_the_line_that_replays_can_be_pasted(tmp_path, monkeypatch):
    (tmp_path / "a b").mkdir()
    monkeypatch.chdir(tmp_path)
    for place in ("a b/it's", "7", str(tmp_path / "absolute")):
        assert ran(*RUN, "--out", place).exit_code == CODE
    for what in ("a b/it's", "./a b/../7", "./7", str(tmp_path / "absolute"), "a b/it's/tape.json"):
        result = ran("dst", "explain", what)
        assert result.exit_code == CODE, result.output
        typed(result.output, monkeypatch, tmp_path)
    assert not set(Path("a b").iterdir()) - {Path("a b/it's")}
    monkeypatch.chdir(tmp_path / "a b/it's")
    typed(ran("dst", "explain", ".").output, monkeypatch, tmp_path / "a b/it's")


def test_what_is_kept_says_where_to_be(tmp_path, monkeypatch):
    assert ran(*RUN, "--out", str(tmp_path / "one")).exit_code == CODE
    result = ran("dst", "shrink", str(tmp_path / "one"), "--budget", "30")
    assert result.exit_code == 0, result.output
    typed(result.output, monkeypatch, tmp_path)
    shutil.move(tmp_path / "one", tmp_path / "two")
    for name in ("shrunk.report.txt", "shrunk.timeline.html"):
        text = (tmp_path / "two" / name).read_text()
        assert "in this folder: highwater dst replay . --shrunk" in text and "BUNDLE" not in text
    typed((tmp_path / "two/shrunk.report.txt").read_text(), monkeypatch, tmp_path / "two")
    monkeypatch.chdir(tmp_path)
    assert ran("dst", "timeline", "two", "--shrunk", "-o", "x.html").exit_code == 0
    assert "in the folder that holds two: highwater dst replay two --shrunk" in Path("x.html").read_text()


@pytest.fixture(scope="module")
def both(bundled, tmp_path_factory) -> Path:
    """A bundle that holds the run and its shrunk run."""
    folder = Path(shutil.copytree(bundled, tmp_path_factory.mktemp("both") / "two"))
    assert ran("dst", "shrink", str(folder), "--budget", "30").exit_code == 0
    return folder


def events_in(folder: Path, prefix: str = "") -> int:
    return len((folder / f"{prefix}trace.ndjson").read_text().splitlines())


@pytest.mark.parametrize("verb", ["replay", "explain", "timeline", "export"])
def test_verbs_take_the_shrunk_run_by_default_and_say_so(both, tmp_path, monkeypatch, verb):
    out = tmp_path / "out"
    more = {"timeline": ["-o", str(out)], "export": ["--shiviz", "-o", str(out)]}.get(verb, [])
    monkeypatch.setattr(dst_replay.console, "width", 500)
    texts = {}
    for option in ((), ("--shrunk",), ("--unshrunk",)):
        result = ran("dst", verb, str(both), *more, *option)
        assert result.exit_code == (0 if more else CODE), result.output
        texts[option] = result.output + (out.read_text() if more else "")
    assert texts[()] == texts["--shrunk",] != texts["--unshrunk",]
    assert "the shrunk run of the bundle (the unshrunk run: --unshrunk)" in texts[()]
    assert "the unshrunk run of the bundle (the shrunk run: --shrunk)" in texts["--unshrunk",]
    replayed = re.findall(r"highwater dst replay [^\n\"]*", texts["--unshrunk",])
    assert all(command.endswith("--unshrunk") for command in replayed), replayed


def test_reports_and_pages_say_which_run_they_show(bundled, both):
    for name in ("report.txt", "timeline.html"):
        assert "shrunk run" not in (bundled / name).read_text()
        assert "the unshrunk run" in (both / name).read_text()
        assert "the shrunk run" in (both / f"shrunk.{name}").read_text()


def test_bundle_without_a_shrunk_run_says_nothing_of_it(bundled, both):
    for what in (bundled, both / "shrunk.tape.json"):
        assert "shrunk run" not in ran("dst", "explain", str(what)).output
    result = ran("dst", "explain", str(bundled), "--shrunk")
    assert result.exit_code == 2 and "highwater dst shrink" in result.output
    for option in ("--shrunk", "--unshrunk"):
        assert ran("dst", "explain", "4", option).exit_code == 2


def test_shrink_begins_with_the_unshrunk_run(both, tmp_path):
    again = ran("dst", "shrink", str(both), "--budget", "30", "-o", str(tmp_path / "again"))
    assert again.exit_code == 0, again.output
    assert events_in(tmp_path / "again") == events_in(both) > events_in(both, "shrunk.")


def test_what_is_shrunk_and_not_kept_is_shrunk_again_by_the_line():
    result = ran("dst", "shrink", "4", "--mutant", "no_check", "--budget", "30")
    line = re.search(r"(?m)^Replay: (.*)$", result.output)[1]
    assert line == "highwater dst shrink 4 --mutant no_check --budget 30"
    assert ran(*line.split()[1:]).output == result.output


def test_strict_names_the_first_mismatch_and_lenient_goes_on(carried):
    tape = carried / "tape.json"
    saved = json.loads(tape.read_text())
    for at in (0, 20, len(saved["tape"]) - 3):  # of the shape, of the faults, in the run
        choices = [*saved["tape"][:at], ["Writer#0.renamed", 1, 3], *saved["tape"][at:]]
        tape.write_text(json.dumps({**saved, "tape": choices}))
        result = ran("dst", "replay", str(tape))
        assert result.exit_code == 13 and f"choice {at}: the run requests" in result.output
        assert "Writer#0.renamed" in result.output and "code has changed" not in result.output
        result = ran("dst", "replay", str(tape), "--lenient")
        assert result.exit_code == CODE and "told:committed" in result.output


def test_until_stops_at_an_event_and_shows_the_state(carried):
    events = (carried / "trace.ndjson").read_text().splitlines()
    result = ran("dst", "replay", str(carried), "--until", "2")
    assert result.exit_code == 0 and "The model's state after that event:" in result.output
    assert "Shared in the model" in result.output and "Writer#0 in the model" in result.output
    assert [line.split()[0] for line in result.output.splitlines()[:4]] == ["#", "0", "1", "2"]
    last = ran("dst", "replay", str(carried), "--until", str(len(events) - 1))
    assert "leaves the model" in last.output and "state before that event" in last.output
    beyond = ran("dst", "replay", str(carried), "--until", str(len(events)))
    assert beyond.exit_code == 2 and f"the run has {len(events)} events" in beyond.output


def test_a_seed_is_replayed_too():
    assert ran("dst", "replay", "4").exit_code == 0
    assert ran("dst", "replay", "4", "--mutant", "no_check").exit_code == CODE
    for arguments, says in ((["4", "--lenient"], "4 is a seed"), (["x.json", "--mutant", "no_check"], "has its own")):
        result = ran("dst", "replay", *arguments)
        assert result.exit_code == 2 and says in result.output and result.output.count("\n") == 1


def test_a_tape_of_the_first_format_is_still_read(carried):
    saved = json.loads((carried / "tape.json").read_text())
    old = {name: saved[name] for name in ("scenario", "seed", "mutant", "digest", "tape")}
    (carried / "old.json").write_text(json.dumps({"v": 1, **old}))
    assert ran("dst", "replay", str(carried / "old.json")).exit_code == CODE
    with pytest.raises(Refused, match="holds no shrunk.tape.json: highwater dst shrink"):
        read(carried, shrunk=True)


@pytest.mark.parametrize("strategy", ["times", "random", "pct", "pos"])
def test_a_strategy_is_named_and_in_the_line_that_replays(strategy):
    result = ran("dst", "run", "--seed", "3", "--strategy", strategy, "--mutant", "no_check")
    assert f"strategy {strategy}\n" in result.output
    command = Run(3, mutant="no_check", strategy=strategy).command()
    assert command.endswith(f" --strategy {strategy}") and f"Replay: {command}" in result.output
    assert ran(*command.split()[1:]).output == result.output
    many = ran("dst", "run", "--seeds", "0:9", "--strategy", strategy, "--mutant", "no_check").output
    assert f"failed, strategy {strategy}\n" in many and f" --mutant no_check --strategy {strategy}\n" in many
    assert "--strategy" not in ran("dst", "run", "--seed", "3", "--mutant", "no_check").output
    result = ran("dst", "run", "--seed", "3", "--strategy", "luck")
    assert result.exit_code == 2 and "there are portfolio, times" in result.output


# --- of every scenario

@pytest.fixture
def quick(monkeypatch):
    """Let an explanation look for a passing run only shortly, and a shrunk run replay in this process."""
    monkeypatch.setattr(dst_explain, "nearest", partial(nearest, budget=2))
    monkeypatch.setattr(dst_shrink, "replays", lambda of, run: simulate(run, tape=of.tape).digest == of.digest)


def passing(stem: str) -> tuple[Outcome, list[str]]:
    """Return a good run of a scenario's smallest shape, with the options that repeat it."""
    shape: Any = named(stem).tiny
    if hasattr(shape, "min_age_ms"):
        shape = shape._replace(min_age_ms=max(shape.min_age_ms, 1))  # the least that the option takes
    outcome = next(of for seed in range(200) if not (of := simulate(Run(seed, stem, shape=shape))).kind and len(of.events) > 5)
    return outcome, ["--scenario", stem, "--seed", str(outcome.seed), *(
        f"--shape={name}={value}" for name, value in shape._asdict().items())]


def failing(stem: str) -> tuple[Outcome, list[str]]:
    """Return a run of a mutant of the scenario that fails, with the options that repeat it."""
    for seed, (name, (_, build)) in product(range(200), mutants_of(stem).builds.items()):
        outcome = simulate(Run(seed, stem, name), build)
        if outcome.kind:
            return outcome, ["--scenario", stem, "--seed", str(seed), "--mutant", name]
    raise AssertionError(f"no mutant of {stem} fails")


def verb(*words: str, code: int = 0) -> str:
    """Run a verb of `dst` or `trace`. Return what it prints, without the text of a whole product of states."""
    result = ran(*words)
    assert result.exit_code == code, (words, result.output, result.exception)
    assert "OfParts(" not in result.output and "OfAll(" not in result.output, words
    return result.output


def data_in(page: Path) -> dict:
    return json.loads(page.read_text().partition('type="application/json">')[2].partition("</script>")[0])


def checked(outcome: Outcome) -> str:
    """Return the signature with which the judge of the run's shape refuses its events; "" if it does not."""
    trace = named(outcome.scenario).trace_of(outcome.shape)
    try:
        for event in outcome.events:
            trace.observe(event)
    except Failure as failure:
        return failure.signature
    return ""


@pytest.mark.parametrize("stem", stems())
def test_each_scenario_keeps_a_good_run(stem, tmp_path, quick):
    """The timeline has a row for each event, with all fields of the state, and the trace is checked with the run's shape."""
    (outcome, options), of = passing(stem), str(tmp_path / "run")
    verb("dst", "run", *options, "--out", of)
    assert outcome.digest in verb("dst", "replay", of)
    assert f"{len(outcome.events):,} events refine" in verb("trace", "check", of)
    verb("dst", "export", of, "--shiviz", "-o", f"{of}.log")
    _, _, *lines = Path(f"{of}.log").read_text().splitlines()
    assert len(lines) >= 2 * len(outcome.events) and all(
        line.partition(" ")[0] in json.loads(line.partition(" ")[2]) for line in lines[::2])
    assert ran("dst", "export", of, "--fizz", "-o", f"{of}.fizz").exit_code in (0, 3)  # 3: it has no spec, or not this action
    verb("dst", "timeline", of, "-o", f"{of}.html")
    data = data_in(Path(f"{of}.html"))
    assert len(data["rows"]) == len(outcome.events)
    names = [data["shared"], *(fields for _, fields in data["locals"])]
    replayed = replay(outcome.events, named(stem).judge(outcome.shape))
    assert replayed.error is None and any(steps for _, steps, _ in replayed.rows), "no event is a step of the model"
    stateless = replayed.initial.shared == ()
    assert stateless is not any(names) and (stateless or len({row.after for row in replayed.rows}) > 1)
    for row in (data["initial"], *(row["state"] for row in data["rows"])):
        assert [len(data["parts"][part]) for part in row] == list(map(len, names))
    assert not [text for text in data["texts"] if text.startswith(("OfParts(", "OfAll("))]


@pytest.mark.parametrize("stem", stems())
def test_each_scenario_keeps_and_shrinks_a_failing_run(stem, tmp_path, quick):
    (outcome, options), of = failing(stem), str(tmp_path / "run")
    code, signature = {"refinement": 11, "liveness": 12}.get(outcome.kind, 10), checked(outcome)
    verb("dst", "run", *options, "--out", of, code=code)
    verb("dst", "export", of, "--shiviz", "-o", f"{of}.log")
    assert f"({signature})" * bool(signature) in verb("trace", "check", of, code=code if signature else 0)
    verb("dst", "shrink", of, "--budget", "5")
    assert data_in(Path(of, "shrunk.timeline.html"))["rows"]
    assert outcome.signature in verb("dst", "explain", of, code=code)
    assert ran("trace", "check", of).exit_code in (0, code)
