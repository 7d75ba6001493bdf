"""The index's ordered stores, one suite for both; its snapshot files, on a disk that crashes and lies."""

import asyncio
import random
from itertools import pairwise

import pytest

from highwater.impl.codecs.index import snapshot
from highwater.impl.codecs.index.snapshot import DamagedSnapshot, Position
from highwater.impl.index import kv as kv_module
from highwater.impl.index import snapshots
from highwater.impl.index.kv import InvalidKey, MemoryKV, after_prefix, under
from highwater.impl.node_world import DiskFull, FileMissing


@pytest.fixture(params=["memory", "lmdb"])
def kv(request, tmp_path):
    if request.param == "memory":
        yield MemoryKV()
        return
    from highwater.impl.stores.ordered_lmdb import LmdbKV
    store = LmdbKV(tmp_path / "rows")
    yield store
    store.close()


def all_of(kv) -> list:
    with kv.snapshot() as rows:
        return list(rows.range(b"", None))


# --- both stores

def test_rows_are_sorted_and_the_last_value_counts(kv):
    with kv.transaction() as rows:
        for key in (b"b", b"a", b"\xff", b"a\0", b"b"):
            rows.put(key, key + b"!")
        rows.put(b"b", b"")
        assert rows.get(b"b") == b"" and rows.get(b"c") is None and rows.get(b"") is None
    assert all_of(kv) == [(b"a", b"a!"), (b"a\0", b"a\0!"), (b"b", b""), (b"\xff", b"\xff!")]
    with kv.snapshot() as rows:
        assert [key for key, _ in rows.range(b"a\0", b"\xff")] == [b"a\0", b"b"]
        assert list(rows.range(b"c", b"d")) == [] == list(rows.range(b"b", b"b")) and rows.get(b"") is None


def test_a_transaction_that_fails_has_done_nothing(kv):
    with kv.transaction() as rows:
        rows.put(b"kept", b"1")
    with pytest.raises(ZeroDivisionError), kv.transaction() as rows:
        rows.put(b"kept", b"2")
        rows.put(b"new", b"2")
        rows.delete(b"kept")
        raise ZeroDivisionError
    assert all_of(kv) == [(b"kept", b"1")]


def test_a_snapshot_stays_as_it_is(kv):
    with kv.transaction() as rows:
        for number in range(1000):
            rows.put(b"%04d" % number, b"old")
    with kv.snapshot() as before:
        with kv.transaction() as rows:
            rows.put(b"0500", b"new")
            rows.delete_range(b"0100", b"0300")
            rows.put(b"05000", b"new")
        assert [value for _, value in before.range(b"", None)] == [b"old"] * 1000
        assert before.get(b"0500") == b"old" and before.get(b"05000") is None
    assert len(all_of(kv)) == 801


def test_two_snapshots_of_different_moments(kv):
    with kv.transaction() as rows:
        rows.put(b"a", b"1")
    with kv.snapshot() as first:
        with kv.transaction() as rows:
            rows.put(b"a", b"2")
        assert first.get(b"a") == b"1"
        with kv.transaction() as rows:
            rows.put(b"a", b"3")
        assert first.get(b"a") == b"1"
    assert all_of(kv) == [(b"a", b"3")]


@pytest.mark.parametrize("key", [b"", b"x" * 512])
def test_keys_have_a_length(kv, key):
    with pytest.raises(InvalidKey), kv.transaction() as rows:
        rows.put(b"a", b"")
        rows.put(key, b"")
    with kv.transaction() as rows:
        rows.put(b"x" * 511, b"")
        rows.delete(b"absent")
        rows.delete(key)
        assert rows.get(key) is None and list(rows.range(b"y" * 600, None)) == []
    assert all_of(kv) == [(b"x" * 511, b"")]


def test_restore_replaces_everything_or_nothing(kv):
    with kv.transaction() as rows:
        rows.put(b"old", b"")
    with pytest.raises(InvalidKey):
        kv.restore([(b"new", b""), (b"", b"")])
    assert all_of(kv) == [(b"old", b"")]
    kv.restore([(b"new", b"1"), (b"newer", b"2")])
    assert all_of(kv) == [(b"new", b"1"), (b"newer", b"2")]
    kv.restore([])
    assert all_of(kv) == []


def test_the_rows_under_a_prefix(kv):
    with kv.transaction() as rows:
        for key in (b"a", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xff1"):
            rows.put(key, b"")
    with kv.snapshot() as rows:
        assert [key for key, _ in under(rows, b"a\xff")] == [b"a\xff", b"a\xff\xff"]
        assert [key for key, _ in under(rows, b"\xff")] == [b"\xff", b"\xff\xff1"] and after_prefix(b"\xff\xff") is None
        assert len(list(under(rows, b""))) == 6


@pytest.mark.parametrize("seed", range(6))
def test_a_store_is_a_sorted_dict(kv, seed, monkeypatch):
    monkeypatch.setattr(kv_module, "LARGEST_NODE", 8)
    chance, truth, held = random.Random(seed), {}, []
    for _ in range(60):
        with kv.snapshot() as rows:
            held.append((list(rows.range(b"", None)), dict(truth)))
        with kv.transaction() as rows:
            for _ in range(chance.randrange(12)):
                start, end = sorted(bytes([chance.randrange(1, 99)]) for _ in range(2))
                match chance.randrange(6):
                    case 0:
                        end = end if chance.randrange(5) else None
                        rows.delete_range(start, end)
                        truth = {key: value for key, value in truth.items() if key < start or (end is not None and key >= end)}
                    case 1:
                        rows.delete(start)
                        truth.pop(start, None)
                    case _:
                        truth[start] = b"%d" % chance.randrange(99)
                        rows.put(start, truth[start])
            between = [(key, value) for key, value in sorted(truth.items()) if b"\x10" <= key < b"\x40"]
            assert list(rows.range(b"\x10", b"\x40")) == between
        assert all_of(kv) == sorted(truth.items())
    assert all(shown == sorted(then.items()) for shown, then in held)


def nodes_of(node, depth=0):
    yield node, depth
    if not node.is_leaf:
        for child in node.items:
            yield from nodes_of(child, depth + 1)


def test_nodes_of_the_map_are_small_sorted_and_not_empty(monkeypatch):
    monkeypatch.setattr(kv_module, "LARGEST_NODE", 8)
    kv, chance = MemoryKV(), random.Random(3)
    deepest = 0
    for _ in range(400):
        with kv.transaction() as rows:
            for _ in range(5):
                rows.put(b"%03d" % chance.randrange(999), b"")
            for _ in range(chance.choice([2, 7])):
                rows.delete(b"%03d" % chance.randrange(999))
        nodes = list(nodes_of(kv._view.root))
        assert all(0 < len(node.keys) == len(node.items) <= 8 for node, _ in nodes)
        assert all(a < b for node, _ in nodes for a, b in pairwise(node.keys))
        assert len({depth for node, depth in nodes if node.is_leaf}) == 1, "all leaves are as deep"
        deepest = max(deepest, nodes[-1][1])
    assert deepest >= 3
    with kv.transaction() as rows:
        rows.delete_range(b"1", None)
        rows.delete_range(b"", b"1")
    assert not all_of(kv) and kv._view.root.is_leaf


def test_a_view_shares_what_has_not_changed():
    kv = MemoryKV()
    kv.restore((b"%05d" % number, b"") for number in range(10_000))
    before = {id(node) for node, _ in nodes_of(kv._view.root)}
    with kv.transaction() as rows:
        rows.put(b"05000", b"new")
    changed = [node for node, _ in nodes_of(kv._view.root) if id(node) not in before]
    assert 0 < len(changed) <= 4 < len(before)


# --- snapshot files

class FakeDisk:
    """A folder in memory. Bytes are durable after `sync`, names after `sync_names`; `crash` keeps nothing else."""

    def __init__(self):
        self.files, self.synced, self.durable, self.calls, self.failing, self.lying = {}, {}, {}, [], None, None

    def step(self, call, name):
        self.calls.append((call, name))
        if call == self.failing:
            raise DiskFull(call)

    def crash(self):
        self.files = {name: (number, bytearray(self.synced.get(number, b""))) for name, number in self.durable.items()}

    async def names(self):
        return sorted(self.files)

    async def read(self, name):
        self.step("read", name)
        if name not in self.files:
            raise FileMissing(name)
        body = bytes(self.files[name][1])
        return body[:-1] + b"?" if name == self.lying else body

    async def create(self, name):
        self.step("create", name)
        self.files[name] = (len(self.calls), bytearray())

    async def append(self, name, body):
        if self.failing == "append":
            self.files[name][1].extend(body[:len(body) // 2])
        self.step("append", name)
        self.files[name][1].extend(body)

    async def sync(self, name):
        self.step("sync", name)
        number, body = self.files[name]
        self.synced[number] = bytes(body)

    async def rename(self, old, new):
        self.step("rename", old)
        self.files[new] = self.files.pop(old)

    async def remove(self, name):
        self.step("remove", name)
        del self.files[name]

    async def sync_names(self):
        self.step("sync_names", "")
        self.durable = {name: number for name, (number, _) in self.files.items()}


ROWS = [(b"a", b"1"), (b"b", b"2" * 99)]
FIRST, SECOND = Position(5, 1, (1,)), Position(9, 2, (1, 2, 3))


def run(awaitable):
    return asyncio.run(awaitable)


def test_a_snapshot_survives_a_crash_as_soon_as_save_returns():
    disk = FakeDisk()
    assert run(snapshots.newest(disk)) is None
    run(snapshots.save(disk, FIRST, ROWS[:1]))
    name = run(snapshots.save(disk, SECOND, ROWS))
    disk.crash()
    assert run(snapshots.newest(disk)) == (name, SECOND, ROWS)
    run(snapshots.clean(disk))
    assert run(disk.names()) == [name]


@pytest.mark.parametrize("call", ["create", "append", "sync", "rename", "sync_names", "read"])
def test_a_snapshot_that_fails_is_none(call):
    disk = FakeDisk()
    run(snapshots.save(disk, FIRST, ROWS[:1]))
    disk.failing = call
    with pytest.raises(DiskFull):
        run(snapshots.save(disk, SECOND, ROWS))
    disk.failing = None
    disk.crash()
    assert run(snapshots.newest(disk)).position == FIRST
    run(snapshots.save(disk, SECOND, ROWS))
    assert run(snapshots.newest(disk)).position == SECOND


def test_a_disk_that_returns_other_bytes_is_noticed_before_the_name_is_there():
    disk = FakeDisk()
    disk.lying = snapshots.TEMPORARY
    with pytest.raises(snapshots.SnapshotNotKept, match="do not cut the log"):
        run(snapshots.save(disk, FIRST, ROWS))
    assert run(snapshots.newest(disk)) is None
    disk.lying = snapshots.name_of(FIRST)
    with pytest.raises(snapshots.SnapshotNotKept):
        run(snapshots.save(disk, FIRST, ROWS))


def test_a_snapshot_without_its_checks_would_be_taken_for_one(monkeypatch):
    """Break it: without the sync and the reading back, a name stands for no bytes after a crash."""
    disk = FakeDisk()

    async def nothing(*_):
        return None

    monkeypatch.setattr(snapshots, "_verified", nothing)
    monkeypatch.setattr(disk, "sync", nothing)
    run(snapshots.save(disk, FIRST, ROWS))
    disk.crash()
    with pytest.raises(DamagedSnapshot, match=snapshots.name_of(FIRST)):
        run(snapshots.newest(disk))


def test_a_damaged_snapshot_is_refused_and_no_older_one_is_taken():
    disk = FakeDisk()
    run(snapshots.save(disk, FIRST, ROWS))
    name = run(snapshots.save(disk, SECOND, ROWS))
    disk.files[name][1][30] ^= 1
    with pytest.raises(DamagedSnapshot, match=name):
        run(snapshots.newest(disk))


def test_a_snapshot_under_another_name_is_refused():
    disk = FakeDisk()
    disk.files[snapshots.name_of(SECOND)] = (1, bytearray(snapshot.encode(FIRST, ROWS)))
    with pytest.raises(DamagedSnapshot, match="index 5, term 1"):
        run(snapshots.newest(disk))
