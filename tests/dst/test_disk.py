"""A crash leaves files and names in every way that may be, and none that may not be."""

from collections.abc import Callable, Iterator
from itertools import combinations, product

import pytest

from highwater.dst.world.folder import Folder
from highwater.dst.world.pages import PAGE_BYTES, Choose, File

A, B, C = (letter * PAGE_BYTES for letter in (b"a", b"b", b"c"))
ZEROS = bytes(PAGE_BYTES)


def outcomes(run: Callable[[Choose], object]) -> Iterator[object]:
    """Yield the result of `run` for every way to choose."""
    waiting: list[list[int]] = [[]]
    while waiting:
        prefix, bounds = waiting.pop(), []

        def choose(site: str, bound: int, prefix: list[int] = prefix, bounds: list[int] = bounds) -> int:
            bounds.append(bound)
            return prefix[len(bounds) - 1] if len(bounds) <= len(prefix) else 0

        yield run(choose)
        for at in range(len(prefix), len(bounds)):
            waiting += [[*prefix, *[0] * (at - len(prefix)), choice] for choice in range(1, bounds[at])]


def left_of(make: Callable[[], File]) -> set[bytes]:
    def crashed(choose: Choose) -> bytes:
        file = make()
        file.crash(choose, "site")
        assert file.content == file.durable and not file.unsynced() and not file.sizes
        return file.content

    return {bytes(content) for content in outcomes(crashed)}


def written(*bodies: bytes, synced: int = 0) -> File:
    file = File()
    for number, body in enumerate(bodies):
        file.append(body)
        if number < synced:
            file.sync(file.covered())
    return file


def test_any_subset_of_unsynced_pages_is_kept_and_the_file_may_end_after_any():
    expected = {(b"".join(pages))[:end] for pages in product((A, ZEROS), (B, ZEROS), (C, ZEROS))
                for end in range(0, 3 * PAGE_BYTES + 1, PAGE_BYTES)}
    assert left_of(lambda: written(A + B + C)) == expected
    assert left_of(lambda: written(A, B, C)) == expected


def test_what_was_synced_stays_whatever_is_lost():
    assert left_of(lambda: written(A + B, synced=1)) == {A + B}
    assert left_of(lambda: written(A, B, synced=1)) == {A, A + B, A + ZEROS}
    assert left_of(lambda: written(A + B, C, synced=1)) == {A + B, A + B + C, A + B + ZEROS}
    # The last page is shared: what was synced of it stays, and the rest is there, or zeros, or cut off.
    assert left_of(lambda: written(b"old", b"new", synced=1)) == {b"old", b"oldnew", b"old\0\0\0"}
    assert left_of(lambda: written(b"one", b"two", b"three", synced=1)) == {
        b"one", b"onetwo", b"onetwothree", b"one\0\0\0", b"one" + bytes(8)}


def test_a_sync_covers_what_was_written_when_it_began():
    file = written(b"one")
    covered = file.covered()
    file.append(b"two")
    file.sync(covered)
    assert file.durable == b"one" and file.content == b"onetwo" and file.unsynced() == [0]
    assert len(file.sizes) == 1
    file.sync(file.covered())
    assert file.durable == b"onetwo" and not file.unsynced() and not file.sizes


def truncated(before: bytes, size: int, after: bytes = b"") -> File:
    file = written(before, synced=1)
    file.truncate(size)
    if after:
        file.append(after)
    return file


def test_a_cut_that_was_not_synced_may_be_undone():
    assert left_of(lambda: truncated(b"onetwo", 3)) == {b"one", b"onetwo"}
    assert left_of(lambda: truncated(b"onetwo", 3, b"three")) >= {b"onetwo", b"one", b"onethree", b"onetwo\0\0"}
    file = truncated(b"onetwo", 3)
    file.sync(file.covered())
    assert left_of(lambda: file) == {b"one"}


def test_a_failed_sync_drops_pages_that_no_later_sync_writes():
    def after_two_syncs(choose: Choose) -> bytes:
        file = written(A, B, synced=1)
        file.fail_sync(choose, "site")
        assert file.content == A + B
        file.sync(file.covered())  # reports success
        return file.durable

    assert set(outcomes(after_two_syncs)) == {A + B, A + ZEROS}
    file = written(b"one")
    file.fail_sync(lambda site, bound: 1, "site")
    file.append(b"two")  # the page is written again
    file.sync(file.covered())
    assert file.durable == b"onetwo"


# --- names

def folder(*operations: tuple[str, ...]) -> Folder:
    found = Folder()
    for op, name, *more in operations:
        body = more[0].encode() if op == "append" else b""
        covered = found.begin(op, name)
        status, _ = found.apply(op, name, body, more[0] if op in ("rename", "truncate") else "", covered)
        assert status == 200, (op, name)
    return found


def names_left(*operations: tuple[str, ...]) -> set[tuple[tuple[str, bytes], ...]]:
    def crashed(choose: Choose) -> tuple[tuple[str, bytes], ...]:
        of = folder(*operations)
        of.crash(choose, "site")
        assert of.names == of.durable and not of.changes
        return tuple(sorted((name, file.content) for name, file in of.names.items()))

    return set(outcomes(crashed))


WRITTEN = ("create", "a"), ("append", "a", "x"), ("sync", "a")


def test_a_name_that_no_sync_of_the_folder_covered_may_be_lost_with_its_synced_file():
    assert names_left(*WRITTEN) == {(), (("a", b"x"),)}
    assert names_left(*WRITTEN, ("sync_names", "")) == {(("a", b"x"),)}
    assert names_left(("create", "a"), ("sync_names", ""), ("append", "a", "x")) == {(("a", b""),), (("a", b"x"),),
                                                                                       (("a", b"\0"),)}


def test_a_rename_is_atomic():
    durable = *WRITTEN, ("sync_names", "")
    old, new = (("a", b"x"),), (("b", b"x"),)
    assert names_left(*durable, ("rename", "a", "b")) == {old, new}
    assert names_left(*durable, ("rename", "a", "b"), ("sync_names", "")) == {new}
    replacing = *durable, ("create", "b"), ("append", "b", "y"), ("sync", "b"), ("sync_names", ""), ("rename", "b", "a")
    assert names_left(*replacing) == {(("a", b"x"), ("b", b"y")), (("a", b"y"),)}


def test_a_removed_name_may_come_back():
    assert names_left(*WRITTEN, ("sync_names", ""), ("remove", "a")) == {(), (("a", b"x"),)}


def test_a_sync_of_the_folder_covers_the_names_of_when_it_began():
    def left(choose: Choose) -> tuple[str, ...]:
        folder = Folder()
        folder.apply("create", "a", b"", "", None)
        covered = folder.begin("sync_names", "")
        folder.apply("create", "b", b"", "", None)
        earlier = folder.begin("sync_names", "")
        folder.apply("rename", "a", b"", "c", None)
        folder.apply("sync_names", "", b"", "", covered)
        if twice:
            folder.apply("sync_names", "", b"", "", earlier)
        assert sorted(folder.names) == ["b", "c"]
        folder.crash(choose, "site")
        return tuple(sorted(folder.names))

    twice = False
    assert set(outcomes(left)) == {("a",), ("a", "b"), ("c",), ("b", "c")}
    twice = True
    assert set(outcomes(left)) == {("a", "b"), ("b", "c")}


def test_later_changes_of_names_may_be_kept_without_earlier_ones():
    made = ("create", "a"), ("create", "b"), ("create", "c")
    expected = {tuple((name, b"") for name in kept) for n in range(4) for kept in combinations("abc", n)}
    assert names_left(*made) == expected


@pytest.mark.parametrize("op", ["append", "truncate", "sync", "rename", "remove", "read"])
def test_what_needs_a_file_says_that_there_is_none(op):
    assert Folder().apply(op, "a", b"", "1", None)[0] == 404


def test_a_process_that_ends_loses_nothing_and_a_machine_may():
    of = folder(*WRITTEN[:2])
    assert of.apply("lock", "", b"", "", None)[0] == 200 and of.apply("lock", "", b"", "", None)[0] == 423
    of.ended()
    assert of.names["a"].content == b"x" and of.apply("lock", "", b"", "", None)[0] == 200
    assert of.crash(lambda site, bound: bound - 1, "site") == ["the creation of a is lost"] and not of.names
    assert of.apply("lock", "", b"", "", None)[0] == 200
