"""Counts the events in which a client of a run met an ambiguous answer: a lost one, or one about another attempt.

Such events must kill the known-bad clients of dst/mutants/ that misread an ambiguous answer.
"""

from collections.abc import Callable, Iterator

from highwater.traces.event import Event


def creates(events: list[Event]) -> Iterator[tuple[int, Event, list[Event]]]:
    """Yield each applied create of a file: its index, the event, and the same client's later events."""
    for place, e in enumerate(events):
        if e.op == "create" and e.kind == "applied" and not e.key.endswith(".boundary"):
            yield place, e, [later for later in events[place + 1:] if later.client == e.client]


def self_412(events: list[Event]) -> int:
    """Count the creates that were sent again, met their own success, and were reported as committed."""
    return sum(1 for _, e, after in creates(events) if e.status == 200 and (own := until_told(after))
               and any(again(e, later) and later.status >= 400 for later in own) and own[-1].op == "committed")


def refused_with_409(events: list[Event]) -> int:
    """Count the creates in doubt that were sent again and answered with 409."""
    return sum(1 for place, e in enumerate(events) if e.kind == "timeout" and e.op == "create"
               and any(again(e, later, "refused") and later.status == 409
                       for later in until_told([o for o in events[place + 1:] if o.client == e.client])))


def collected_before_read_back(events: list[Event]) -> int:
    """Count the creates that were applied, whose reply was lost, and whose file was collected before the client read it back.
    """
    return sum(1 for _, e, after in creates(events) if e.status == 200 and any(
        later.op == "get" and later.key == e.key and later.status == 404 for later in until_told(after)))


def another_in_its_place(events: list[Event]) -> int:
    """Count the creates that were applied, whose reply was lost, and which found another client's file when read back."""
    return sum(1 for _, e, after in creates(events) if e.status == 200 and any(
        later.op == "get" and later.key == e.key and later.status == 200 and later.body != e.body
        for later in until_told(after)))


def landed_late(events: list[Event], kind: str) -> int:
    """Count the creates that were applied after their client had given them up (`timeout`) or had died (`crash`)."""
    given_up = {e.request for e in events if e.kind == kind and e.pending}
    return sum(1 for _, e, _ in creates(events) if e.status == 200 and not e.awaited and e.request in given_up)


def again(first: Event, later: Event, kind: str = "applied") -> bool:
    """Return whether `later` repeats the request `first` and its client waited for the answer."""
    return (later.op, later.key, later.body, later.kind) == (first.op, first.key, first.body, kind) and later.awaited


def until_told(events: list[Event]) -> list[Event]:
    """Return one client's events up to its next response or crash; none if it lists first. They belong to one logical update.
    """
    found = []
    for e in events:
        found.append(e)
        if e.kind in ("told", "crash"):
            break
        if e.op == "list":
            return []
    return found


SOMETIMES: dict[str, Callable[[list[Event]], int]] = {
    "self_412": self_412,
    "409_as_exists": refused_with_409,
    "collected_before_read_back": collected_before_read_back,
    "another_in_its_place": another_in_its_place,
    "late_after_timeout": lambda events: landed_late(events, "timeout"),
    "late_after_crash": lambda events: landed_late(events, "crash"),
}
