"""The check of callers' histories agrees with a search for a serial order, and names each way to fail."""

from itertools import pairwise, permutations

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.traces.histories.serial import Operation, anomalies


def is_serial(operations: list[Operation], final: tuple[str, ...], ordered: bool) -> bool:
    """Try every order of the existing updates, and look for a cycle."""
    of = {op.update: op for op in operations if op.update}
    if len(set(final)) < len(final) or any(
            (op.said == "committed" and op.update not in final) or (op.said == "failed" and op.update in final)
            for op in of.values()):
        return False
    return any(fits(operations, order, ordered) for order in ([final] if ordered else permutations(final)))


def fits(operations: list[Operation], order: tuple[str, ...], ordered: bool) -> bool:
    there = [op for op in operations if op.said == "read" or op.update in order]
    before = nx.DiGraph()
    before.add_nodes_from(range(len(there)))
    at = {op.update: number for number, op in enumerate(there) if op.update}
    before.add_edges_from((at[a], at[b]) for a, b in pairwise(order) if a in at and b in at)
    for number, op in enumerate(there):
        if op.said == "read":
            prefix = order[:len(op.seen)]
            if (prefix != op.seen) if ordered else (set(prefix) != set(op.seen)):
                return False
            before.add_edges_from((at[u], number) for u in prefix if u in at)
            before.add_edges_from((number, at[u]) for u in order[len(op.seen):] if u in at)
        for other, each in enumerate(there):
            if each.said in ("committed", "read") and each.end < op.begin:  # an indeterminate operation may take effect later
                before.add_edge(other, number)
    return nx.is_directed_acyclic_graph(before)


@st.composite
def histories(draw) -> tuple[list[Operation], tuple[str, ...]]:
    updates = "abcd"[:draw(st.integers(1, 4))]
    names = [*updates, *[""] * draw(st.integers(0, 3))]
    moments = draw(st.permutations(range(2 * len(names))))
    spans = [sorted(moments[2 * i:2 * i + 2]) for i in range(len(names))]
    said = [draw(st.sampled_from(("committed", "committed", "failed", "unknown", ""))) if name else "read" for name in names]
    may = [u for u, what in zip(updates, said) if what != "failed" or draw(st.integers(0, 9)) == 0]
    final = tuple(draw(st.permutations(may)))[:len(may) - (draw(st.integers(0, 4)) == 0)]
    operations = []
    for name, what, (begin, end) in zip(names, said, spans):
        seen = final[:draw(st.integers(0, len(final)))] if what == "read" else ()
        if draw(st.integers(0, 9)) == 0:
            seen = tuple(draw(st.permutations(seen)))
        operations.append(Operation(f"Client#{len(operations)}", begin, end if what else None, what, name, seen))
    return operations, final


@settings(max_examples=500, deadline=None)
@given(histories(), st.booleans())
def test_it_is_empty_where_there_is_a_serial_order_and_only_there(history, ordered):
    operations, final = history
    assert (anomalies(operations, final, ordered) == []) == is_serial(operations, final, ordered), (operations, final)


def update(name: str, begin: int, end: int | None, said: str = "committed") -> Operation:
    return Operation(f"Writer#{name}", begin, end, said, name)


def read(begin: int, end: int, *seen: str, client: str = "Reader#0") -> Operation:
    return Operation(client, begin, end, "read", "", seen)


A, B = update("a", 1, 2), update("b", 3, 4)


@pytest.mark.parametrize("operations, final, says", [
    ([A, B], ("a", "a", "b"), "applied twice"), ([A, B], ("b",), "lost update"),
    ([A, update("b", 3, 4, "failed")], ("a", "b"), "denied update"), ([A, B], ("b", "a"), "out of order"),
    ([A, read(3, 4, "c")], ("a",), "read what is gone"),
    ([update("a", 1, 9), update("b", 2, 8), read(3, 4, "b")], ("a", "b"), "read"),
    ([A, read(3, 4)], ("a",), "stale read"), ([read(1, 2, "a"), update("a", 3, 4)], ("a",), "read too early"),
    ([update("a", 1, 9), read(2, 3, "a"), read(4, 5)], ("a",), "read went back"),
])
def test_what_is_wrong_is_named(operations, final, says):
    assert says in {found.partition(":")[0] for found in anomalies(operations, final)}


def test_readers_of_a_set_may_not_disagree():
    both = [update("a", 1, 9), update("b", 2, 8), read(3, 6, "a"), read(4, 7, "b", client="Reader#1")]
    assert [found.partition(":")[0] for found in anomalies(both, ("a", "b"), ordered=False)] == ["reads disagree"]
    assert anomalies([*both[:3], read(4, 7, "a", "b", client="Reader#1")], ("b", "a"), ordered=False) == []


def test_an_update_that_is_tried_again_may_be_there_since_its_first_attempt():
    again = [update("a", 1, None, ""), update("b", 2, 3), update("a", 4, 5, "recognised"), read(6, 7, "a", "b")]
    assert anomalies(again, ("a", "b")) == []
    assert [found.partition(":")[0] for found in anomalies(again[1:], ("a", "b"))] == ["out of order"]
