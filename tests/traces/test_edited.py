"""Edited traces that no client and no store can cause: each mapping refuses them. A client must have read what it acts upon."""

from collections.abc import Callable, Iterator

import pytest

from highwater.dst.run_spec import Run
from highwater.dst.scenarios import named
from highwater.dst.simulate import simulate
from highwater.impl.codecs.slatedb.header import version_of
from highwater.traces.damage.damage import spread
from highwater.traces.damage.kills import refused
from highwater.traces.event import Event
from highwater.traces.form import READS

SEEDS = 60
Edit = Callable[[list[Event]], Iterator[list[Event]]]


def own(events: list[Event], i: int) -> int:
    """Return the place of the event before event `i` of the same client; -1 if there is none."""
    return next((j for j in range(i - 1, -1, -1) if events[j].client == events[i].client and events[j].awaited), -1)


def is_read(e: Event, *parts: str) -> bool:
    return e.kind == "applied" and e.awaited and e.op in READS and any(part in e.key for part in parts)


def settled(events: list[Event], *told: str) -> Iterator[int]:
    """Yield the places of boundary reads that a response is based on."""
    for i, e in enumerate(events):
        if e.kind == "told" and e.op in told and is_read(events[own(events, i)], ".boundary"):
            yield own(events, i)


def unheard(*told: str) -> Edit:
    """The response to the boundary's read is lost, and the caller receives its answer all the same."""
    def edit(events: list[Event]) -> Iterator[list[Event]]:
        for i in settled(events, *told):
            lost = events[i]._replace(kind="timeout", status=0, version="", body=b"")
            yield [*events[:i + 1], lost, *events[i + 1:]]

    return edit


def unread(*told: str) -> Edit:
    """The boundary is not read before the caller's answer."""
    def edit(events: list[Event]) -> Iterator[list[Event]]:
        for i in settled(events, *told):
            yield events[:i] + events[i + 1:]

    return edit


def read_too_early(*told: str) -> Edit:
    """The boundary is read before the request that comes before it: the create, or the GET."""
    def edit(events: list[Event]) -> Iterator[list[Event]]:
        for i in settled(events, *told):
            j = own(events, i)
            if j >= 0 and events[j].kind == "applied":
                early = events[i]._replace(t_ms=events[j].t_ms, request=events[j].request - 1)
                yield [*events[:j], early, *events[j:i], *events[i + 1:]]

    return edit


def another_job(events: list[Event]) -> Iterator[list[Event]]:
    """A compactor's caller receives the job of an earlier call in place of this one's."""
    earlier: set[bytes] = set()
    for i, e in enumerate(events):
        if (e.kind, e.op) == ("told", "compacted"):
            for body in sorted(earlier - {e.body}):
                yield [*events[:i], e._replace(body=body), *events[i + 1:]]
            earlier.add(e.body)


def latest_not_read(events: list[Event]) -> Iterator[list[Event]]:
    """A client puts the next file, and has not read the one before it."""
    for i, e in enumerate(events):
        if e.op == "create" and e.kind == "applied" and e.awaited and e.client[:9] != "Collector":
            j = own(events, i)
            if is_read(events[j], ".manifest", ".compactions") and events[j].op == "get":
                yield events[:j] + events[j + 1:]


def unlisted_read(events: list[Event]) -> Iterator[list[Event]]:
    """A client asks for a file that it has not seen in its listing, and that never was."""
    for i, e in enumerate(events):
        if e.op == "get" and is_read(e, ".manifest") and e.client.startswith("Writer"):
            never = e._replace(request=e.request - 1, key=e.key.replace("/0000", "/0099"), status=404, version="", body=b"")
            yield [*events[:i], never, *events[i:]]


def file_not_looked_at(events: list[Event]) -> Iterator[list[Event]]:
    """Phase 3 begins, and one of the listed manifests was not read: it may be V1."""
    for i, e in enumerate(events):
        if (e.op, e.body) == ("began", b"3"):
            j = own(events, i)
            if is_read(events[j], ".manifest") and events[j].status == 200 and version_of(events[j].body) == 2:
                yield events[:j] + events[j + 1:]


def first_pages(events: list[Event]) -> Iterator[int]:
    """Yield the places of pages after which the client asked for the next one, in its first listing."""
    seen = set()
    for i, e in enumerate(events):
        if e.op == "list" and e.kind != "told" and e.awaited and e.client not in seen:
            seen.add(e.client)
            following = next((o for o in events[i + 1:] if o.client == e.client), e)
            if following.kind == "applied" and following.op == "list" and e.keys[-1:] == (following.condition,):
                yield i


def page_left_out(events: list[Event]) -> Iterator[list[Event]]:
    """A client goes on with the second page of a listing, and has not read the first."""
    for i in first_pages(events):
        yield events[:i] + events[i + 1:]


def key_left_out(events: list[Event]) -> Iterator[list[Event]]:
    """The first page has a key less, and the client asks for the second one as if it had been there."""
    for i in first_pages(events):
        yield [*events[:i], events[i]._replace(keys=events[i].keys[:-1]), *events[i + 1:]]


def not_to_the_end(events: list[Event]) -> Iterator[list[Event]]:
    """The page says that more keys follow, and the client does not ask for them."""
    for i, e in enumerate(events):
        if e.op == "list" and is_read(e, "") and not e.truncated and e.keys and any(
                o.client == e.client and o.kind == "applied" and o.awaited for o in events[i + 1:]):
            yield [*events[:i], e._replace(truncated=True), *events[i + 1:]]


def other_name(events: list[Event]) -> Iterator[list[Event]]:
    """A file is put, or asked for, under a name that no file has."""
    for i, e in enumerate(events):
        if e.kind == "applied" and e.op in ("create", "get") and ".boundary" not in e.key and e.client[:9] != "Collector":
            yield [*events[:i], e._replace(key=f"{e.key}x"), *events[i + 1:]]


def other_content(events: list[Event]) -> Iterator[list[Event]]:
    """A write has the content of another one. Nobody reads it."""
    for i, e in enumerate(events):
        if e.op == "put" and e.kind == "applied" and e.awaited:
            yield [*events[:i], e._replace(body=e.body + b"0"), *(o for o in events[i + 1:] if o.client == e.client)]


EDITS: list[tuple[str, Edit]] = [
    ("manifest_compactions", unheard("committed", "opened", "compacted", "nothing")),
    ("manifest_compactions", unread("committed", "opened", "compacted", "nothing")),
    ("manifest_compactions", read_too_early("committed", "opened", "compacted", "nothing")),
    ("manifest_compactions", another_job),
    ("manifest_compactions", latest_not_read),
    ("manifest_compactions", not_to_the_end),
    ("manifest_compactions", other_name),
    ("baseline", other_content),
    *((stem, edit) for stem, told in {
        "checkpoints": ("committed", "renewed", "dropped", "replaced"),
        "clones": ("cloned", "flushed", "taken", "dropped", "open"),
        "database_gc": ("flushed", "nothing", "taken", "dropped"), "db_reader": ("flushed", "compacted", "opened"),
        "destroy": ("committed", "marked", "waits", "not marked")}.items() for edit in (unheard(*told), unread(*told))),
    *((stem, latest_not_read) for stem in ("checkpoints", "database_gc", "db_reader", "destroy")),
    *((stem, page_left_out) for stem in ("checkpoints", "clones", "database_gc", "db_reader", "destroy")),
    ("manifest_migration", unheard("committed")),
    ("manifest_migration", unread("committed")),
    ("manifest_migration", read_too_early("committed")),
    ("manifest_migration", latest_not_read),
    ("manifest_migration", unlisted_read),
    ("manifest_migration", file_not_looked_at),
    ("manifest_epochs", page_left_out),
    ("manifest_epochs", key_left_out),
    ("manifest_epochs", not_to_the_end),
    ("log_gc", not_to_the_end),
    ("wal_fencing", not_to_the_end),
]


def edited(stem: str, edit: Edit) -> Iterator[tuple[str, bool]]:
    """Yield for each edited trace its name, and whether it is refused."""
    of = named(stem)
    for seed in range(SEEDS):
        outcome = simulate(Run(seed, stem))
        if getattr(outcome.shape, "fresh", False):
            continue  # an initialisation creates the first file, whatever it has listed
        for number, events in enumerate(edit(spread(outcome.events))):
            yield f"seed {seed}, edit {number}", bool(refused(of.judge(outcome.shape), events))


@pytest.mark.parametrize(("stem", "edit"), EDITS, ids=lambda of: of if isinstance(of, str) else of.__qualname__.split(".")[0])
def test_edited_trace_is_refused(stem, edit):
    found = dict(edited(stem, edit))
    assert found, "nothing was edited"
    accepted = [name for name, is_refused in found.items() if not is_refused]
    assert not accepted, f"{len(accepted)} of {len(found)} pass: {accepted[:5]}"
