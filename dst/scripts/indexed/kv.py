"""Scripts of the sorted map in memory: a tree of several levels, whose views never change."""

from typing import Any

from highwater.dst.script import Alone, Script, check, same
from highwater.dst.scripts.indexed.one import says
from highwater.impl.index import kv
from highwater.impl.index.kv import InvalidKey, MemoryKV, Node, View, Writing

MANY = 6_000  # rows: the tree has three levels
STEP = 1_237  # has no factor in common with MANY, so that its multiples are all numbers, out of order


def key(number: int) -> bytes:
    return b"k%05d" % number


def depth(node: Node) -> int:
    return 1 if node.is_leaf else 1 + depth(node.items[0])


def is_sound(node: Node) -> bool:
    """Tell whether a node has no more children or rows than it may, and keys that ascend."""
    own = 0 < len(node.keys) <= 64 and len(node.keys) == len(node.items) and node.keys == sorted(set(node.keys))
    return own and (node.is_leaf or all(is_sound(child) for child in node.items))


def filled(numbers: Any) -> Writing:
    writing = Writing(View(), 1)
    for number in numbers:
        writing.put(key(number), b"%d" % number)
    return writing


def rows(*numbers: int) -> list[tuple[bytes, bytes]]:
    return [(key(number), b"%d" % number) for number in numbers]


async def a_large_map_is_sorted(alone: Alone) -> None:
    for order in ([at * STEP % MANY for at in range(MANY)], range(MANY), range(MANY - 1, -1, -1)):
        writing = filled(order)
        same((depth(writing.root), is_sound(writing.root)), (3, True))
        same([*writing.range(b"", None)], rows(*range(MANY)))
        for number in (0, 1, 63, 64, 2_999, MANY - 1):
            same(writing.get(key(number)), b"%d" % number)
        same((writing.get(b"a"), writing.get(key(7) + b"\0"), writing.get(b"z")), (None, None, None))
        same([*writing.range(key(2_990), key(3_000))], rows(*range(2_990, 3_000)))
        same([*writing.range(key(5_998), None)], rows(5_998, 5_999))
        same([*writing.range(b"", key(2))], rows(0, 1))
        same([*writing.range(key(5), key(5))], [])


async def a_view_does_not_change(alone: Alone) -> None:
    before = filled(range(MANY))
    view = View(before.root)
    after = Writing(view, 2)
    after.put(key(3_000), b"new")
    after.put(b"a", b"first")
    after.delete(key(10))
    after.delete(key(10))
    after.delete_range(key(100), key(5_900))
    same([*view.range(b"", None)], rows(*range(MANY)))
    same([*after.range(b"", None)], [(b"a", b"first"), *rows(*(n for n in range(MANY) if n != 10 and not 100 <= n < 5_900))])
    check(is_sound(after.root), "the tree is sound after a range was removed")
    same((before.root.version, after.root.version), (1, 2))
    root = after.root
    after.put(key(0), b"again")
    check(after.root is root, "a node is copied once")
    after.delete_range(b"x", None)
    check(after.root is root, "nothing is copied where nothing is removed")


async def ranges_are_removed(alone: Alone) -> None:
    for start, end, left in ((b"", None, ()), (key(0), key(MANY - 1), (MANY - 1,)), (key(1), None, (0,)),
                             (b"a", key(5_999), (5_999,)), (key(1), key(5_999), (0, 5_999))):
        writing = filled(range(MANY))
        writing.delete_range(start, end)
        same([*writing.range(b"", None)], rows(*left))
        same((writing.root.is_leaf, is_sound(writing.root)), (len(left) < 2, bool(left)))
        writing.put(key(7), b"7")
        same(writing.get(key(7)), b"7")
    emptied = filled(range(3))
    for number in range(3):
        emptied.delete(key(number))
    same(([*emptied.range(b"", None)], emptied.root.is_leaf), ([], True))


async def keys_have_a_length(alone: Alone) -> None:
    writing = Writing(View(), 1)
    for wrong in (b"", bytes(512)):
        says(InvalidKey, f"a key of {len(wrong)} bytes; keys have 1 to 511", lambda wrong=wrong: writing.put(wrong, b""))
    same([*writing.range(b"", None)], [])
    for right in (b"x", bytes(511)):
        writing.put(right, b"")
    same([len(row) for row, _ in writing.range(b"", None)], [511, 1])


async def prefixes_end(alone: Alone) -> None:
    same([kv.after_prefix(prefix) for prefix in (b"a", b"a\xff", b"\xff\xff", b"", b"a\xff\xfe")],
         [b"b", b"b", None, None, b"a\xff\xff"])
    writing = Writing(View(), 1)
    for one in (b"a", b"a\0", b"a\xff", b"a\xff\xff", b"b", b"\xff", b"\xff\xff"):
        writing.put(one, b"")
    same([one for one, _ in kv.under(writing, b"a")], [b"a", b"a\0", b"a\xff", b"a\xff\xff"])
    same([one for one, _ in kv.under(writing, b"\xff")], [b"\xff", b"\xff\xff"])


async def transactions_happen_as_a_whole(alone: Alone) -> None:
    store = MemoryKV()
    with store.transaction() as first:
        first.put(b"a", b"1")
        same(first.get(b"a"), b"1")
    with store.snapshot() as old:
        try:
            with store.transaction() as broken:
                broken.put(b"a", b"2")
                broken.put(b"b", b"2")
                raise KeyError
        except KeyError:
            pass
        with store.snapshot() as now:
            same([*now.range(b"", None)], [(b"a", b"1")])
        with store.transaction() as third:
            third.put(b"a", b"3")
        same([*old.range(b"", None)], [(b"a", b"1")])
    store.restore([(b"c", b"5"), (b"d", b"6")])
    with store.transaction() as last:
        last.put(b"c", b"7")
    with store.snapshot() as now:
        same([*now.range(b"", None)], [(b"c", b"7"), (b"d", b"6")])
        with store.transaction() as later:
            later.delete(b"c")
        same([*now.range(b"", None)], [(b"c", b"7"), (b"d", b"6")])


SCRIPTS: tuple[Script, ...] = (a_large_map_is_sorted, a_view_does_not_change, ranges_are_removed, keys_have_a_length,
                               prefixes_end, transactions_happen_as_a_whole)
