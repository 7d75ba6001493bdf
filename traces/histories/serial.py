"""Safety: callers saw what a serial execution of the updates, in an order that respects real time, would have shown them. The
essay on object-store protocols: «We define "correct" as the ability to implement a serializable history of our data system».

This is one check for all protocols. Updates have unique names. A read shows the updates that it saw, in order, or only as a set
if the protocol has no order to show (`ordered` off). The check is strict: an operation that ended before another began comes
first. It needs only the callers' history and the final content. So it judges any implementation, and needs no model.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

HAPPENED, DID_NOT = ("committed", "recognised"), ("failed",)  # after any other response the update may have happened


class Operation(NamedTuple):
    """One caller's operation. `begin` and `end` are ordinals among all beginnings and ends; `end` is None without a response.
    """

    client: str
    begin: int
    end: Any
    said: str  # the response: committed, failed (it is nowhere), unknown and others (it may be there), read, "" (none)
    update: str = ""
    seen: tuple[str, ...] = ()  # the updates that a read saw


def anomalies(operations: Sequence[Operation], final: Sequence[str], ordered: bool = True) -> list[str]:
    """Return why there is no serial history, each as "kind: explanation"; empty if there is one.

    `final` lists the updates in the final content, in its order. The time is proportional to updates times reads.
    """
    return list(dict.fromkeys([*of_updates(operations, final), *of_reads(operations, final, ordered),
                               *(out_of_order(operations, final) if ordered else ())]))


def of_updates(operations: Sequence[Operation], final: Sequence[str]) -> Iterator[str]:
    """Check that acknowledged updates are in the final content once, and that failed ones are not."""
    there = set(final)
    if len(there) < len(final):
        twice = sorted(update for update in there if final.count(update) > 1)
        yield f"applied twice: {', '.join(twice)}"
    for of in {of.update: of for of in operations if of.update}.values():  # a failed name may be used again
        if of.said in HAPPENED and of.update not in there:
            yield f"lost update: {of.client} was told that {of.update} is committed, and it is not there in the end"
        if of.said in DID_NOT and of.update in there:
            yield f"denied update: {of.client} was told that {of.update} failed, and it is there in the end"


def of_reads(operations: Sequence[Operation], final: Sequence[str], ordered: bool) -> Iterator[str]:
    """Check each read: it is a prefix of one history, has every update committed before it, and none begun after it."""
    place = {update: number for number, update in enumerate(final)}
    ended = sorted((of.end, of.update) for of in operations if of.said in HAPPENED)
    begun = first_begun(operations)
    largest: list[tuple[int, tuple[str, ...]]] = []  # (end, seen) of the earlier reads
    reads = sorted((of for of in operations if of.said == "read"), key=lambda of: of.end)
    for of in reads:
        seen = set(of.seen)
        strange = [update for update in of.seen if update not in place]
        if strange:
            yield f"read what is gone: {of.client} has read {strange[0]}, which is not in the end's content"
        elif ordered and tuple(of.seen) != tuple(final[:len(of.seen)]):
            yield f"read: {of.client} has read {', '.join(of.seen)}, and the history begins otherwise"
        since = max([of.begin, *(begun.get(update, -1) for update in of.seen)])  # it must see everything that ended before this
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
    """Check that an update that was committed before another began comes before it."""
    of = {each.update: each for each in operations if each.update}
    begun = first_begun(operations)
    latest, whose = -1, ""  # the latest beginning of the updates so far, and that update
    for update in final:
        each = of.get(update)
        if each is None:
            continue
        if each.said in HAPPENED and each.end < latest:
            yield f"out of order: {update} was committed before {whose} began, and stands behind it"
        if begun[update] > latest:
            latest, whose = begun[update], update


def first_begun(operations: Sequence[Operation]) -> dict[str, int]:
    """Return the beginning of each update's first attempt; an update that is tried again may be there since then."""
    return {of.update: of.begin for of in reversed(operations) if of.update}
