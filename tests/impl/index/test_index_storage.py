"""The index's ordered stores: one suite for both."""

import random
from contextlib import ExitStack
from itertools import pairwise

import pytest

from highwater.impl.index import kv as kv_module
from highwater.impl.index.kv import InvalidKey, MemoryKV, after_prefix, under


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


def test_many_snapshots_are_open_at_once(kv):
    with ExitStack() as stack:
        several = []
        for number in range(300):
            with kv.transaction() as rows:
                rows.put(b"key", b"%d" % number)
            several.append(stack.enter_context(kv.snapshot()))
        assert [before.get(b"key") for before in several] == [b"%d" % number for number in range(300)]


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
