"""Input from outside is read within bounds: bad input ends with exit code 2, and one line names the file and the line."""

import io
import json
import os
import re
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from highwater.cli.console import LONGEST_MESSAGE
from highwater.cli.main import app
from highwater.dst import scenarios
from highwater.dst.run_spec import Run
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.verdict import Options, beginner, judged
from highwater.outside import DEPTH, DOCUMENT_MIB, first_line, json_of, lines_of, texts_of, toml_of
from highwater.traces import protocols
from highwater.traces.event import Event, to_json
from highwater.traces.refine import Failure
from highwater.traces.stream import KEPT, Streamed

DEEP = "[" * 100_000 + "]" * 100_000
LINE = ('{"v":1,"client":"Writer#0","kind":"applied","op":"list","key":"db/compactions/","request":1,"status":200,"t_ms":1}')
BAD = {  # name -> a text that is no JSON that is read here
    "nested": DEEP, "nested and open": "[" * 1_000_000, "nested objects": '{"a":' * 5_000 + "1" + "}" * 5_000,
    "just too deep": "[" * (DEPTH + 1) + "]" * (DEPTH + 1), "NUL bytes": "\0" * 100, "a long number": "9" * 100_000,
    "NaN": "NaN", "infinite": "-Infinity", "beyond a float": "-1e400", "twice": '{"a":1,"a":2}', "cut": '{"a":', "nothing": "",
}


def ran(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result.exit_code, result.output


def refused(*words: object) -> str:
    """Return the one line with which a command refuses its input."""
    code, said = ran(*words)
    assert code == 2 and said.count("\n") == 1 and len(said) < 1_000, (code, said[:2_000])
    return said


@pytest.mark.parametrize("name", BAD)
def test_json_beyond_a_bound_raises_value_error(name):
    with pytest.raises(ValueError) as error:
        json_of(BAD[name])
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


def test_json_within_the_bounds_is_read():
    text = json.dumps({"a": [1, -2.5, True, None, "[" * 200 + "\ud83d\ude00"], "b": {}})
    assert json_of(text) == json_of(text.encode()) == json.loads(text)
    assert json_of("[" * DEPTH + "]" * DEPTH) == json.loads("[" * DEPTH + "]" * DEPTH)
    assert json_of("9" * 4_000) == int("9" * 4_000)


@pytest.mark.parametrize("text", ["a = " + DEEP, "a = 1\na = 2", "a = " + "[" * 1_000, "a"])
def test_toml_beyond_a_bound_raises_value_error(text):
    with pytest.raises(ValueError):
        toml_of(text)


def test_a_long_line_is_not_read_to_its_end():
    stream = io.BytesIO(b"short\n" + b"x" * (3 << 20))
    with pytest.raises(ValueError, match="line is longer than 1 MiB; --line-mib"):
        list(lines_of(stream, 1))
    assert stream.tell() == 6 + (1 << 20) + 1
    with pytest.raises(ValueError, match="^line 2: the line is longer"):
        list(texts_of(io.BytesIO(stream.getvalue()), 1))
    with pytest.raises(ValueError, match="^line 2: byte 3 is not UTF-8"):
        list(texts_of(io.BytesIO(b"a\nbc\xff\n")))


def test_a_first_line_is_looked_for_within_bounds(tmp_path):
    (tmp_path / "f").write_bytes(b"\n" * 3 + b"x" * (2 << 20))
    assert first_line(tmp_path / "f") == "x" * (1 << 20)
    (tmp_path / "f").write_bytes(b"\n" * 200 + b"x")
    assert first_line(tmp_path / "f") == ""


# --- traces of events

BAD_EVENTS = {
    **{name: text.encode() for name, text in BAD.items() if text}, "a list": b"[1]", "a text": b'"x"',
    "half a surrogate in a key": LINE.replace("db/", "\\ud800").encode(),
    "half a surrogate in a client": LINE.replace("#0", "#\\udc80").encode(),
    "half a surrogate in keys": LINE.replace('"v"', '"keys":["\\ud800"],"v"').encode(),
    "half a surrogate in a body": LINE.replace('"v"', '"body":"\\ud800","v"').encode(),
    "not UTF-8": LINE.replace("db/", "\xff").encode("latin-1"),
    "a number of 4,000 digits": b'{"v":1,"t_ms":' + b"9" * 4_000 + b"}",
    "twice": b'{"t_ms":1,' + LINE[1:].encode(), "a deep field": LINE.replace('"v"', f'"keys":{DEEP},"v"').encode(),
    "told with depth": LINE.replace('"v"', f'"told":{DEEP},"v"').encode(), "cut": LINE[:-9].encode(),
    "a long value": LINE.replace('"t_ms":1', f'"t_ms":"{"x" * 1_000_000}"').encode(),
}


@pytest.mark.parametrize("bulk", [False, True], ids=["one", "bulk"])
@pytest.mark.parametrize("name", BAD_EVENTS)
def test_a_line_that_is_no_event_is_named(name, bulk, tmp_path):
    """Whatever its other lines are: also behind an event that the model refuses."""
    file = tmp_path / "t.ndjson"
    good = LINE.replace('"v"', '"run":"a","v"') if bulk else LINE
    file.write_bytes(good.encode() + b"\n" + BAD_EVENTS[name] + b"\n" * (name != "cut"))
    if bulk:
        code, said = ran("trace", "check", file)
        assert code == 2 and f"{file}:2: " in said and "damaged" in said, said
    else:
        assert f"{file}:2: " in refused("trace", "check", file)


def test_a_line_beyond_the_bound_needs_the_option(tmp_path):
    file = tmp_path / "t.ndjson"
    file.write_text(LINE + "\n" + LINE.replace('"v"', f'"body":"{"x" * (2 << 20)}","v"').replace("t_ms\":1", "t_ms\":2") + "\n")
    assert f"{file}:2: the line is longer than 1 MiB; --line-mib" in refused("trace", "check", file, "--line-mib", 1)
    assert "--line-mib" not in ran("trace", "check", file)[1]
    code, said = ran("trace", "check", file, file, "--line-mib", 1)
    assert code == 2 and f"{file}:2: the line is longer than 1 MiB; --line-mib" in said


def test_a_nested_body_refuses_the_event(tmp_path):
    file = tmp_path / "t.ndjson"
    file.write_text(json.dumps({"v": 1, "client": "Writer#0", "kind": "applied", "op": "create", "request": 1, "status": 200,
                                "t_ms": 1, "version": "a", "key": f"db/compactions/{1:020d}.compactions", "body": DEEP}) + "\n")
    code, said = ran("trace", "check", file)
    assert code == 11 and "harness" not in said, said[:500]


# --- other inputs

LOG = '{"kind":"log","v":1}\n'
REQUEST = ('{"kind":"request","number":1,"client":"A","op":"get","method":"GET","bucket":"b","key":"k","called":1,"sent":2,'
           '"answered":3,"returned":4,"status":404,"told":404}\n')


@pytest.mark.parametrize("text, where", [
    (LOG + '{"kind":"request","listed":' + DEEP + "}\n", "line 2: it is nested"),
    (LOG + '{"kind":"note","a":NaN}\n', "line 2: "),
    ('{"kind":"log","v":1,"v":1}\n', "line 1: 'v' is there twice"), (LOG + "\0\n", "line 2: "),
    ('{"tag":"trace","event":{}}\n{"tag":"trace","event":' + DEEP + "}\n", "line 2: "),
])
def test_a_bad_line_of_a_log_is_named(text, where, tmp_path):
    (tmp_path / "log").write_text(text)
    assert where in refused("trace", "check", tmp_path / "log")


@pytest.mark.parametrize("text", [*BAD.values(), "[]", '{"files":3}', '{"v":2,"scenario":' + DEEP + "}"])
def test_a_bad_tape_or_manifest_is_refused(text, tmp_path):
    (tmp_path / "tape.json").write_text(text)
    assert "tape" in refused("dst", "replay", tmp_path / "tape.json")
    (tmp_path / "manifest.json").write_text(text)
    (tmp_path / "trace.ndjson").write_text(LINE + "\n")
    for words in (("dst", "replay", tmp_path), ("trace", "check", tmp_path), ("trace", "check", tmp_path / "trace.ndjson")):
        assert "damaged" in refused(*words)


LONG = "x" * 100_000


@pytest.mark.parametrize("fields", [{"v": LONG}, *({"v": 2, "scenario": name} for name in (LONG, "\0", "\ud800"))],
                         ids=["version", "long", "zero", "surrogate"])
def test_a_long_name_is_refused_in_a_line_of_bounded_length(fields, tmp_path):
    (tmp_path / "tape.json").write_text(json.dumps(fields))
    code, said = ran("dst", "replay", tmp_path / "tape.json")
    assert (code, said.count("\n")) == (2, 1) and "tape.json: " in said and len(said) < LONGEST_MESSAGE + 100


@pytest.mark.parametrize("digest", ["\ud800", "\x1b[31m", "f" * 31, 7])
def test_a_digest_that_is_none_is_refused(digest, tmp_path):
    fields = {"v": 2, "scenario": "sequenced_metadata_boundary", "seed": 3, "mutant": None, "digest": digest, "tape": []}
    (tmp_path / "tape.json").write_text(json.dumps(fields))
    assert "digest" in refused("dst", "replay", tmp_path / "tape.json")


def test_nested_settings_and_tables_are_refused(tmp_path):
    (tmp_path / "t.toml").write_text("a = " + DEEP)
    (tmp_path / "highwater.toml").write_text("a = " + DEEP)
    (tmp_path / "log").write_text(LOG + REQUEST + '{"kind":"end","requests":1}\n')
    assert "nested" in refused("cost", "--inputs", tmp_path / "t.toml")
    assert "nested" in refused("dst", "run", "--project", tmp_path)
    assert "nested" in refused("trace", "check", tmp_path / "log", "--map", tmp_path / "t.toml")
    assert "wrong type" in refused("model", "explore", "--set", "MAX_ID=" + "(" * 150 + ")" * 150)
    assert "wrong type" in refused("model", "explore", "--set", "MAX_ID=" + "-" * 5_000 + "1")


def test_a_document_beyond_the_bound_is_not_read(tmp_path):
    """Its size alone refuses it: here it is a file without blocks on the disk."""
    for name in ("tape.json", "manifest.json", "trace.ndjson", "t.toml", "test.json", "highwater.toml"):
        (tmp_path / name).touch()
        os.truncate(tmp_path / name, (DOCUMENT_MIB << 20) + 1)
    (tmp_path / "log").write_text(LOG + REQUEST + '{"kind":"end","requests":1}\n')
    for words in (("dst", "replay", tmp_path / "tape.json"), ("dst", "replay", tmp_path), ("trace", "check", tmp_path),
                  ("cost", "--inputs", tmp_path / "t.toml"), ("dst", "run", "--project", tmp_path),
                  ("trace", "check", tmp_path / "log", "--map", tmp_path / "t.toml"),
                  ("client", "test", "--replay", 0, "--out", tmp_path)):
        tracemalloc.start()
        assert f"larger than {DOCUMENT_MIB} MiB" in refused(*words)
        assert tracemalloc.get_traced_memory()[1] < 3 * DOCUMENT_MIB << 20
        tracemalloc.stop()


# --- long traces

def test_requests_of_unknown_kinds_take_linear_time(tmp_path):
    """A quadratic search for them takes a minute."""
    unknown = REQUEST.replace('"op":"get","method":"GET"', '"op":"other","method":"PUT"')
    lines = (unknown.replace('"number":1,"', f'"number":{number},"') for number in range(1, 50_001))
    (tmp_path / "log").write_text("".join([LOG, *lines, '{"kind":"end","requests":50000}\n']))
    began_s = time.process_time()
    said = ran("trace", "check", tmp_path / "log")[1]
    assert "50,000 x PUT (other)" in said and time.process_time() - began_s < 10, said


def repeated(events: list[Event], call: list[Event], count: int) -> list[Event]:
    """Return the events with the call behind them again and again, `count` events in all."""
    found, number = [*events], max(e.request for e in events)
    while len(found) < count:
        for e in call:
            number += bool(e.request)
            found.append(e._replace(t_ms=found[-1].t_ms + 1, request=number if e.request else 0))
    return found


def reads(count: int) -> tuple[Outcome, list[Event]]:
    """Return a good run, and its events with the last call of a reader repeated, `count` events in all."""
    for seed in range(200):
        run = simulate(Run(seed))
        last = max(number for number, e in enumerate(run.events) if e.kind != "told" and e.op in ("create", "put", "delete"))
        own = [e for e in run.events[last + 1:] if e.client == "Reader#0"]
        ends = [number for number, e in enumerate(own) if e.kind == "told"]
        call = own[ends[-2] + 1:] if len(ends) > 1 else []
        if run.kind or run.shape.sdk or not call or any(e.kind not in ("applied", "told") or not e.awaited for e in call):
            continue
        return run, repeated(run.events, call, count)
    raise AssertionError("no run ends with two reads")


def options_of(run: Outcome) -> Options:
    shape: Any = run.shape
    return Options(namespace="manifest" if shape.manifest else "compactions", page_size=shape.page_size, skew_ms=shape.skew_ms)


def in_file(path: Path, events: list[Event]) -> Path:
    path.write_text("".join(to_json(e) + "\n" for e in events))
    return path


def peak_of(file: Path, options: Options) -> int:
    """Return the most memory that a check has, in bytes."""
    streamed = Streamed(file)
    trace = beginner(streamed.firsts(), options)()
    tracemalloc.start()
    assert judged(streamed, trace, options) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def test_memory_grows_by_few_bytes_for_each_event(tmp_path):
    """A list of these events has some 700 bytes of each."""
    run, events = reads(30_000)
    small, large = (in_file(tmp_path / f"{count}.ndjson", events[:count]) for count in (10_000, 30_000))
    options = options_of(run)
    peak_of(small, options)  # fills the caches
    more = (peak_of(large, options) - peak_of(small, options)) / 20_000
    assert more < 40, f"{more:.0f} bytes for each event"


def test_a_stream_gives_the_verdict_of_a_list(tmp_path):
    """Also if a judge looks back beyond the latest events, and where the trace fails."""
    run, events = reads(2 * KEPT)
    options, last = options_of(run), events[-1]
    wrong = last._replace(t_ms=last.t_ms + 1, client="Reader#0", body=b"another")
    for those in (events, [*events, wrong], [*events[:100], wrong, *events[100:]]):
        file = in_file(tmp_path / "t.ndjson", those)
        streamed, found = Streamed(file), []
        for given in (those, streamed):
            trace = beginner(those, options)()
            failure = judged(given, trace, options)
            found.append((failure and (failure.signature, failure.message), len(trace.events), trace.events[0],
                          trace.events[-1], [*trace.events[:20]], [*trace.events][-1],
                          [*reversed(trace.by_client["Reader#0"])][-5:]))
        assert found[0] == found[1] and isinstance(found[0][0], (tuple, type(None))) and not isinstance(found[0], Failure)
    assert {e.client for e in Streamed(file).firsts()} == {e.client for e in those}


def test_a_look_back_does_not_read_the_trace_again(tmp_path, monkeypatch):
    """A writer that finds its session forgotten is judged by what it read. The events are looked at a few times each."""
    for seed in range(200):
        run = simulate(Run(seed, "update_ids"))
        ends = [number for number, e in enumerate(run.events) if e.op == "forgotten"]
        before = run.events[:ends[0]] if ends and not run.kind else []
        own = [e for e in before if before and e.client == run.events[ends[0]].client]
        call = [*own[max((number for number, e in enumerate(own) if e.kind == "told"), default=-1) + 1:],
                *run.events[ends[0]:ends[0] + 1]] if own else []
        if call and {e.op for e in call} <= {"list", "get", "forgotten"} and all(e.kind in ("applied", "told") for e in call):
            break
    else:
        raise AssertionError("no session is forgotten by a writer that only reads")
    options = Options(protocol="update_ids", shape=tuple(f"{name}={value}" for name, value in run.shape._asdict().items()))
    streamed, looks = Streamed(in_file(tmp_path / "t.ndjson", repeated([*before, call[-1]], call, KEPT))), []
    usual = Streamed._at
    monkeypatch.setattr(Streamed, "_at", lambda self, number: (looks.append(number), usual(self, number))[1])
    assert judged(streamed, beginner(streamed.firsts(), options)(), options) is None
    assert len(streamed) / 8 < len(looks) < 8 * len(streamed)
    events = repeated([*before, call[-1]], call, 100)
    again = call[-1]._replace(t_ms=events[-1].t_ms)  # it tells the same, and has read nothing since
    streamed = Streamed(in_file(tmp_path / "t.ndjson", [*events, *[again] * 2]))
    failure = judged(streamed, beginner(streamed.firsts(), options)(), options)
    assert failure and "it has read no file that is ahead" in failure.message


def test_mappings_look_back_by_client():
    """A walk over the events of all clients reads a long file again."""
    for folder in (protocols, scenarios):
        for file in Path(*folder.__path__).rglob("*.py"):
            assert not re.search(r"self\.events\[[^]]*:|in (reversed\()?self\.events\b", file.read_text()), file


def test_an_explanation_numbers_the_last_events(tmp_path):
    run, events = reads(200)
    last = events[-1]
    file = in_file(tmp_path / "t.ndjson", [*events, last._replace(t_ms=last.t_ms - 1)])
    code, said = ran("trace", "check", file, *(f"--{name.replace('_', '-')}={value}" for name, value in zip(
        ("namespace", "page_size", "skew_ms"), (options_of(run).namespace, run.shape.page_size, run.shape.skew_ms))))
    assert code == 11 and f"Failing event, number {len(events)}:" in said and f"\n  {len(events) - 1} " in said, said
