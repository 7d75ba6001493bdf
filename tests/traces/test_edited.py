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

SEEDS = {"db": 10, "database_clones": 20}  # the others: 60
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


def lost_read(events: list[Event]) -> Iterator[list[Event]]:
    """The response to a read is lost, and the call goes on to get an object, or returns, as if it had arrived."""
    for i, e in enumerate(events):
        if is_read(e, ""):
            after = next((o for o in events[i + 1:] if o.client == e.client and (o.awaited or o.kind != "applied")), e)
            if (after.kind, after.op) == ("applied", "get") or (after.keys[2:3] == ("returned",) and after.body):
                lost = e._replace(kind="timeout", status=0, version="", body=b"", keys=(), truncated=False)
                yield [*events[:i], lost, *events[i + 1:]]


# --- answers, and the requests behind them: of a database, whose calls have tasks

def call_of(events: list[Event], i: int) -> Iterator[int]:
    """Yield the places of the requests of the client that is told event `i`, and of its tasks, since its last answer; the
    latest first."""
    for j in range(i - 1, -1, -1):
        if events[j].client.partition("/")[0] == events[i].client:
            if events[j].kind in ("told", "crash"):
                return
            yield j


def puts(events: list[Event], i: int, *parts: str) -> Iterator[int]:
    """Yield the places of the creates of a call that took effect, and whose responses arrived."""
    for j in call_of(events, i):
        e = events[j]
        if (e.kind, e.op, e.status, e.awaited) == ("applied", "create", 200, True) and any(part in e.key for part in parts):
            yield j


def told_early(call: str, *parts: str) -> Edit:
    """A caller is told before its own request was applied."""
    def edit(events: list[Event]) -> Iterator[list[Event]]:
        for i, e in enumerate(events):
            if e.keys[:1] == (call,) and e.keys[2] == "returned":
                for j in puts(events, i, *parts):
                    yield [*events[:j], e._replace(t_ms=events[j].t_ms), *events[j:i], *events[i + 1:]]
                    break

    return edit


def never_put(call: str, *parts: str) -> Edit:
    """The request that makes an answer true is not in the trace."""
    def edit(events: list[Event]) -> Iterator[list[Event]]:
        for i, e in enumerate(events):
            if e.keys[:1] == (call,) and e.keys[2] == "returned":
                for j in puts(events, i, *parts):
                    yield [o for o in events if (o.client, o.request) != (events[j].client, events[j].request)]

    return edit


def other_body(part: str) -> Edit:
    """An object has the content of another one of its folder."""
    def edit(events: list[Event]) -> Iterator[list[Event]]:
        places = [i for i, e in enumerate(events) if (e.kind, e.op, e.status) == ("applied", "create", 200) and part in e.key
                  and e.body and e.awaited]
        for i in places:
            named = next((o for o in events[i + 1:] if o.client == events[i].client and "/manifest/" in o.key), events[i])
            if part == "/compacted/" and (named.kind, named.op, named.status) != ("applied", "create", 200):
                continue  # no manifest names it
            for j in places:
                if events[j].body != events[i].body and events[j].key[:3] == events[i].key[:3]:
                    yield [*events[:i], events[i]._replace(body=events[j].body), *events[i + 1:]]
                    break

    return edit


def page_lost(events: list[Event]) -> Iterator[list[Event]]:
    """The response with a page of manifests is lost, and its task goes on after the last key of that page. Once for each."""
    met: set[str] = set()
    for i, e in enumerate(events):
        if e.op == "list" and is_read(e, "/manifest/") and e.truncated and e.client not in met and not any(
                o.key == e.keys[-1] and o.client.partition("/")[0] == e.client.partition("/")[0] for o in events[:i]):
            after = next((o for o in events[i + 1:] if o.client == e.client), e)
            if (after.kind, after.op, after.condition) == ("applied", "list", e.keys[-1]):
                met.add(e.client)
                yield [*events[:i], e._replace(kind="timeout", status=0, keys=(), truncated=False), *events[i + 1:]]


def no_boundary_read(events: list[Event]) -> Iterator[list[Event]]:
    """A caller is told of an invalid boundary, and its call has read none."""
    for i, e in enumerate(events):
        if e.keys[1:2] == ("InvalidBoundary",) and e.keys[0] in ("begin", "mark", "clone", "detach"):
            left = {(events[j].client, events[j].request) for j in call_of(events, i) if ".boundary" in events[j].key}
            yield [o for o in events if (o.client, o.request) not in left]


def told_another(*calls: str) -> Edit:
    """Every other client is told the same, of whatever role."""
    def edit(events: list[Event]) -> Iterator[list[Event]]:
        clients = sorted({e.client for e in events if e.kind == "told"})
        for i, e in enumerate(events):
            if e.keys[:1] in [(call,) for call in calls] and e.keys[1] != "NoneType" and e.keys[2] == "returned":
                for client in clients:
                    if client != e.client:
                        yield [*events[:i + 1], e._replace(client=client), *events[i + 1:]]

    return edit


def other_values(*calls: str) -> Edit:
    """A caller is told the values of another answer to this call."""
    def edit(events: list[Event]) -> Iterator[list[Event]]:
        for i, e in enumerate(events):
            for o in events[:i] if e.keys[:1] in [(call,) for call in calls] else ():
                if o.keys[:3] == e.keys[:3] and o.keys != e.keys:
                    yield [*events[:i], e._replace(keys=o.keys, body=o.body), *events[i + 1:]]
                    break

    return edit


def not_checked(events: list[Event]) -> Iterator[list[Event]]:
    """A client creates a numbered file, and does not read the boundary after it. Its call goes on."""
    for i, e in enumerate(events):
        j = own(events, i)
        if is_read(e, ".boundary") and events[j].op == "create" and events[j].kind == "applied" and events[j].status == 200:
            after = [o for o in events[i + 1:] if o.client.partition("/")[0] == e.client.partition("/")[0]]
            cut = any(o.kind == "crash" or o.keys[1:2] == ("TimedOut",) for o in after[:1])
            if any(o.kind == "told" for o in after) and "/" not in e.client and not cut:
                yield [o for o in events if (o.client, o.request) != (e.client, e.request)]


def told_first(*told: str) -> Edit:
    """A caller is told this before the first request of its call."""
    def edit(events: list[Event]) -> Iterator[list[Event]]:
        for i, e in enumerate(events):
            if e.kind == "told" and e.op in told and (own_ := list(call_of(events, i))):
                yield [*events[:own_[-1]], e._replace(t_ms=events[own_[-1]].t_ms), *events[own_[-1]:i], *events[i + 1:]]

    return edit


def told_twice(*told: str) -> Edit:
    """A caller is told this twice, of one call."""
    def edit(events: list[Event]) -> Iterator[list[Event]]:
        for i, e in enumerate(events):
            if e.kind == "told" and e.op in told:
                yield [*events[:i + 1], *events[i:]]

    return edit


def miscounted(events: list[Event]) -> Iterator[list[Event]]:
    """A reader counts one poll more before this one than have returned."""
    for i, e in enumerate(events):
        if (e.kind, e.op) == ("told", "read") and e.keys[-1].startswith("new="):
            number, *names = e.keys[-1].removeprefix("new=").split()
            value = " ".join([str(int(number) + 1), *names])
            yield [*events[:i], e._replace(keys=(*e.keys[:-1], f"new={value}")), *events[i + 1:]]


OF_A_DATABASE = {"write": "/wal/", "open": "/wal/", "checkpoint": "/manifest/", "take": "/manifest/", "follow": "/manifest/",
                 "begin": "/manifest/", "compact": "/manifest/"}
EDITS: list[tuple[str, Edit]] = [
    *(("db", edit(call, part)) for call, part in OF_A_DATABASE.items() for edit in (told_early, never_put)),
    ("db", other_body("/wal/")),
    ("db", other_body("/compacted/")),
    ("db", told_another("open", "write", "checkpoint", "take", "begin", "compact")),
    ("db", other_values("open", "write", "checkpoint", "take", "begin", "compact")),
    ("db", not_checked),
    ("db", page_lost),
    ("db", no_boundary_read),
    ("database_clones", told_another("clone", "detach")),
    ("database_clones", unheard("cloned", "taken", "dropped")),
    ("database_clones", unread("cloned", "taken", "dropped")),
    ("database_clones", not_checked),
    ("manifest_compactions", unheard("committed", "opened", "compacted", "nothing")),
    ("manifest_compactions", unread("committed", "opened", "compacted", "nothing")),
    ("manifest_compactions", read_too_early("committed", "opened", "compacted", "nothing")),
    ("manifest_compactions", another_job),
    ("manifest_compactions", latest_not_read),
    ("manifest_compactions", not_to_the_end),
    ("manifest_compactions", other_name),
    ("manifest_compactions", other_values("flush", "open", "compact", "collect")),
    ("dlq_recovery", told_twice("stored", "refused")),
    ("baseline", other_content),
    ("baseline", lost_read),
    *((stem, edit) for stem, told in {
        "checkpoints": ("committed", "renewed", "dropped", "replaced"),
        "clones": ("cloned", "flushed", "taken", "dropped", "open"),
        "database_gc": ("flushed", "nothing", "taken", "dropped"), "db_reader": ("flushed", "compacted", "opened"),
        "destroy": ("committed", "marked", "waits", "not marked")}.items() for edit in (unheard(*told), unread(*told))),
    *((stem, latest_not_read) for stem in ("checkpoints", "database_gc", "db_reader", "destroy")),
    *((stem, page_left_out) for stem in ("checkpoints", "clones", "database_gc", "db_reader", "destroy")),
    *((stem, other_values("create", "refresh", "delete", "update", "commit", "mark")) for stem in ("checkpoints", "destroy")),
    ("manifest_migration", unheard("committed")),
    ("manifest_migration", unread("committed")),
    ("manifest_migration", read_too_early("committed")),
    ("manifest_migration", latest_not_read),
    ("manifest_migration", unlisted_read),
    ("manifest_migration", file_not_looked_at),
    ("manifest_epochs", page_left_out),
    ("manifest_epochs", key_left_out),
    ("manifest_epochs", not_to_the_end),
    ("manifest_epochs", told_first("nothing", "version_exists")),
    ("manifest_epochs", miscounted),
    ("log_gc", not_to_the_end),
    ("wal_fencing", not_to_the_end),
]


def edited(stem: str, edit: Edit) -> Iterator[tuple[str, bool]]:
    """Yield for each edited trace its name, and whether it is refused."""
    of = named(stem)
    for seed in range(SEEDS.get(stem, 60)):
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
