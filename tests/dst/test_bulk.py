"""Traces in bulk: each run gets the verdict that `trace check` gives it alone, on every engine, however the input is split.

A damaged run has a row of its own and does not affect its neighbours. In reading order: one run and its row; events on their
way; the engines agree; damage; refusals; the command; Spark.
"""

import gzip
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.dst.bulk import engines, sources
from highwater.dst.bulk.checking import Asked
from highwater.dst.bulk.export import SCHEMA, Export
from highwater.dst.bulk.packets import in_order, narrow
from highwater.dst.bulk.rows import BadInput, BulkError
from highwater.dst.bulk.sources import Choice, plan
from highwater.dst.run_spec import Run
from highwater.dst.scenarios import named
from highwater.dst.simulate import Outcome, simulate
from highwater.dst.spark import bulk as on_spark
from highwater.dst.spark import session as sessions
from highwater.dst.zoo import build_of
from highwater.gate import exits
from highwater.traces.event import to_json
from tests.traces.test_etcd_raft import committed, placed
from tests.traces.test_etcd_raft import texts as etcd_lines

ROOT = Path(__file__).resolve().parents[2]
BOUNDARY = "sequenced_metadata_boundary"
COMMAND = "highwater trace check x"


def outcomes() -> list[tuple[str, Outcome]]:
    """Return (name of the run, outcome) for runs of several protocols, with mutants hidden among them."""
    found = [(f"seed-{seed}", simulate(Run(seed))) for seed in range(12)]
    for stem, mutants in ((BOUNDARY, ("no_check", "age_ignored", "latest_deleted")), ("sequenced_write", (None,)),
                          ("wal_fencing", (None,)), ("manifest_epochs", (None,))):
        found += [(f"{stem}/{mutant}/{seed}", simulate(Run(seed, scenario=stem), build_of(mutant, stem)))
                  for mutant in mutants for seed in range(4)]
    return found


@pytest.fixture(scope="module")
def runs() -> list[tuple[str, Outcome]]:
    return outcomes()


def write(file: Path, runs: list[tuple[str, Outcome]]) -> Path:
    with Export(file) as export:
        for name, of in runs:
            export.add(name, of.scenario, " ".join(named(of.scenario).trace_options(of.shape)), of.events)
    return file


def mixed(folder: Path, runs: list[tuple[str, Outcome]], parquet: bool) -> Path:
    """Three files, of which every run has events in each, in no order."""
    folder.mkdir(parents=True)
    whole = pq.read_table(write(folder / "whole.parquet", runs))
    (folder / "whole.parquet").unlink()
    order = list(range(len(whole)))
    Random(1).shuffle(order)
    for i in range(3):
        part = whole.take(pa.array(order[i::3]))
        if parquet:
            pq.write_table(part, folder / f"{i}.parquet", row_group_size=500)
        else:
            write_lines(folder / f"{i}.ndjson", part.to_pylist())
    return folder


def write_lines(file: Path, rows: list[dict]) -> Path:
    file.write_text("".join(json.dumps({"v": 1, **{name: value.decode() if name == "body" else value
                                                   for name, value in row.items()}}) + "\n" for row in rows))
    return file


def checked(*inputs: Path, jobs: int = 1, parts: int = 0, choice: Choice = sources.ALL, asked: Asked | None = None) -> pa.Table:
    work = engines.work_of(plan(map(str, inputs)), jobs, asked or Asked(command=COMMAND), choice)
    return engines.check(work._replace(parts=parts or work.parts), jobs)


def by_run(table: pa.Table) -> dict[str, dict]:
    return {row["run"]: row for row in table.to_pylist()}


def called(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def folder(runs: list[tuple[str, Outcome]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return mixed(tmp_path_factory.mktemp("bulk") / "mixed", runs, parquet=True)


@pytest.fixture(scope="module")
def expected(folder: Path) -> pa.Table:
    return checked(folder)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of another program: a good one, one without a line that it needs, one that is none of it, and a trace of ours."""
    folder, good = tmp_path_factory.mktemp("logs"), etcd_lines(committed())
    lacks = committed()
    del lacks[placed(lacks, "ReceiveAppendEntriesResponse", "1")]
    for name, lines in (("good", good), ("bad", etcd_lines(lacks)), ("damaged", [*good, "{"])):
        (folder / f"{name}.ndjson").write_text("\n".join(lines))
    write_lines(folder / "ours.ndjson", rows_of(("ours", simulate(Run(1)))))
    return folder


# --- one run and its row

def test_a_row_says_what_trace_check_says_of_the_run_alone(runs: list, expected: pa.Table, tmp_path: Path) -> None:
    rows, verdicts = by_run(expected), set()
    assert sorted(rows) == sorted(name for name, _ in runs)
    for name, of in runs:
        row, file = rows[name], tmp_path / "one.ndjson"
        file.write_text("".join(to_json(event) + "\n" for event in of.events))
        options = [word for option in named(of.scenario).trace_options(of.shape) for word in option.split()]
        code, said = called("trace", "check", file, "--protocol", of.scenario, *options)
        assert exits.of_kinds([row["kind"]] if row["kind"] else []) == code
        assert (row["protocol"], row["events"]) == (of.scenario, len(of.events))
        if code:
            assert said.startswith(f"{row['kind']} ({row['signature']})\n")
            assert row["message"] in said and f", number {row['first_bad']}:" in said
            assert row["explanation"].partition("Replay: ")[0] in said
            assert row["explanation"].strip().endswith(f"Replay: {COMMAND} --run {name}")
        else:
            assert (row["verdict"], row["signature"], row["message"], row["first_bad"]) == ("ok", "", "", None)
        verdicts.add(row["verdict"])
    assert verdicts == {"ok", "failed"}


def test_a_mutants_runs_fail_by_the_simulators_signature(runs: list, expected: pa.Table) -> None:
    rows, told = by_run(expected), 0
    for name, of in runs:
        if of.kind in ("safety", "refinement") and not of.signature.startswith(("history", "exception", "final")):
            row = rows[name]
            if row["first_bad"] == len(of.events) - 1:  # the trace shows it; what only the end shows is the simulator's
                assert (row["kind"], row["signature"], row["message"]) == (of.kind, of.signature, of.message)
                told += 1
    assert told >= 5


def test_the_namespace_tells_where_the_files_are(runs: list, tmp_path: Path) -> None:
    """Grouped by namespace alone, and by both."""
    of = simulate(Run(3))
    rows = [{"index": i, **event._asdict(), "keys": list(event.keys)} for i, event in enumerate(of.events)]
    options = named(BOUNDARY).trace_options(of.shape)
    usual = " ".join(option for option in options if not option.startswith("--namespace"))
    space = named(BOUNDARY).trace_of(of.shape).namespace.name
    for run in ({}, {"run": "a"}):
        both = [run | row | {"namespace": name, "options": usual} for row in rows for name in (f"db/{space}", "other/manifest")]
        found = checked(write_lines(tmp_path / "n.ndjson", both)).to_pylist()
        assert [(row["run"], row["namespace"], row["kind"]) for row in found] == [
            (run.get("run", ""), f"db/{space}", ""), (run.get("run", ""), "other/manifest", "refinement")]
        assert "none of 'other/manifest/'" in found[1]["message"]


def test_plain_traces_are_runs_by_the_names_of_their_files(tmp_path: Path) -> None:
    """A folder of what `dst run --out` keeps, or of any traces: no run is named in them, and no index."""
    chosen = [simulate(Run(seed, scenario="log_gc")) for seed in range(3)]
    for i, of in enumerate(chosen):
        (tmp_path / f"{i}.ndjson").write_text("\n" + "".join(to_json(event) + "\n" for event in of.events))
    (tmp_path / "_logs").mkdir()
    (tmp_path / "_logs" / "none.ndjson").write_text("no trace")
    found = checked(tmp_path, asked=Asked(engines.Asked().usual._replace(protocol="log_gc")))
    assert [(row["run"], row["events"], row["verdict"]) for row in found.to_pylist()] == [
        (str(tmp_path / f"{i}.ndjson"), len(of.events), "ok") for i, of in enumerate(chosen)]


# --- what becomes of events on the way

def test_a_log_of_another_program_is_a_run(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "SPLIT_BYTES", 1000)
    rows = by_run(checked(logs))
    good, bad, damaged = (rows[str(logs / f"{name}.ndjson")] for name in ("good", "bad", "damaged"))
    assert len(rows) == 4 and (good["verdict"], good["protocol"], good["events"]) == ("ok", "etcd_raft", 25)
    assert bad["signature"] == "refinement:Server.step" and "commits in a step" in bad["message"] and bad["explanation"]
    assert (damaged["verdict"], damaged["signature"]) == ("damaged", "input:damaged") and ": line 39: " in damaged["message"]
    assert checked(logs, jobs=2).equals(checked(logs))
    alone = checked(logs, choice=Choice(str(logs / "bad.ndjson")))
    assert alone.to_pylist() == [bad]
    ours = write_lines(tmp_path / "ours.ndjson", [dict(row, protocol="etcd_raft", options="--shape servers=0")
                                                for row in rows_of(("a", simulate(Run(1))))])
    assert "servers=N, 1 to 9" in by_run(checked(ours))["a"]["message"]


def test_every_line_is_of_one_split(tmp_path: Path) -> None:
    lines = [b"a\n", b"\n", b"bcd\n", b"e\r\n", b"  \n", b"fghijk"]
    (tmp_path / "t").write_bytes(b"".join(lines))
    size, whole = 20, [(0, b"a\n"), (3, b"bcd\n"), (7, b"e\r\n"), (13, b"fghijk")]
    for low in range(size):
        for high in range(low, size):
            cut = [sources.Split(0, str(tmp_path / "t"), False, *ends) for ends in ((0, low), (low, high), (high, size))]
            assert [line for split in cut if split.low < split.high for line in sources.lines(split)] == whole


@pytest.mark.parametrize("most", [0, 1, 255, 256, 65_535, 65_536, (1 << 32) - 1, 1 << 32, (1 << 63) - 1])
def test_numbers_are_what_they_were(most: int) -> None:
    for row in ([0, most, most // 2], [-1, most], [-(1 << 63), most]):
        kind, packed = narrow(np.array(row, np.int64))
        assert np.frombuffer(packed, kind).tolist() == row


def test_rows_are_told_apart_by_every_column() -> None:
    """More values than one number has room for."""
    draw, large = Random(2), range(1 << 21)
    rows = [[draw.randrange(1 << 21) for _ in range(6)] for _ in range(500)]
    rows += [[*row[:i], row[i] ^ 1, *row[i + 1:]] for row in rows for i in range(6)] + rows
    mixed, first = sources.distinct([sources.Column(np.array(column), large) for column in zip(*rows)], len(rows))
    numbers: dict[tuple, int] = {}
    assert mixed.tolist() == [numbers.setdefault(tuple(row), len(numbers)) for row in rows]
    assert [tuple(rows[i]) for i in first] == list(numbers)


def test_events_come_in_the_order_of_any_index() -> None:
    draw = Random(3)
    for least, most in ((0, 50), (-(1 << 62), 1 << 62)):
        events = list({(draw.randrange(5), draw.randint(least, most)) for _ in range(100)})
        order = in_order(*map(np.array, zip(*events)))
        assert [events[i] for i in order] == sorted(events)


# --- the engines agree

@pytest.mark.parametrize(("split", "parts", "jobs"), [(100, 1, 1), (700, 7, 1), (10**6, 50, 1), (300, 3, 2)])
def test_rows_do_not_depend_on_the_cut(folder: Path, expected: pa.Table, monkeypatch: pytest.MonkeyPatch, split: int,
                                       parts: int, jobs: int) -> None:
    monkeypatch.setattr(sources, "SPLIT_EVENTS", split)
    assert len(plan([str(folder)]).splits) >= 3
    assert checked(folder, parts=parts, jobs=jobs).equals(expected)


@pytest.mark.parametrize("split", [1_000, 50_000, 10**9])
def test_ndjson_says_the_same(runs: list, expected: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                              split: int) -> None:
    monkeypatch.setattr(sources, "SPLIT_BYTES", split)
    assert checked(mixed(tmp_path / "lines", runs, parquet=False), parts=5).equals(expected)


def test_without_an_index_the_order_is_that_of_the_file(runs: list, expected: pa.Table, tmp_path: Path,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    """And of files by their names; runs may be mixed."""
    monkeypatch.setattr(sources, "SPLIT_BYTES", 5_000)
    rows = pq.read_table(write(tmp_path / "whole.parquet", runs)).sort_by([("index", "ascending")]).to_pylist()
    (tmp_path / "whole.parquet").unlink()
    for row in rows:
        del row["index"]
    write_lines(tmp_path / "a.ndjson", rows[:2_000])
    write_lines(tmp_path / "b.ndjson", rows[2_000:])
    assert checked(tmp_path / "a.ndjson", tmp_path / "b.ndjson").equals(expected)
    assert not checked(tmp_path / "b.ndjson", tmp_path / "a.ndjson").equals(expected)


@pytest.mark.parametrize("change", ["plain", "large", "small", "optional"])
def test_other_types_of_the_same_columns(runs: list, expected: pa.Table, tmp_path: Path, change: str) -> None:
    table = pq.read_table(write(tmp_path / "whole.parquet", runs))
    fields = {"large": {pa.string(): pa.large_string(), pa.binary(): pa.large_binary(), pa.list_(pa.string()):
                        pa.large_list(pa.large_string())}, "small": {pa.int64(): pa.int32(), pa.binary(): pa.string()}}
    table = table.cast(pa.schema([(field.name, fields.get(change, {}).get(field.type, field.type)) for field in table.schema]))
    if change == "optional":  # null is what is usual
        usual = {"truncated": False, "awaited": True, "pending": False}
        for name, value in usual.items():
            nulled = pc.if_else(pc.equal(table[name], value), pa.scalar(None, pa.bool_()), table[name])
            table = table.set_column(table.schema.get_field_index(name), name, nulled)
    pq.write_table(table, tmp_path / "whole.parquet", use_dictionary=change != "plain", store_schema=change != "plain")
    assert checked(tmp_path / "whole.parquet").equals(expected)


def test_what_is_remembered_of_a_line_is_not_of_its_numbers(tmp_path: Path) -> None:
    """Whatever is written in the place of a number, and wherever what looks like one stands."""
    large = (1 << 63) - 1
    lines = [f'{{"v":1,"run":"a","body":"{body}","kind":"told",{numbers}}}'
             for body in ("", r'\"t_ms\":5,', r'\\') for numbers in (
                 '"t_ms":5,"request":1,"index":0', '"t_ms":6,"request":2,"index":1', f'"t_ms":{large}', f'"t_ms":{large}',
                 '"request":3', '"index":7', '"index" : -7 ,"t_ms":0', '"t\\u005fms":3', '"t\\u005fms":4', '"t_ms":1,"t_ms":2',
                 '"t_ms":3,"t_ms":4', '"t_ms":007', '"t_ms":1e3', '"t_ms":1.0', '"t_ms":true', '"t_ms":-0')] * 2
    (tmp_path / "t.ndjson").write_text("\n".join(lines))
    read, expected, bad = next(sources.reads(plan([str(tmp_path / "t.ndjson")]).splits[0])), [], 0
    for offset, line in sources.lines(plan([str(tmp_path / "t.ndjson")]).splits[0]):
        try:
            _, index, event = sources.line_of(line, "", offset)
            expected.append((index, event.t_ms, event.request, event[2:]))
        except ValueError:
            bad += 1
    found = [(*row[1:4], read.rests[row[4]]) for row in read.numbers.T.tolist()]
    assert found == expected and len(read.damage) == bad == 36


def test_keys_with_any_letter_in_them_are_told_apart(tmp_path: Path) -> None:
    lists = [["a\0b"], ["a", "b"], ["a\0b", "c"], ["a", "b\0c"], [], [""], None, ["", ""]]
    column = sources.of_lists(pa.chunked_array([pa.array(lists, pa.list_(pa.string()))]))
    assert column.at(list(range(len(lists)))) == [tuple(one or ()) for one in lists]


def test_a_run_of_a_number_is_named_by_it(tmp_path: Path) -> None:
    table = pq.read_table(write(tmp_path / "t.parquet", [("7", simulate(Run(7)))]))
    pq.write_table(table.set_column(0, "run", table["run"].cast(pa.int32())), tmp_path / "t.parquet")
    assert checked(tmp_path / "t.parquet")["run"].to_pylist() == ["7"]


def test_a_choice_is_of_the_same_rows(folder: Path, runs: list, expected: pa.Table, tmp_path: Path) -> None:
    lines = mixed(tmp_path / "lines", runs, parquet=False)
    for name, _ in runs[::7]:
        for place in (folder, lines):
            assert checked(place, choice=Choice(run=name)).equals(expected.filter(pc.equal(expected["run"], name)))


# --- input as it is found

PACKS = {".gz": gzip.compress, ".zst": lambda content: pa.Codec("zstd").compress(content, asbytes=True)}


def packed(file: Path, ending: str, pieces: int = 1) -> Path:
    """Compress a file, as members or frames that follow each other, and delete it."""
    content, target = file.read_bytes(), file.with_name(file.name + ending)
    step = -(-len(content) // pieces)
    target.write_bytes(b"".join(PACKS[ending](content[low:low + step]) for low in range(0, len(content), step)))
    file.unlink()
    return target


@pytest.mark.parametrize("ending", PACKS)
@pytest.mark.parametrize("jobs", [1, 2])
def test_compressed_files_have_the_rows_of_plain_ones(runs: list, expected: pa.Table, logs: Path, tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch, ending: str, jobs: int) -> None:
    monkeypatch.setattr(sources, "SPLIT_BYTES", 50_000)
    for pieces, file in enumerate(sorted(mixed(tmp_path / "lines", runs, parquet=False).iterdir()), 1):
        packed(file, ending, pieces)
    assert checked(tmp_path / "lines", jobs=jobs).equals(expected)
    (tmp_path / "good.ndjson").write_bytes((logs / "good.ndjson").read_bytes())
    row = checked(packed(tmp_path / "good.ndjson", ending)).to_pylist()[0]
    assert (row["verdict"], row["protocol"], row["events"]) == ("ok", "etcd_raft", 25)


@pytest.mark.parametrize("ending", PACKS)
def test_compressed_file_is_read_as_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    monkeypatch.setattr(sources, "SPLIT_BYTES", 10_000)
    run = rows_of(("a", simulate(Run(1))))
    lines = write_lines(tmp_path / "t.ndjson", [dict(row, run=str(i)) for i in range(300) for row in run])
    size = lines.stat().st_size
    made = plan([str(packed(lines, ending, 3))])
    assert len(made.splits) == 1 and size // 400 < made.events < size // 100
    pieces = [len(read.numbers[0]) for read in sources.reads(made.splits[0])]
    assert len(pieces) >= size // 20_000 and max(pieces) < 200
    assert checked(tmp_path / f"t.ndjson{ending}")["verdict"].to_pylist() == ["ok"] * 300


@pytest.mark.parametrize("ending", PACKS)
def test_damaged_compressed_file_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    file = packed(write_lines(tmp_path / "t.ndjson", rows_of(("a", simulate(Run(1))))), ending)
    file.write_bytes(file.read_bytes()[:-9])
    code, said = called("trace", "check", file)
    assert code == exits.BAD_INPUT and f"{file}: it cannot be read (" in said and said.endswith("): get a new copy\n")
    made = plan([str(packed(write_lines(tmp_path / "u.ndjson", rows_of(("a", simulate(Run(1))))), ending))])
    file.rename(tmp_path / f"u.ndjson{ending}")  # damaged after the plan was made
    row = engines.check(engines.work_of(made, 1, Asked())).to_pylist()[0]
    assert row["kind"] == "input" and "cannot be read to its end" in row["message"]


@pytest.mark.parametrize("ending", ["", *PACKS])
def test_line_beyond_the_bound_is_refused_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    """It may be longer than a split, and only its beginning is kept."""
    good = rows_of(("a", simulate(Run(1))), ("z", simulate(Run(2))))
    file = write_lines(tmp_path / "t.ndjson", [*good[:3], dict(good[0], run="long", body=b"x" * (5 << 20)), *good[3:]])
    whole = checked(write_lines(tmp_path / "good.ndjson", good)).to_pylist()
    file = packed(file, ending) if ending else file
    monkeypatch.setattr(sources, "SPLIT_BYTES", 1 << 20)
    passed, rest_of_line = [0], sources.rest_of_line
    monkeypatch.setattr(sources, "rest_of_line", lambda *of: passed.append(rest_of_line(*of)) or passed[-1])
    work = engines.work_of(plan([str(file)], line_mib=2), 1, Asked(command=COMMAND))
    first, long, last = engines.check(work).to_pylist()
    assert [first, last] == whole and (long["run"], long["verdict"], long["kind"]) == ("long", "damaged", "input")
    assert long["message"] == f"{file}:4: the line is longer than 2 MiB; --line-mib raises this bound"
    assert sum(passed) < 6 << 20
    code, said = called("trace", "check", file, "--line-mib", 2)
    assert code == exits.BAD_INPUT and "1 could not be judged" in said and "--line-mib" in said
    assert engines.check(engines.work_of(plan([str(file)], line_mib=6), 1, Asked()))["run"].to_pylist() == ["a", "long", "z"]


def test_empty_files_are_no_damage(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.ndjson", rows_of(("a", simulate(Run(1)))))
    whole = checked(tmp_path)
    for name in ("empty.ndjson", "empty.jsonl.gz"):
        (tmp_path / name).touch()
    (tmp_path / "packed.ndjson.gz").write_bytes(gzip.compress(b""))
    (tmp_path / "blank.ndjson").write_text("\n \n")
    assert checked(tmp_path).equals(whole) and called("trace", "check", tmp_path)[0] == 0
    code, said = called("trace", "check", tmp_path / "empty.ndjson", tmp_path / "empty.jsonl.gz")
    assert code == exits.BAD_INPUT and "no events found" in said


def test_skipped_files_are_counted_and_named(tmp_path: Path) -> None:
    write_lines(tmp_path / "a.ndjson", rows_of(("a", simulate(Run(1)))))
    assert "skipped" not in called("trace", "check", tmp_path)[1]
    for name in ("sub/notes.txt", "sub/b.csv", "_SUCCESS", ".git/config", ".git/HEAD"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to(tmp_path / "sub")
    code, said = called("trace", "check", tmp_path)
    said = " ".join(said.split())
    assert code == 0 and f"skipped: 2 (name begins with . or _), such as {tmp_path}/.git; " in said
    assert f"; 1 (link to a folder), such as {tmp_path}/link; 2 (name does not end in .parquet, .ndjson" in said
    assert f"such as {tmp_path}/sub/b.csv" in said


def test_small_files_are_read_in_groups(runs: list, expected: pa.Table, tmp_path: Path) -> None:
    whole = pq.read_table(write(tmp_path / "whole.parquet", runs))
    (tmp_path / "whole.parquet").unlink()
    for i in range(60):
        rows = whole.take(pa.array(range(i, len(whole), 60)))
        if i % 2:
            write_lines(tmp_path / f"{i}.ndjson", rows.to_pylist())
        else:
            pq.write_table(rows, tmp_path / f"{i}.parquet")
    made = plan([str(tmp_path)])
    for fewest in (1, 8, 1_000):
        grouped = sources.groups(made.splits, fewest)
        assert sorted(split for group in grouped for split in group) == made.splits
        assert min(fewest, 60) <= len(grouped) <= max(fewest * 2, 1)
    assert checked(tmp_path).equals(expected) and checked(tmp_path, parts=7, jobs=2).equals(expected)


def test_groups_are_bounded_and_the_largest_come_first() -> None:
    sizes = [0.01, 0.01, 0.5, 0.01, 0.6, 1.0, 0.3, 0.3, 0.3, 0.3]
    splits = [sources.Split(i, "x", False, 0, 1, size=size) for i, size in enumerate(sizes)]
    found = [[split.number for split in group] for group in sources.groups(splits, 1)]
    assert found == [[5], [6, 7, 8], [4], [0, 1, 2, 3], [9]] and sources.groups([], 4) == []


def test_largest_part_is_judged_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, judge = [], engines.judge_part

    def judged(asked: Asked, folder: Path, places: list) -> pa.Table:
        seen.append(sum(high - low for _, low, high in places))
        return judge(asked, folder, places)

    monkeypatch.setattr(engines, "judge_part", judged)
    checked(folder, parts=9)
    assert len(seen) > 4 and seen == sorted(seen, reverse=True)


# --- damage

def rows_of(*runs: tuple[str, Outcome]) -> list[dict]:
    return [{"run": name, "protocol": of.scenario, "options": " ".join(named(of.scenario).trace_options(of.shape)),
             "index": i, **event._asdict(), "keys": list(event.keys)} for name, of in runs for i, event in enumerate(of.events)]


def change(number: int, **fields: object) -> Callable[[list[dict]], None]:
    return lambda rows: rows[number].update(fields)


DAMAGE = [
    (change(5, index=4), "two events have the index 4"),
    (change(5, options="--page-size 7"), "its events have different options: "),
    (change(5, protocol="baseline"), "its events have different protocol: 'baseline' and"),
    (lambda rows: rows[5].pop("index"), "some of its events have an index, and some have none"),
    (lambda rows: [row.update(protocol="paxos") for row in rows], "there is no scenario 'paxos'; there are: "),
    (lambda rows: [row.update(options="--page-size many") for row in rows], "options '--page-size many': "),
    (lambda rows: [row.update(options="--color red") for row in rows], "options '--color red': "),
    (lambda rows: [row.update(options="--page-size -1") for row in rows], "less than 0"),
    (lambda rows: [row.update(options="'") for row in rows], "No closing quotation"),
    (lambda rows: [row.update(client="Reader#0", protocol="wal_fencing", options="--page-size 2") for row in rows],
     "are of sequenced_metadata_boundary"),
    (change(5, t_ms="soon"), "b.ndjson:8: no event of a trace: t_ms is 'soon'"),
    (change(5, t_ms=1 << 63), "not whole numbers of 64 bits"),
    (change(5, colour="red"), "it has no field 'colour'"),
    (change(5, v=3), "b.ndjson:8: its events are of format version 3, and this release of highwater reads version 2: install"),
    (change(5, v="1"), "b.ndjson:8: no event of a trace: its version is '1'"),
    (change(5, client="Nobody"), "client 'Nobody': clients are Writer#0"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_a_damaged_run_is_a_row_and_the_others_are_as_ever(tmp_path: Path, damage: Callable, message: str) -> None:
    good, bad = [("a", simulate(Run(1))), ("z", simulate(Run(2)))], rows_of(("bad", simulate(Run(1))))
    damage(bad)
    whole = by_run(checked(write_lines(tmp_path / "a.ndjson", rows_of(*good))))
    lines = rows_of(*good)
    file = write_lines(tmp_path / "b.ndjson", [*lines[:2], *bad, *lines[2:]])
    found = by_run(checked(file, parts=3))
    row = found.pop("bad")
    assert (row["verdict"], row["kind"], row["first_bad"]) == ("damaged", "input", None) and message in row["message"]
    assert found == whole
    code, said = called("trace", "check", file)
    assert code == exits.BAD_INPUT and message in said and "2 refine the model, 0 do not, 1 could not be judged" in said


@pytest.mark.parametrize(("line", "run", "message"), [
    ('{"v":1,"run":"a","t_ms":5', "a", ":3: no event of a trace: "),
    ("not even that", "FILE", ":3: no event of a trace: "),
    ("[1]", "FILE", ":3: no event of a trace: "),
    (b"\xff\xfe", "FILE", "is not UTF-8"),
    ('{"v":1,"run":["a"]}', "FILE", "run is ['a']"),
    ('{"v":1,"run":7,"index":true}', "7", "not whole numbers of 64 bits"),
])
def test_a_bad_line_is_named(tmp_path: Path, line: str | bytes, run: str, message: str) -> None:
    """A bad line damages the run that it names. If it names none, the row bears the name of the file."""
    file = write_lines(tmp_path / "a.ndjson", rows_of(("a", simulate(Run(1))), ("b", simulate(Run(2)))))
    lines = file.read_bytes().splitlines(True)
    file.write_bytes(b"".join([*lines[:2], line if isinstance(line, bytes) else line.encode(), b"\n", *lines[2:]]))
    found = by_run(checked(file))
    row = found[run.replace("FILE", str(file))]
    assert row["verdict"] == "damaged" and message in row["message"] and str(file) in row["message"]
    assert found["b"]["verdict"] == "ok" and (run == "a" or found["a"]["verdict"] == "ok")


@pytest.mark.parametrize("name", ["index", "t_ms", "request"])
def test_nothing_in_the_place_of_a_number_is_damage(tmp_path: Path, name: str) -> None:
    table = pq.read_table(write(tmp_path / "t.parquet", [("a", simulate(Run(1))), ("b", simulate(Run(2)))]))
    values = table[name].to_pylist()
    values[3] = None
    table = table.set_column(table.schema.get_field_index(name), name, pa.array(values, pa.int64()))
    pq.write_table(table, tmp_path / "t.parquet")
    found = by_run(checked(tmp_path / "t.parquet"))
    assert (found["a"]["kind"], found["b"]["kind"]) == ("input", "") and f"no {name}" in found["a"]["message"]


def test_events_of_no_run_are_damage(tmp_path: Path) -> None:
    table = pq.read_table(write(tmp_path / "t.parquet", [("a", simulate(Run(1))), ("b", simulate(Run(2)))]))
    names = [None if name == "a" else name for name in table["run"].to_pylist()]
    pq.write_table(table.set_column(0, "run", pa.array(names, pa.string())), tmp_path / "t.parquet")
    found = by_run(checked(tmp_path / "t.parquet"))
    assert found["b"]["verdict"] == "ok" and found[str(tmp_path / "t.parquet")]["kind"] == "input" and len(found) == 2


def test_a_file_that_is_damaged_inside_takes_no_other_along(tmp_path: Path, runs: list) -> None:
    """The file's footer is intact, so the damage shows only when the rows are read."""
    good = write(tmp_path / "good.parquet", runs[:3])
    bad = write(tmp_path / "bad.parquet", runs[3:6])
    expected = by_run(checked(good))
    whole = bad.read_bytes()
    column = pq.ParquetFile(bad).metadata.row_group(0).column(9)
    at = column.dictionary_page_offset or column.data_page_offset
    bad.write_bytes(whole[:at] + b"\xff" * 40 + whole[at + 40:])
    found = by_run(checked(tmp_path))
    row = found.pop(str(bad))
    assert row["kind"] == "input" and "cannot be read to its end" in row["message"] and "\n" not in row["message"]
    assert found == expected


def test_the_checkers_own_fault_is_a_row(folder: Path, expected: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from highwater.dst.bulk import checking

    whole = checking.follow

    def faulty(trace: object, numbers: tuple, *rest: object) -> None:
        if len(numbers[0]) == len_of_one:
            raise KeyError("of the checker")
        whole(trace, numbers, *rest)

    one = expected.to_pylist()[0]
    len_of_one = one["events"]
    monkeypatch.setattr(checking, "follow", faulty)
    for row, before in zip(checked(folder).to_pylist(), expected.to_pylist()):
        if row["events"] == len_of_one:
            assert (row["verdict"], row["kind"], row["signature"]) == ("damaged", "harness", "harness:KeyError")
        else:
            assert row == before


# --- the version of the format

NEWER = "its events are of format version 3, and this release of highwater reads version 2: install a newer release, or write"


def test_without_a_version_it_is_the_first(runs: list, tmp_path: Path) -> None:
    """Events without a version are read as version 1, from lines and from Parquet; so are events that say 1."""
    of = write(tmp_path / "of.parquet", runs[:3])
    expected, table = checked(of), pq.read_table(of)
    assert sources.EVENT_VERSION not in (pq.read_metadata(of).metadata or {})
    pq.write_table(table.replace_schema_metadata({sources.EVENT_VERSION: b"1"}), of)
    assert pq.read_metadata(of).metadata[sources.EVENT_VERSION] == b"1" and checked(of).equals(expected)
    lines = write_lines(tmp_path / "of.ndjson", rows_of(*runs[:3]))
    bare = tmp_path / "bare.ndjson"
    bare.write_text("".join(json.dumps({name: value for name, value in json.loads(line).items() if name != "v"}) + "\n"
                            for line in lines.read_text().splitlines()))
    assert '"v"' in lines.read_text() and '"v"' not in bare.read_text()
    assert checked(bare).equals(checked(lines)) and checked(bare).equals(expected)


@pytest.mark.parametrize("said", [b"3", b"two", b"0"])
def test_a_parquet_file_of_another_version_is_refused(runs: list, tmp_path: Path, said: bytes) -> None:
    of = write(tmp_path / "of.parquet", runs[:1])
    pq.write_table(pq.read_table(of).replace_schema_metadata({sources.EVENT_VERSION: said}), of)
    code, text = called("trace", "check", of, "--out", tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()
    message = NEWER if said == b"3" else "its version is"
    assert code == exits.BAD_INPUT and f"{of}: {message}" in " ".join(text.split())


def test_lines_of_a_newer_version_are_refused(runs: list, tmp_path: Path) -> None:
    """Before anything is checked."""
    lines = write_lines(tmp_path / "of.ndjson", [{"v": 3, "form": "unknown"}, *rows_of(*runs[:1])])
    lines.write_text("\n" + lines.read_text())
    code, text = called("trace", "check", lines, "--out", tmp_path / "out.parquet")
    assert code == exits.BAD_INPUT and f"{lines}: {NEWER}" in " ".join(text.split())
    assert not (tmp_path / "out.parquet").exists()


# --- refusals

def columns(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    return lambda path: pq.write_table(change(pq.read_table(path)), path)


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda path: path.unlink(), "there is no such file or folder"),
    (lambda path: path.write_bytes(path.read_bytes()[:-100]), "not a complete Parquet file"),
    (lambda path: path.write_bytes(path.read_bytes()[:50]), "not a complete Parquet file"),
    (lambda path: path.write_bytes(b""), "not a complete Parquet file"),
    (columns(lambda table: table.drop_columns(["client", "index"])),
     "there is no column index, client; `highwater docs bulk-traces` lists the columns"),
    (columns(lambda table: table.drop_columns(["run"])), "there is no column run or namespace"),
    (columns(lambda table: table.rename_columns([*table.column_names[:-1], "pendign"])), "column 'pendign' is not a trace"),
    (columns(lambda table: table.set_column(4, "t_ms", table["t_ms"].cast(pa.string()))),
     "column 't_ms' is string, and should be a whole number"),
    (columns(lambda table: table.append_column("run", table["run"])), "two columns are named 'run'"),
    (columns(lambda table: table.slice(0, 0)), "no events found"),
])
def test_a_file_that_is_no_traces_is_refused_in_a_line(tmp_path: Path, spoil: Callable, message: str) -> None:
    file = write(tmp_path / "t.parquet", [("a", simulate(Run(1)))])
    spoil(file)
    code, said = called("trace", "check", file, "--out", tmp_path / "out.parquet")
    assert code == exits.BAD_INPUT and message in said and str(file) in said and said.count("\n") == 1
    assert not list(tmp_path.glob("*out.parquet*"))


@pytest.mark.parametrize(("words", "message"), [
    (["FOLDER"], "there is no .parquet, .ndjson, .jsonl, .ndjson.gz, .ndjson.zst, .jsonl.gz, .jsonl.zst file in it"),
    (["FOLDER/*.parquet", "FOLDER"], "no file matches"),
    (["FILE", "--out", "FOLDER"], "is a folder: give a file to --out"),
    (["FILE", "--out", "FILE/x"], "cannot be written"),
    (["FILE", "--run", "nobody"], "no events found for --run or --of"),
    (["FILE", "--set", "BOUNDARY=False"], "give a single log"),
])
def test_bad_input(tmp_path: Path, words: list[str], message: str) -> None:
    (tmp_path / "empty").mkdir()
    file = write(tmp_path / "t.parquet", [("a", simulate(Run(1)))])
    code, said = called("trace", "check", *[word.replace("FOLDER", str(tmp_path / "empty")).replace("FILE", str(file))
                                            for word in words])
    assert code == exits.BAD_INPUT and message in said and said.count("\n") == 1


def test_an_input_that_changes_meanwhile_is_not_half_read(tmp_path: Path) -> None:
    file = write(tmp_path / "t.parquet", [("a", simulate(Run(1)))])
    work = engines.work_of(plan([str(file)]), 1, Asked())
    file.unlink()
    assert [row["kind"] for row in engines.check(work).to_pylist()] == ["input"]
    with pytest.raises(BadInput, match="there is no such file"):
        plan([str(file)])


# --- the command

def test_the_simulator_writes_what_the_command_takes(tmp_path: Path) -> None:
    for name in ("t.parquet", "t.ndjson"):
        code, said = called("dst", "run", "--seeds", "0:6", "--mutant", "no_check", "--traces", tmp_path / name)
        assert code == exits.SAFETY and f"highwater trace check {tmp_path / name}" in said
        code, said = called("trace", "check", tmp_path / name, "--out", tmp_path / f"{name}.out")
        assert code == exits.SAFETY and "6 runs" in said and "6 failed told:committed" in said
    rows = [pq.read_table(tmp_path / f"{name}.out").drop_columns(["explanation"]) for name in ("t.parquet", "t.ndjson")]
    assert rows[0].equals(rows[1]) and set(rows[0]["exit_code"].to_pylist()) == {exits.SAFETY}
    assert pq.read_schema(tmp_path / "t.parquet").equals(SCHEMA)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["t.ndjson", "t.ndjson.out", "t.parquet", "t.parquet.out"]


def test_one_run_of_many_is_explained(tmp_path: Path) -> None:
    file = write(tmp_path / "t.parquet", [("a", simulate(Run(1))), ("the bad one", simulate(Run(0), build_of("no_check")))])
    code, said = called("trace", "check", file)
    assert code == exits.SAFETY and "the shortest: run the bad one" in said
    code, said = called("trace", "check", file, "--run", "the bad one")
    assert code == exits.SAFETY and "Failing event, number" in said and "--run 'the bad one'" in said
    code, said = called("trace", "check", file, "--run", "a")
    assert code == 0 and "1 runs" in said


def test_the_worst_of_all_runs_is_the_exit_code(tmp_path: Path) -> None:
    file = write(tmp_path / "t.parquet", [("a", simulate(Run(1)))])
    assert called("trace", "check", file)[0] == 0
    bad = write(tmp_path / "u.parquet", [("b", simulate(Run(0), build_of("no_check")))])
    assert called("trace", "check", bad, file)[0] == exits.SAFETY
    (tmp_path / "w.ndjson").write_text("nothing\n")
    assert called("trace", "check", tmp_path / "*.*")[0] == exits.BAD_INPUT


def test_bulk_without_spark_never_imports_it(tmp_path: Path) -> None:
    file = write(tmp_path / "t.parquet", [("a", simulate(Run(1)))])
    program = ("import sys; from typer.testing import CliRunner; from highwater.cli.main import app; "
               f"print(CliRunner().invoke(app, ['trace', 'check', {str(file)!r}]).output); "
               "print('pyspark' in sys.modules, 'highwater.dst.spark.bulk' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "1 refine the model" in done.stdout and done.stdout.strip().endswith("False False")


def test_no_traces_are_left_half_written(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Export(tmp_path / "t.parquet") as export:
        export.outcome(simulate(Run(1)))
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    assert called("dst", "run", "--seeds", "0:2", "--traces", tmp_path / "t.csv")[0] == exits.BAD_INPUT
    assert called("dst", "run", "--seed", "0", "--traces", tmp_path / "t.parquet")[0] == exits.BAD_INPUT
    code, said = called("dst", "run", "--seeds", "0:2", "--traces", "/proc/nowhere/t.parquet")
    assert code == exits.BAD_INPUT and "cannot be written" in said


def test_relative_paths_are_those_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker may have another working folder. The name of a run is as the command has it."""
    write(tmp_path / "t.parquet", [("a", simulate(Run(1)))])
    write_lines(tmp_path / "bad.ndjson", rows_of(("b", simulate(Run(1)))))
    (tmp_path / "bad.ndjson").write_text((tmp_path / "bad.ndjson").read_text() + "nothing\n")
    monkeypatch.chdir(tmp_path)
    inputs = plan(["t.parquet", "./bad.ndjson"])
    here = engines.check(engines.work_of(inputs, 1, Asked()))
    monkeypatch.chdir("/")
    there = engines.check(engines.work_of(inputs, 1, Asked()))
    assert there.equals(here)
    assert here["run"].to_pylist() == ["./bad.ndjson", "a", "b"] and here["kind"].to_pylist() == ["input", "", ""]


# --- Spark

@pytest.fixture(scope="module")
def spark() -> Iterator[object]:
    """The one session of this file."""
    if sessions.load_java().find_java() is None:
        warnings.warn("SPARK IS NOT TESTED: there is no Java here", stacklevel=1)
        pytest.skip("there is no Java here")
    session = sessions.start_spark(sessions.SessionOptions(2))
    yield session
    session.stop()


@pytest.mark.parametrize(("split", "parts"), [(300, 1), (700, 7), (10**6, 20)])
def test_spark_says_the_same_for_any_cut(spark: object, folder: Path, expected: pa.Table, monkeypatch: pytest.MonkeyPatch,
                                         split: int, parts: int) -> None:
    monkeypatch.setattr(sources, "SPLIT_EVENTS", split)
    work = engines.work_of(plan([str(folder)]), 2, Asked(command=COMMAND))
    assert on_spark.check(spark, work._replace(parts=parts)).equals(expected)


def test_spark_says_the_same_of_damage_and_lines(spark: object, tmp_path: Path) -> None:
    rows = rows_of(("a", simulate(Run(1))), ("bad", simulate(Run(2))))
    rows[-1]["index"] = rows[-2]["index"]
    write_lines(tmp_path / "a b%20 é[0].ndjson", rows)
    (tmp_path / "b.ndjson").write_text("nothing\n")
    work = engines.work_of(plan([str(tmp_path)]), 2, Asked())
    found = on_spark.check(spark, work)
    assert found.equals(engines.check(work)) and found["kind"].to_pylist() == ["input", "", "input"]


@pytest.mark.parametrize("ending", PACKS)
def test_spark_reads_compressed_files_in_groups(spark: object, runs: list, expected: pa.Table, tmp_path: Path,
                                                monkeypatch: pytest.MonkeyPatch, ending: str) -> None:
    for file in mixed(tmp_path / "lines", runs, parquet=False).iterdir():
        packed(file, ending)
    for i in range(200):
        (tmp_path / "lines" / f"empty-{i}.ndjson").write_text("\n")
    work = engines.work_of(plan([str(tmp_path)]), 2, Asked(command=COMMAND))
    assert len(work.splits) == 203 and len(sources.groups(work.splits, work.parts)) <= 16
    assert on_spark.check(spark, work).equals(expected)
    assert not len(on_spark.check(spark, work._replace(splits=[])))


def test_spark_says_the_same_of_logs(spark: object, logs: Path) -> None:
    work = engines.work_of(plan([str(logs)]), 2, Asked(command=COMMAND))
    assert on_spark.check(spark, work).equals(checked(logs))


def test_what_fails_in_a_task_is_told_in_a_line(spark: object, folder: Path) -> None:
    work = engines.work_of(plan([str(folder)]), 2, Asked())
    with pytest.raises(BulkError) as error:
        on_spark.check(spark, work._replace(splits=[work.splits[0]._replace(low="none")]))
    assert str(error.value).startswith("Spark: TypeError: ") and "\n" not in str(error.value)


def test_without_java_it_is_said_and_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = sessions.load_java()
    monkeypatch.setattr(java, "find_java", lambda: None)
    monkeypatch.setattr(sessions, "load_java", lambda: java)
    file = write(tmp_path / "t.parquet", [("a", simulate(Run(1)))])
    code, said = called("trace", "check", file, "--spark", "--out", tmp_path / "o.parquet")
    assert code == exits.INCOMPLETE and java.MISSING in said and list(tmp_path.iterdir()) == [file]
