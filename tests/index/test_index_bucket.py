"""An index is made anew of its bucket, and held against it."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from highwater.cli.main import app
from highwater.dst.bulk import footers
from highwater.impl.codecs.index import entries, ulids
from highwater.impl.codecs.index.footer import footer
from highwater.impl.codecs.index.messages import AddBlock, encode
from highwater.impl.codecs.index.names import block_path, compacted_id
from highwater.impl.errors import Unavailable
from highwater.impl.index import units
from highwater.impl.index.bucket.covered import Known, covered
from highwater.impl.index.bucket.objects import BLOCK, LETTER, OTHER, REJECTED, SEGMENT, Place, place_of
from highwater.impl.index.bucket.rebuild import rows_of
from highwater.impl.index.config import Config
from highwater.impl.index.kv import MemoryKV
from highwater.impl.index.machine import Entry, Machine
from highwater.impl.index.replicated import load
from highwater.impl.stores.local import LocalStore
from highwater.index import rebuild as rebuilding
from highwater.index.rebuild import in_processes, work_of
from tests.index.processes import highwater
from tests.support.metadata_index import START_S, block, stream_of

ROOT = Path(__file__).resolve().parents[2]


def called(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["index", *map(str, words)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def put(bucket: Path, made: object, data: bytes = b"data") -> Path:
    """Put a block's object where it belongs."""
    path = bucket / block_path(made.shard, made.string_table[made.tenant], made.id, made.compaction_level)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data + footer(made))
    return path


def blocks(count: int = 40) -> list:
    return [block(number, at_s=number * 1_000, tenant=("acme", "zeta")[number % 2], shard=1 + number % 3, level=1)
            for number in range(count)]


@pytest.fixture
def bucket(tmp_path: Path) -> Path:
    for made in blocks():
        put(tmp_path / "bucket", made)
    return tmp_path / "bucket"


# --- what is made

@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.sampled_from(["", "acme", "zeta"]), st.integers(1, 2), st.integers(0, 3)),
                unique_by=lambda one: (one[0], one[1], one[2]), max_size=30), st.randoms())
def test_the_rows_are_those_of_the_same_blocks_added_in_order(some, random):
    made = [block(number, at_s=number * 3_000, tenant=tenant, shard=shard, level=level, data=(f"d{number % 4}", "e"))
            for number, tenant, shard, level in some]
    machine = Machine(MemoryKV(), Config())
    for index, one in enumerate(sorted(made, key=lambda one: (one.id, one.string_table[one.tenant], one.shard)), 1):
        command = AddBlock(metadata=one, past_horizon=True)
        answer = machine.apply(Entry(index, 1, ulids.time_ns(one.id), entries.entry(command)))
        assert answer is not None and not answer.text, answer
    shuffled = [encode(one) for one in made]
    random.shuffle(shuffled)
    rows, count = rows_of(shuffled, Config())
    assert (rows, count) == (machine.snapshot(())[1], len(made))


def test_a_rebuilt_index_is_restored_and_both_engines_make_the_same(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(rebuilding, "PART", 7)
    code, text = called("rebuild", bucket, "--out", tmp_path / "one", "--jobs", 2)
    assert code == 0 and "40 blocks of 40 objects; 0 damaged, 0 covered twice" in text
    assert called("rebuild", bucket, "--out", tmp_path / "two", "--jobs", 1)[0] == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() and not work_of(tmp_path / "one").exists()
    restored = highwater("index", "restore", tmp_path / "one", tmp_path / "node", "--cluster", "new")
    assert restored.returncode == 0 and "begins behind entry 40" in restored.stdout
    checked = highwater("index", "check", tmp_path / "node")
    assert checked.returncode == 0 and "40 blocks" in checked.stdout and "nothing is wrong" in checked.stdout
    code, text = called("rebuild", bucket, "--out", tmp_path / "one")
    assert code == 2 and "is there: give another name" in text


def test_a_rebuild_that_is_killed_twice_goes_on(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(rebuilding, "PART", 5)
    assert called("rebuild", bucket, "--out", tmp_path / "whole", "--jobs", 1)[0] == 0
    program = (f"from pathlib import Path; import os; from highwater.index import rebuild as r; from highwater.dst.bulk import "
               f"footers as f; from highwater.impl.index.config import Config\nr.PART = 5\ndef engine(url, endpoint, parts):\n"
               f"    for number, objects in parts[:3]:\n        yield number, f.read(url, endpoint, objects)\n"
               f"    os.kill(os.getpid(), 9)\n"
               f"r.rebuild({str(bucket)!r}, '', Path({str(tmp_path / 'out')!r}), engine, Config(), lambda *_: None)")
    for kill in (1, 2):
        died = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False)
        assert died.returncode == -signal.SIGKILL and not (tmp_path / "out").exists()
        assert len(list(work_of(tmp_path / "out").glob("part-*"))) == 3 * kill
    put(bucket, block(99, at_s=99_000, tenant="acme", level=1))  # it came after the listing
    read: list[int] = []

    def engine(url, endpoint, parts):
        read.extend(number for number, _ in parts)
        yield from in_processes(1)(url, endpoint, parts)

    rebuilding.rebuild(str(bucket), "", tmp_path / "out", engine, Config(), lambda *_: None)
    assert read == [6, 7] and stream_of(tmp_path / "out") == stream_of(tmp_path / "whole")


# --- damage

def test_each_damaged_object_is_a_row_with_a_reason(bucket, tmp_path):
    cut, crc, empty, moved, small, gone = [put(bucket, block(50 + number, at_s=number, tenant="acme", shard=9, level=1))
                                           for number in range(6)]
    cut.write_bytes(cut.read_bytes()[:-3])
    body = bytearray(crc.read_bytes())
    body[-12] ^= 1
    crc.write_bytes(body)
    empty.write_bytes(b"")
    elsewhere = bucket / "blocks" / "8" / "acme" / moved.parent.name / "block.bin"
    elsewhere.parent.mkdir(parents=True)
    moved.rename(elsewhere)
    small.write_bytes(small.read_bytes()[-20:])
    invalid = block(70, tenant="acme", shard=9, level=1)
    invalid.min_time = 3000
    put(bucket, invalid)
    listing = rebuilding.listing_of(str(bucket), "")
    gone.unlink()
    objects, _, _ = rebuilding.objects_in(listing)
    reasons = {Path(key).parent.name: wrong for key, _, wrong, _ in footers.read(str(bucket), "", objects) if wrong}
    for path, says in ((cut, "damaged"), (crc, "CRC-32C does not hold"), (empty, "0 bytes are too few"), (small, "damaged"),
                       (elsewhere, "its metadata is of blocks/9/acme/"), (gone, "it is gone since it was listed")):
        assert says in reasons.pop(path.parent.name)
    assert "is not valid: min_time 3000" in reasons.pop(invalid.id) and not reasons
    code, text = called("rebuild", bucket, "--out", tmp_path / "out", "--jobs", 1)
    assert code == 3 and "40 blocks of 46 objects; 6 damaged" in text
    rows = [json.loads(line) for line in (tmp_path / "out.damaged.ndjson").read_text().splitlines()]
    assert len(rows) == 6 and all(row["reason"] for row in rows)


def test_an_object_that_cannot_be_read_is_not_called_damaged(bucket, tmp_path, monkeypatch):
    """The store does not answer: nothing is made, what is read is kept, and the same command goes on."""
    async def silent(*_: object) -> None:
        raise Unavailable("no answer")

    def engine(url, endpoint, parts):
        yield from ((number, footers.read(url, endpoint, objects)) for number, objects in parts)

    monkeypatch.setattr("highwater.index.rebuild.in_processes", lambda jobs: engine)
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "get_range", silent)
        code, text = called("rebuild", bucket, "--out", tmp_path / "out")
        assert code == 3 and "no answer; what is read is kept in" in " ".join(text.split()) and not (tmp_path / "out").exists()
    assert called("rebuild", bucket, "--out", tmp_path / "out")[0] == 0


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400), st.integers(0, 400))
def test_no_bytes_make_a_reader_fail(tmp_path_factory, noise, keep):
    bucket = tmp_path_factory.getbasetemp() / "noise"
    path = put(bucket, block(1, tenant="acme", level=1))
    path.write_bytes(noise + path.read_bytes()[-keep:] if keep else noise)
    key = str(path.relative_to(bucket))
    ((_, _, wrong, metadata),) = footers.read(str(bucket), "", [(key, path.stat().st_size)])
    assert bool(wrong) != bool(metadata)


@pytest.mark.parametrize(("key", "place"), [
    ("segments/1/anonymous/01JY5YRAR00000000000000000/block.bin", Place(SEGMENT, 1, "", "01JY5YRAR00000000000000000")),
    ("blocks/12/acme/01JY5YRAR00000000000000000/block.bin", Place(BLOCK, 12, "acme", "01JY5YRAR00000000000000000")),
    ("blocks/012/acme/01JY5YRAR00000000000000000/block.bin", Place(OTHER)),
    ("blocks/1/acme/01jy5yrar00000000000000000/block.bin", Place(OTHER)),
    ("blocks/1/acme/81JY5YRAR00000000000000000/block.bin", Place(OTHER)),
    ("blocks/1/acme/01JY5YRAR00000000000000000/block.bin.tmp", Place(OTHER)),
    ("dlq/1/acme/01JY5YRAR00000000000000000/meta.pb", Place(LETTER)),
    ("dlq-rejected/1/acme/01JY5YRAR00000000000000000/meta.pb", Place(REJECTED)),
    ("manifest/00000000000000000001.manifest", Place(OTHER)),
])
def test_a_key_says_what_its_object_is(key, place):
    assert place_of(key) == place


# --- covered twice

def sources(count: int, tenant: str = "") -> list[Known]:
    return [Known(ulids.made((START_S + number) * 1000, number.to_bytes(10)), 1, tenant, 0) for number in range(count)]


@pytest.mark.parametrize("count", [1, 3, 20])
def test_a_source_beside_its_compaction_is_covered(count):
    some = sources(25)
    by = Known(compacted_id([one.ulid for one in some[:count]], 1, "acme"), 1, "acme", 1)
    found = list(covered([*some, by]))
    assert [(one.source, one.by, one.proved) for one in found] == [(one, by, True) for one in some[:count]]
    assert not list(covered(some)) and not list(covered([by]))


def test_without_all_sources_the_times_alone_are_a_suspicion():
    some = sources(5)
    by = Known(compacted_id([one.ulid for one in some[:3]], 1, "acme"), 1, "acme", 1)
    assert [(one.source, one.proved) for one in covered([some[0], some[2], by])] == [(some[0], False)]
    assert not list(covered([some[1], some[2], by]))  # the source that gives the time is deleted
    other = by._replace(shard=2)
    assert not list(covered([*some, other]))


def test_what_is_proved_to_be_there_twice_is_left_out(tmp_path):
    """Three segments of two tenants, compacted for both: the segments go. Compacted for one so far: that result goes."""
    bucket = tmp_path / "bucket"
    segments = []
    for number in range(3):
        made = block(number, at_s=number * 10, data=("a", "z"))
        made.string_table.extend(["acme", "zeta"])
        for dataset, tenant in zip(made.datasets, ("acme", "zeta")):
            dataset.tenant = list(made.string_table).index(tenant)
        segments.append(made)
        put(bucket, made)
    names = [one.id for one in segments]
    results = [block(0, tenant=tenant, level=1, ulid=compacted_id(names, 1, tenant)) for tenant in ("acme", "zeta")]
    put(bucket, results[0])
    assert called("rebuild", bucket, "--out", tmp_path / "one", "--jobs", 1) == (3, f"""\
{tmp_path / "one"}: 3 blocks of 4 objects; 0 damaged, 3 covered twice and 1 left out for it, 0 dead letters, 0 other objects
all of them: {tmp_path / "one.damaged.ndjson"}
""")
    put(bucket, results[1])
    assert "2 blocks of 5 objects; 0 damaged, 3 covered twice and 3 left out" in called(
        "rebuild", bucket, "--out", tmp_path / "two", "--jobs", 1)[1]
    rows = [json.loads(line) for line in (tmp_path / "two.damaged.ndjson").read_text().splitlines()]
    assert len(rows) == 6 and all(row["proved"] and row["left_out"] == ["covered"] for row in rows)
    kept = {ulid for _, ulid in units.visible(load((tmp_path / "two").read_bytes()))}
    assert kept == {one.id for one in results}
    assert "3 orphaned" in called("check", bucket, "--snapshot", tmp_path / "two")[1]


def test_a_part_that_cannot_be_read_is_read_anew(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(rebuilding, "PART", 10)
    assert called("rebuild", bucket, "--out", tmp_path / "whole", "--jobs", 1)[0] == 0

    def engine(url, endpoint, parts):
        yield from list(in_processes(1)(url, endpoint, parts))[:2]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuilding.rebuild(str(bucket), "", tmp_path / "out", engine, Config(), lambda *_: None)
    part = sorted(work_of(tmp_path / "out").glob("part-*"))[0]
    part.write_bytes(part.read_bytes()[:40])
    assert called("rebuild", bucket, "--out", tmp_path / "out", "--jobs", 1)[0] == 0
    assert stream_of(tmp_path / "out") == stream_of(tmp_path / "whole")


# --- check and report

def test_a_snapshot_is_held_against_its_bucket(bucket, tmp_path):
    assert called("rebuild", bucket, "--out", tmp_path / "snapshot", "--jobs", 1)[0] == 0
    assert called("check", bucket, "--snapshot", tmp_path / "snapshot") == (
        0, "40 blocks, 40 objects: nothing is wrong\n")
    there = sorted(bucket.rglob("block.bin"))
    there[0].unlink()
    there[1].write_bytes(b"more" + there[1].read_bytes())
    added = put(bucket, block(80, at_s=80_000, tenant="acme", level=1))
    letter = bucket / "dlq" / "1" / "acme" / added.parent.name / "meta.pb"
    letter.parent.mkdir(parents=True)
    letter.write_bytes(b"")
    for engine in ("local", "spark"):
        code, text = called("check", bucket, "--snapshot", tmp_path / "snapshot", "--engine", engine, "--out",
                            tmp_path / f"{engine}.parquet")
        assert code == 10 and "1 dangling, 1 dead letter, 1 orphaned, 1 other size" in " ".join(text.split())
    one, two = (pq.read_table(tmp_path / f"{engine}.parquet") for engine in ("local", "spark"))
    assert one.equals(two) and one["what"].to_pylist() == ["dangling", "dead letter", "orphaned", "other size"]
    assert one["ulid"].to_pylist() == [there[0].parent.name, "", added.parent.name, there[1].parent.name]
    listing = tmp_path / "listing.parquet"
    pq.write_table(rebuilding.listing_of(str(bucket), ""), listing)
    assert "1 dangling" in called("check", bucket, "--snapshot", tmp_path / "snapshot", "--listing", listing)[1]


def test_a_report_sums_up(bucket, tmp_path):
    assert called("rebuild", bucket, "--out", tmp_path / "snapshot", "--jobs", 1)[0] == 0
    rows = {}
    for engine in ("local", "spark"):
        code, text = called("report", tmp_path / "snapshot", "--json", "--engine", engine, "--out", tmp_path / engine)
        assert code == 0
        rows[engine] = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        assert pq.read_table(tmp_path / engine).to_pylist() == rows[engine]
    assert rows["local"] == rows["spark"] and len(rows["local"]) == 6
    assert sum(row["blocks"] for row in rows["local"]) == 40 == sum(row["blocks_over"] for row in rows["local"])
    sizes = sum(path.stat().st_size for path in bucket.rglob("block.bin"))
    assert sum(row["bytes"] for row in rows["local"]) == sizes and {row["read_amplification"] for row in rows["local"]}
    kept = called("report", tmp_path / "snapshot", "--json", "--retain-s", 0)[1].splitlines()
    assert all(json.loads(line)["blocks_over"] == 0 for line in kept)


# --- bad input

def test_bad_input_is_one_line(bucket, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "manifest").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "no").write_text("x")
    pq.write_table(pa.table({"key": ["a"]}), tmp_path / "some.parquet")
    assert called("rebuild", bucket, "--out", tmp_path / "snapshot", "--jobs", 1)[0] == 0
    for words, says in (
            (("rebuild", other, "--out", tmp_path / "a"), "give the URL with the prefix below which the blocks are"),
            (("rebuild", tmp_path / "empty", "--out", tmp_path / "a"), "no object has the key of a block"),
            (("rebuild", tmp_path / "none", "--out", tmp_path / "b"), "there is no folder"),
            (("rebuild", "ftp://x", "--out", tmp_path / "c"), "is no bucket: write s3://BUCKET/PREFIX"),
            (("rebuild", bucket, "--out", tmp_path / "d", "--master", "local[2]"), "--master is for Spark"),
            (("report", tmp_path / "none"), "No such file"),
            (("report", tmp_path / "no"), "is no whole snapshot of an index"),
            (("check", bucket, "--snapshot", tmp_path / "no"), "is no whole snapshot of an index"),
            (("check", bucket, "--snapshot", tmp_path / "snapshot", "--listing", tmp_path / "some.parquet"), "is no listing"),
            (("check", bucket, "--listing", tmp_path / "some.parquet"), "add --snapshot FILE")):
        code, text = called(*words)
        assert code == 2 and says in " ".join(text.split()) and "Traceback" not in text, (words, text)
    assert called("rebuild", bucket, "--out", tmp_path / "e", "--jobs", 1)[0] == 0
    work_of(tmp_path / "f").mkdir()
    (work_of(tmp_path / "f") / "work.json").write_text(json.dumps({"url": "s3://another", "version": 1}))
    code, text = called("rebuild", bucket, "--out", tmp_path / "f")
    assert code == 2 and "is of a rebuild of 's3://another'" in " ".join(text.split())
    assert work_of(tmp_path / "f").exists()
