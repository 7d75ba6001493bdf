"""Safety: none of its own; the events in which a run has met an answer that was lost, or that speaks of another attempt.

Known-bad clients that must die of them are in dst/mutants/STEM_ambiguity.py.
"""

from collections.abc import Callable, Iterator

from highwater.traces.event import Event


def creates(events: list[Event]) -> Iterator[tuple[int, Event, list[Event]]]:
    """Each create of a file that was applied, with its place and the same client's events after it."""
    for place, e in enumerate(events):
        if e.op == "create" and e.kind == "applied" and not e.key.endswith(".boundary"):
            yield place, e, [later for later in events[place + 1:] if later.client == e.client]


def self_412(events: list[Event]) -> int:
    """A create was sent again, met its own success, and was reported as committed."""
    return sum(1 for _, e, after in creates(events) if e.status == 200 and (own := until_told(after))
               and any(again(e, later) and later.status >= 400 for later in own) and own[-1].op == "committed")


def refused_with_409(events: list[Event]) -> int:
    """A create that was in doubt was sent again, and answered with 409."""
    return sum(1 for place, e in enumerate(events) if e.kind == "timeout" and e.op == "create"
               and any(again(e, later, "refused") and later.status == 409
                       for later in until_told([o for o in events[place + 1:] if o.client == e.client])))


def collected_before_read_back(events: list[Event]) -> int:
    """A create was applied, its reply lost, its file collected; then it was read back, and was not there."""
    return sum(1 for _, e, after in creates(events) if e.status == 200 and any(
        later.op == "get" and later.key == e.key and later.status == 404 for later in until_told(after)))


def another_in_its_place(events: list[Event]) -> int:
    """As that, and another's file was there."""
    return sum(1 for _, e, after in creates(events) if e.status == 200 and any(
        later.op == "get" and later.key == e.key and later.status == 200 and later.body != e.body
        for later in until_told(after)))


def landed_late(events: list[Event], kind: str) -> int:
    """A create was applied after its client had given it up (`timeout`), or had died (`crash`)."""
    given_up = {e.request for e in events if e.kind == kind and e.pending}
    return sum(1 for _, e, _ in creates(events) if e.status == 200 and not e.awaited and e.request in given_up)


def again(first: Event, later: Event, kind: str = "applied") -> bool:
    return (later.op, later.key, later.body, later.kind) == (first.op, first.key, first.body, kind) and later.awaited


def until_told(events: list[Event]) -> list[Event]:
    """Of one client's events those up to what its caller is told, or up to its end: of one logical update at most."""
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
