"""Safety: «We define "correct" as the ability to implement a serializable history of our data system» (source 004): what
callers saw is what one update after another, in an order that real time agrees with, would have shown them.

One check for all protocols. Updates have names of their own; a read shows the updates that it saw: their order, or, where the
protocol has none to show (`ordered` off), which they are. It is strict: what ended before another began comes first. It asks
for the callers' history and the final content alone, so it judges any implementation, and knows nothing of a model.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

HAPPENED, DID_NOT = ("committed", "recognised"), ("failed",)  # whatever else a caller was told: it may have


class Operation(NamedTuple):
    """`begin`, `end`: places in the order of all beginnings and ends; `end` is None if its caller was never told anything."""

    client: str
    begin: int
    end: int | None
    said: str  # committed, failed (it is nowhere), unknown and others (it may be), read, "" (nothing)
    update: str = ""
    seen: tuple[str, ...] = ()  # of a read


def anomalies(operations: Sequence[Operation], final: Sequence[str], ordered: bool = True) -> list[str]:
    """Why there is no serial history, each "what: of whom"; empty if there is one. `final`: the updates in what is there in the
    end, in its order. Its time is that of updates times reads."""
    return list(dict.fromkeys([*of_updates(operations, final), *of_reads(operations, final, ordered),
                               *(out_of_order(operations, final) if ordered else ())]))


def of_updates(operations: Sequence[Operation], final: Sequence[str]) -> Iterator[str]:
    there = set(final)
    if len(there) < len(final):
        twice = sorted(update for update in there if final.count(update) > 1)
        yield f"applied twice: {', '.join(twice)}"
    for of in {of.update: of for of in operations if of.update}.values():  # a name that failed may be used again
        if of.said in HAPPENED and of.update not in there:
            yield f"lost update: {of.client} was told that {of.update} is committed, and it is not there in the end"
        if of.said in DID_NOT and of.update in there:
            yield f"denied update: {of.client} was told that {of.update} failed, and it is there in the end"


def of_reads(operations: Sequence[Operation], final: Sequence[str], ordered: bool) -> Iterator[str]:
    """Each read is a beginning of one history, holds what was committed before it, and nothing that began after it."""
    place = {update: number for number, update in enumerate(final)}
    ended = sorted((of.end, of.update) for of in operations if of.said in HAPPENED)
    begun = first_begun(operations)
    largest: list[tuple[int, tuple[str, ...]]] = []  # (end, seen) of the reads before
    reads = sorted((of for of in operations if of.said == "read"), key=lambda of: of.end)
    for of in reads:
        seen = set(of.seen)
        strange = [update for update in of.seen if update not in place]
        if strange:
            yield f"read what is gone: {of.client} has read {strange[0]}, which is not in the end's content"
        elif ordered and tuple(of.seen) != tuple(final[:len(of.seen)]):
            yield f"read: {of.client} has read {', '.join(of.seen)}, and the history begins otherwise"
        since = max([of.begin, *(begun.get(update, -1) for update in of.seen)])  # what was so before is so in what it sees
        missing = [update for end, update in ended if end < since and update not in seen]
        if missing:
            yield f"stale read: {of.client} has not read {missing[0]}, which was committed before"
        early = [update for update in of.seen if begun.get(update, -1) > of.end]
        if early:
            yield f"read too early: {of.client} has read {early[0]} before it was begun"
        back = next((before for end, before in largest if end < since and not seen >= set(before)), None)
        if back is not None:
            yield f"read went back: {of.client} has not read what was read before, {sorted(set(back) - seen)[0]}"
        if not ordered:
            other = next((before for _, before in largest if not (seen >= set(before) or seen <= set(before))), None)
            if other is not None:
                yield f"reads disagree: {of.client} has not read {sorted(set(other) - seen)[0]}, and who did not read its " \
                      f"{sorted(seen - set(other))[0]}"
        largest.append((of.end, of.seen))


def out_of_order(operations: Sequence[Operation], final: Sequence[str]) -> Iterator[str]:
    """An update that was committed before another was begun stands before it."""
    of = {each.update: each for each in operations if each.update}
    begun = first_begun(operations)
    latest, whose = -1, ""  # of those so far in the history, the latest beginning
    for update in final:
        each = of.get(update)
        if each is None:
            continue
        if each.said in HAPPENED and each.end < latest:
            yield f"out of order: {update} was committed before {whose} began, and stands behind it"
        if begun[update] > latest:
            latest, whose = begun[update], update


def first_begun(operations: Sequence[Operation]) -> dict[str, int]:
    """An update that is tried again, after a crash say, may be there since its first attempt."""
    return {of.update: of.begin for of in reversed(operations) if of.update}
