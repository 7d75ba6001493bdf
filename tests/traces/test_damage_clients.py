"""Each predicate that explains survivors leaves alone a damage that it must not explain."""

from types import SimpleNamespace
from typing import Any

import pytest

from highwater.impl.layout import Namespace
from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.damage import Damage
from highwater.traces.damage.protocols import (
    baseline,
    checkpoints,
    dlq_recovery,
    index_reads,
    index_retention,
    log_gc,
    manifest_compactions,
    manifest_epochs,
    sequenced_metadata_boundary,
    store_primitives,
    wal_fencing,
)
from highwater.traces.damage.survivors import GENERAL, Clients, Survivor
from highwater.traces.event import EMPTY, Event
from highwater.traces.form import Keys
from highwater.traces.protocols.checkpoints_contents import checkpoint_name

FILE, NEXT, BOUNDARY = "db/m/00000000000000000001.m", "db/m/00000000000000000002.m", "db/gc/m.boundary"
LIST = EMPTY._replace(t_ms=1, request=3, client="Writer#0", kind="applied", op="list", key="db/m/", status=200, keys=(FILE,))
GET = LIST._replace(request=6, op="get", key=FILE, version="1", body=b"0.0", keys=())
CREATE = LIST._replace(request=9, op="create", key=NEXT, version="2", body=b"0.0 0.1", keys=())
LOST = CREATE._replace(kind="timeout", status=0, version="", pending=True)
CHECK = LIST._replace(request=12, op="get", key=BOUNDARY, status=404, keys=())
TOLD = EMPTY._replace(t_ms=1, client="Writer#0", kind="told", op="committed", body=b"0.1", key=NEXT)
SEEN = LIST._replace(request=15, client="Reader#0", keys=(FILE, NEXT))
DELETE = LIST._replace(request=18, client="Collector#0", op="delete", key=FILE, status=204, keys=())
OLD, NEW = (SEEN._replace(request=n, client="Collector#0", keys=keys) for n, keys in ((16, (NEXT,)), (17, (FILE, NEXT))))
BEGUN = [LIST, GET, CREATE, CHECK, TOLD]
REFUSED = CREATE._replace(status=412, version="")
SHOWN = GET._replace(request=15, client="Reader#0", key=NEXT, version="2", body=b"0.0 0.1")


def damaged(good: list[Event], at: int, kind: str, /, **edit: Any) -> Survivor:
    """Return the survivor of one damage to event `at`. A repeat or a duplicate changes nothing else here."""
    e = good[at]._replace(**edit)
    events = {"drop": [*good[:at], *good[at + 1:]], "edit": [*good[:at], e, *good[at + 1:]],
              "swap, same client": [*good[:at], *good[at + 1:at + 2], e, *good[at + 2:]]}.get(kind, [*good[:at], e, *good[at:]])
    where = Keys("db/", listed=("db/m/",), single=(BOUNDARY,))
    to = at + kind.startswith("swap")
    clients = Clients(free=("Collector",), opaque=("db/data/",))
    return Survivor(good, Damage(kind, next(iter(edit), ""), at, to, events), where, {}, clients,
                    lambda e: sorted(e.body.split()))


LATER = "db/m/00000000000000000003.m"
MOVED = CREATE._replace(key=BOUNDARY, body=b"1")
MISSING = TOLD._replace(op="not changed", keys=("db/", "CheckpointMissing"))  # a read shows it
DATA = CREATE._replace(request=10, key="db/data/1", body=b"rows")
LOST_LIST = LIST._replace(kind="timeout", status=0, keys=())
WAL_LIST = SEEN._replace(request=16, client="Collector#0", key="db/wal/", keys=("db/wal/1",))
WAL_DELETE = DELETE._replace(key="db/wal/1")
MUST_NOT = {  # predicate -> damages that it must not explain
    "asked again": [damaged(BEGUN, 2, "repeat"), damaged(BEGUN, 1, "drop")],
    "deleted again": [damaged(BEGUN, 2, "repeat"), damaged([DELETE], 0, "drop")],
    "refused again": [damaged(BEGUN, 2, "repeat")],
    "lost again": [damaged(BEGUN, 2, "repeat")],
    "not used": [damaged(BEGUN, 0, "drop"), damaged(BEGUN, 1, "drop"), damaged(BEGUN, 3, "drop"), damaged(BEGUN, 4, "drop"),
                 damaged([*BEGUN[:3], SEEN], 2, "drop"), damaged([LIST, GET, LOST, SEEN], 2, "drop"), damaged(
                     [LIST, GET, CHECK, MISSING], 1, "drop")],
    "listed the same": [
        damaged(BEGUN, 0, "drop"), damaged([LIST, TOLD, LIST, GET, CREATE], 2, "drop"), damaged([OLD, NEW, DELETE], 1, "drop"),
        damaged([LIST._replace(keys=()), LIST, GET, CREATE], 1, "drop"), damaged([LIST, LIST, GET], 1, "edit", keys=())],
    "asked before": [damaged(BEGUN, 3, "drop"), damaged([GET._replace(body=b"0.2"), GET, CREATE], 1, "drop"), damaged(
        [GET, CREATE, GET, CREATE], 2, "drop"), damaged([CREATE, CREATE], 1, "drop")],
    "looked in vain": [damaged([NEW, DELETE], 0, "drop"), damaged(BEGUN, 0, "drop"), damaged([WAL_LIST, WAL_DELETE], 0, "drop"),
                       damaged([NEW, TOLD], 0, "edit", keys=())],
    "response lost": [damaged([LIST, GET], 0, "edit", keys=()), damaged([LIST, LOST_LIST], 0, "edit", key="db/n/"), damaged(
        [CREATE, LOST._replace(request=9)], 0, "edit", body=b"0.1")],
    "any content": [damaged([CREATE], 0, "edit", body=b"0.1"), damaged(
        [DATA, GET._replace(key=DATA.key)], 0, "edit", body=b"0.1"), damaged([DATA], 0, "edit", version="9")],
    "uploaded early": [damaged([TOLD, CREATE], 0, "swap, same client"), damaged([DATA, TOLD], 0, "swap, same client"), damaged(
        [GET, DATA], 0, "swap, same client"), damaged([TOLD, DATA], 0, "drop")],
    "another asked": [damaged(BEGUN, 1, "edit", client="Writer#1"), damaged(BEGUN, 2, "edit", client="Writer#1"),
                      damaged(BEGUN, 3, "edit", client="Writer#1")],
    "another collects": [damaged(BEGUN, 2, "edit", client="Collector#0"), damaged([DELETE], 0, "edit", client="Writer#0")],
    "asked for another": [damaged(BEGUN, 1, "edit", key=NEXT), damaged([DELETE, GET], 1, "edit", key=NEXT), damaged(
        [REFUSED], 0, "edit", key=LATER), damaged([REFUSED], 0, "edit", key=FILE, op="update")],
    "listed before": [damaged([NEW, DELETE], 0, "drop"), damaged([OLD, NEW, DELETE], 1, "drop"), damaged(
        [NEW._replace(keys=(FILE,)), NEW, DELETE], 1, "drop"), damaged([NEW, NEW, DELETE], 2, "drop"), damaged(
        [NEW, NEW, DELETE, CREATE], 1, "edit", client="Writer#0")],
    "collected less": [damaged([DELETE, SEEN], 0, "drop"), damaged(BEGUN, 2, "drop")],
    "collected another": [damaged([CREATE, DELETE, SEEN], 1, "edit", key=NEXT), damaged(BEGUN, 2, "edit", key=FILE)],
    "never read since": [damaged(BEGUN, 2, "edit", body=b"0.2"), damaged(
        [DELETE._replace(op="create", key=BOUNDARY, status=200, body=b"1"), CHECK._replace(status=200, body=b"1")], 0, "edit",
        body=b"2"), damaged([MOVED, DELETE], 0, "edit", body=b"0"), damaged([MOVED], 0, "edit", body=b"x")],
    "ended otherwise": [damaged([LIST, GET, LOST._replace(op="get", key=BOUNDARY, pending=False), CREATE, TOLD], 2, "edit",
                                kind="crash")],
    "heard or not": [damaged([LIST, GET, LOST._replace(op="get", key=BOUNDARY, pending=False), CREATE, TOLD], 2, "edit",
                             awaited=False), damaged([LOST], 0, "edit", awaited=False)],
    "told again": [damaged(BEGUN, 2, "duplicate"), damaged(BEGUN, 4, "edit", client="Writer#1")],
    "claims little": [damaged(BEGUN, 4, "edit", op=op) for op in ("failed", "refused", "not changed")],
    "true as well": [damaged(BEGUN, 4, "edit", op="failed"), damaged([LIST, GET, LOST, TOLD], 3, "edit", op="failed"), damaged(
        BEGUN, 4, "edit", op="not changed"), damaged([DATA, *BEGUN], 5, "edit", op="failed"), damaged(
        [CREATE, DATA, TOLD], 2, "edit", op="failed")],
    "in another order": [damaged(BEGUN, 4, "edit", body=b"0.1 0.1"), damaged(BEGUN, 4, "edit", body=b"0.2")],
    "told later": [damaged(BEGUN, 3, "swap, same client"), damaged([TOLD, CREATE], 0, "swap, same client"),
                   damaged(BEGUN, 1, "swap, same client")],
    "nothing to overwrite": [damaged([CREATE._replace(status=412, version="")], 0, "edit", op="put")],
    "means the same": [damaged(BEGUN, 2, "edit", body=b"0.0 0.1 0.1"), damaged(
        [*BEGUN, GET._replace(key=NEXT, version="2", body=b"0.0 0.1")], 2, "edit", body=b"0.1 0.0")],
    "lists from the first": [damaged([CREATE, SEEN], 1, "edit", condition=NEXT)],
}


OF_REQUESTS = {  # the same for predicates about requests and responses alone
    "a number is a name": [damaged(BEGUN, 1, "edit", request=3), damaged(BEGUN, 2, "edit", request=1), damaged(
        BEGUN, 2, "edit", request=0), damaged(BEGUN, 1, "edit", t_ms=2)],
    "between its neighbours": [damaged(BEGUN, 1, "edit", t_ms=0), damaged(BEGUN, 1, "edit", t_ms=2), damaged(
        BEGUN, 1, "edit", request=7)],
    "they commute": [damaged([CREATE, SEEN], 0, "swap, same client"), damaged(BEGUN, 1, "swap, same client"), damaged(
        [DELETE, GET], 0, "swap, same client")],
    "nobody waits": [damaged(BEGUN, 1, "edit", body=b"0.1"), damaged([CREATE._replace(awaited=False)], 0, "edit", body=b"0.1"),
                     damaged([GET._replace(awaited=False)], 0, "edit", awaited=True)],
    "never applied": [damaged(BEGUN, 2, "edit", body=b"0.1"), damaged([LOST], 0, "edit", body=b"0.1"), damaged(
        [LOST._replace(pending=False), CREATE._replace(awaited=False)], 0, "edit", body=b"0.1")],
    "never arrives": [damaged([LOST], 0, "edit", pending=False), damaged(
        [LOST._replace(pending=False), CREATE._replace(awaited=False)], 0, "edit", pending=True)],
    "not applied either way": [damaged([REFUSED], 0, "edit", status=200), damaged([CREATE], 0, "edit", status=412), damaged(
        [CHECK], 0, "edit", status=412), damaged([REFUSED], 0, "edit", kind="timeout")],
    "dead is dead": [damaged([LOST._replace(kind="crash")], 0, "duplicate"), damaged(
        [LOST._replace(pending=False)], 0, "duplicate"), damaged([LOST._replace(kind="crash", pending=False)], 0, "drop")],
    "claims less": [damaged(BEGUN, 4, "edit", op="failed"), damaged(BEGUN, 4, "duplicate"), damaged(BEGUN, 2, "drop")],
    "never written": [damaged(BEGUN, 2, "edit", body=b"0.1"), damaged([LOST], 0, "edit", body=b"0.1"), damaged(
        [REFUSED], 0, "edit", key=FILE)],
    "never shown again": [damaged([CREATE, SHOWN], 0, "edit", version="9"), damaged([CREATE, SHOWN], 1, "edit", version="9"),
                          damaged([CREATE, REFUSED._replace(op="update", condition="2")], 0, "edit", version="9")],
    "condition of no effect": [damaged([CREATE._replace(op="update", condition="1")], 0, "edit", condition="9"), damaged(
        [REFUSED._replace(op="update", condition="1")], 0, "edit", condition=""), damaged(
        [GET._replace(op="get_if_changed", status=304, condition="1")], 0, "edit", condition="9")],
    "gone either way": [damaged([CREATE, DELETE._replace(key=NEXT)], 1, "edit", status=404), damaged(
        [DELETE], 0, "edit", status=404), damaged([DELETE, CREATE._replace(key=FILE), DELETE], 2, "edit", status=404)],
}
MUST_NOT.update(OF_REQUESTS)


def test_every_predicate_is_tested():
    assert set(MUST_NOT) == set(OF_ALL) and set(OF_REQUESTS) == set(GENERAL)


@pytest.mark.parametrize("name", MUST_NOT)
def test_predicate_does_not_explain_what_it_must_not(name):
    _, holds = OF_ALL[name]
    assert not [number for number, survivor in enumerate(MUST_NOT[name]) if holds(survivor)]


EXPLAINS = {  # predicate -> a damage that it explains
    "listed the same": damaged([LIST, LIST, GET, CREATE], 1, "drop"),
    "asked before": damaged([GET, GET, CREATE], 1, "drop"),
    "looked in vain": damaged([WAL_LIST, DELETE], 0, "drop"),
    "response lost": damaged([LIST, LOST_LIST], 0, "edit", keys=()),
    "any content": damaged([DATA], 0, "edit", body=b"0.1"),
    "uploaded early": damaged([TOLD, DATA], 0, "swap, same client"),
    "asked again": damaged(BEGUN, 1, "repeat"),
    "lost again": damaged([LIST, GET, LOST], 2, "repeat"),
    "not used": damaged([LIST, LIST, GET], 0, "drop"),
    "another asked": damaged([LIST, LIST, GET], 0, "edit", client="Writer#1"),
    "told again": damaged(BEGUN, 4, "duplicate"),
    "claims little": damaged(BEGUN, 4, "edit", op="unknown"),
    "means the same": damaged([CREATE], 0, "edit", body=b"0.1 0.0"),
    "collected less": damaged([DELETE], 0, "drop"),
    "listed before": damaged([NEW, NEW, DELETE], 1, "drop"),
}


@pytest.mark.parametrize("name", EXPLAINS)
def test_predicate_explains(name):
    assert OF_ALL[name][1](EXPLAINS[name])


# --- those of one protocol

NAMED = CREATE._replace(op="put", key="db/baseline-instances/00000000000000000001.a", body=b"")
PUT = NAMED._replace(key="db/baseline/00000000000000000001.a.00000000000000000000", body=b"\0\0\0\x01k0.0")
GOT = EMPTY._replace(t_ms=1, client="Reader#0", kind="told", op="got", key="k")
UNKNOWN = TOLD._replace(op="unknown")
NOT_OPEN = TOLD._replace(client="Compactor#0", op="not open", body=b"")
MISSING = CHECK._replace(key=FILE)
COLLECTORS = LIST._replace(client="Collector#0")
FLUSHED = CREATE._replace(op="update", key="db/wal.manifest", body=b'{"flushed":[{"body":"a","id":"1"},{"body":"b","id":"2"}]}')
BEGINS = TOLD._replace(op="initialising", body=b"")


def knowing(pc: str, survivor: Survivor) -> Survivor:
    """Return the survivor of a client whose state in the model is this."""
    return survivor._replace(locals={survivor.before.client: SimpleNamespace(pc=pc)})


ENTRIES = b'''{"checkpoints":[{"expiry_ms":1,"id":"%s","manifest_id":1},
{"expiry_ms":9,"id":"%s","manifest_id":1}],
"compacted":[],"compactor_epoch":0,"l0":[],"last_wal":0,"writer_epoch":0}''' % (
    checkpoint_name(0, 0).encode(), checkpoint_name(0, 1).encode())
SHOWS = GET._replace(key="db/manifest/00000000000000000001.manifest", body=ENTRIES)
ENDED, GONE = (TOLD._replace(t_ms=5, op=op, body=b"1.1", key="") for op in ("ended", "missing"))

def event(client: str, kind: str, op: str, key: str = "", request: int = 0, /, **fields: Any) -> Event:
    return EMPTY._replace(client=client, kind=kind, op=op, key=key, request=request, **fields)


ULID = "01JY6JV1500000000000000003"
OBJECT = f"segments/1/anonymous/{ULID}/block.bin"
WRITES = event("Writer#0", "applied", "create", OBJECT, 1, status=200)
AGAIN = event("Writer#1", "applied", "create", OBJECT, 2, status=412)
ADDS = event("Writer#0", "applied", "put", "index", 3, status=200, version="[1]", body=ULID.encode())
FAILED = event("Worker#0", "timeout", "put", "index", 4)
DIED = FAILED._replace(kind="crash")
LISTED = event("Worker#0", "applied", "list", "segments/", 5, status=200, keys=(OBJECT,))
LEADS = event("Cleaner#0", "applied", "put", "index/lead", 6, status=200)
READS = event("Cleaner#0", "applied", "put", "index/read", 7, status=200)
READ_LOST, LEAD_LOST = (e._replace(kind="timeout", status=0) for e in (READS, LEADS))
NOT_TAKEN = event("Cleaner#0", "applied", "put", "index", 8, status=200, version="no leader of a, 3")
TAKEN = NOT_TAKEN._replace(version="[2]")
CLEANED = event("Cleaner#0", "told", "cleaned", keys=("clean", "int", "returned", "units=0"))
NOT_CLEANED = event("Cleaner#0", "told", "not cleaned", keys=("clean", "TimedOut", "indefinite"))
OTHERS = READS._replace(client="Cleaner#1", request=9)
OF_RETENTION = {
    "another writer": ([damaged([WRITES], 0, "edit", client="Writer#1")], [damaged(
        [READS], 0, "edit", client="Writer#1"), damaged([WRITES], 0, "edit", client="Cleaner#0"), damaged(
            [WRITES], 0, "drop")]),
    "in vain": ([damaged([AGAIN], 0, "drop"), damaged([FAILED], 0, "repeat"), damaged([LISTED], 0, "drop")], [damaged(
        [WRITES], 0, "drop"), damaged([ADDS], 0, "drop"), damaged([READ_LOST], 0, "drop"), damaged(
            [FAILED._replace(pending=True)], 0, "drop"), damaged([FAILED], 0, "edit", key="index/lead")]),
    "not needed": ([damaged([WRITES], 0, "drop"), damaged([WRITES, WRITES, ADDS], 1, "drop")], [damaged(
        [WRITES, LISTED], 0, "drop"), damaged([WRITES, ADDS], 0, "drop"), damaged([AGAIN], 0, "drop"), damaged(
            [WRITES], 0, "edit", client="Writer#1"), damaged([READS], 0, "drop")]),
    "last entry": ([damaged([ADDS, READS], 0, "drop")], [damaged([ADDS, TAKEN], 0, "drop"), damaged(
        [TAKEN], 0, "drop"), damaged([ADDS], 0, "edit", body=b""), damaged([WRITES], 0, "drop")]),
    "another leads": ([damaged([LEADS], 0, "edit", client="Cleaner#1")], [damaged(
        [READS], 0, "edit", client="Cleaner#1"), damaged([LEADS], 0, "drop")]),
    "another reads": ([damaged([READS, READ_LOST], 0, "edit", client="Cleaner#1"), damaged(
        [READS, LEADS], 0, "edit", client="Cleaner#1"), damaged([READS, READ_LOST], 0, "drop")], [damaged(
            [READS, CLEANED], 0, "drop"), damaged([READS, CLEANED], 0, "edit", client="Cleaner#1"), damaged(
            [READS, TAKEN], 0, "edit", client="Cleaner#1"), damaged([READS], 0, "drop")]),
    "told of the next": ([damaged([CLEANED, READS], 0, "swap, same client")], [damaged(
        [CLEANED, TAKEN], 0, "swap, same client"), damaged([NOT_CLEANED, READS], 0, "swap, same client"), damaged(
            [CLEANED, READ_LOST], 0, "swap, same client"), damaged([CLEANED, OTHERS], 0, "swap, another"), damaged(
                [CLEANED], 0, "drop")]),
    "not taken": ([damaged([ADDS, NOT_TAKEN], 0, "swap, another"), damaged(
        [NOT_TAKEN._replace(awaited=False)], 0, "drop")], [damaged([ADDS, TAKEN], 0, "swap, another"), damaged(
            [NOT_TAKEN], 0, "drop"), damaged(
            [NOT_TAKEN, TAKEN], 0, "swap, same client"), damaged([TAKEN._replace(awaited=False)], 0, "drop")]),
    "heard of its term": ([damaged([LEAD_LOST, READS, LEADS, TAKEN], 0, "drop"), damaged(
        [LEAD_LOST], 0, "edit", awaited=False)], [damaged([LEAD_LOST, READS, TAKEN], 0, "drop"), damaged(
            [READ_LOST], 0, "drop"), damaged(
            [LEAD_LOST], 0, "edit", pending=True)]),
    "cancelled later": ([damaged([READ_LOST, NOT_CLEANED], 0, "edit", awaited=False)], [damaged(
        [READ_LOST, CLEANED], 0, "edit", awaited=False), damaged([READ_LOST, NOT_CLEANED], 0, "drop"), damaged(
            [LEAD_LOST, NOT_CLEANED], 0, "edit", awaited=False)]),
    "another is told": ([damaged([OTHERS, CLEANED], 1, "edit", client="Cleaner#1")], [damaged(
        [OTHERS, NOT_CLEANED], 1, "edit", client="Cleaner#1"), damaged([CLEANED], 0, "edit", client="Cleaner#1"), damaged(
            [OTHERS, CLEANED], 1, "drop"), damaged([OTHERS, TAKEN], 1, "edit", client="Cleaner#1")]),
    "ends": ([damaged([FAILED], 0, "edit", kind="crash"), damaged([READ_LOST, LEADS], 0, "edit", kind="crash"), damaged(
        [DIED], 0, "drop")], [damaged([READ_LOST, NOT_CLEANED], 0, "edit", kind="crash"), damaged([FAILED], 0, "drop"), damaged(
            [DIED._replace(pending=True)], 0, "drop"), damaged([FAILED], 0, "edit", kind="refused")]),
}
GETS = event("Reader#0", "applied", "get", OBJECT, 11, status=200)
ALL, OVER = (event("Reader#0", "told", op) for op in ("read", "over"))
FETCHES, DELETES = (event("Worker#0", "applied", op, OBJECT, 12, status=200) for op in ("get", "delete"))
OF_READERS = {
    "another does": ([damaged([WRITES], 0, "edit", client="Writer#1")], [damaged([GETS], 0, "edit", client="Worker#0"), damaged(
        [WRITES], 0, "edit", client="Reader#0"), damaged([WRITES], 0, "drop")]),
    "in vain": ([damaged([FETCHES], 0, "drop"), damaged([AGAIN], 0, "repeat"), damaged([FAILED], 0, "drop")], [damaged(
        [GETS], 0, "drop"), damaged([WRITES], 0, "drop"), damaged([ADDS], 0, "drop"), damaged([DELETES], 0, "drop"), damaged(
            [FAILED._replace(pending=True)], 0, "drop")]),
    "not needed": OF_RETENTION["not needed"], "last entry": OF_RETENTION["last entry"],
    "another asks": ([damaged([READS], 0, "edit", client="Reader#0")], [damaged([READS], 0, "drop"), damaged(
        [GETS], 0, "edit", client="Reader#1")]),
    "reads less": ([damaged([GETS, OVER], 0, "drop"), damaged([GETS, OVER], 0, "edit", client="Reader#1")], [damaged(
        [GETS, ALL], 0, "drop"), damaged([GETS, ALL], 0, "edit", client="Reader#1"), damaged([OVER], 0, "drop"), damaged(
            [GETS, OVER], 0, "edit", status=404)]),
    "deletes another": ([damaged([DELETES], 0, "edit", key="segments/1/anonymous/x")], [damaged(
        [DELETES, LISTED], 0, "edit", key="segments/1/anonymous/x"), damaged([DELETES], 0, "drop"), damaged(
            [FETCHES], 0, "edit", key="segments/1/anonymous/x")]),
    "ends": ([damaged([FAILED], 0, "edit", kind="crash")], [damaged([FAILED], 0, "edit", kind="refused"), damaged(
        [FAILED._replace(client="Reader#0")], 0, "edit", kind="crash"), damaged([DIED], 0, "drop")]),
}
LETTER = f"dlq/1/anonymous/{ULID}/meta.pb"
TASK, OTHER_TASK = "Sweeper#0/letters 0", "Sweeper#1/letters 0"
TAKES = event(TASK, "applied", "get", LETTER, 1, status=200)
NO_LETTER = TAKES._replace(status=404, request=2)
RE_ADDS = event(TASK, "applied", "put", "index", 3, status=200)
SWEEPS_AWAY = event(TASK, "applied", "delete", LETTER, 4, status=204)
ADD_LOST = RE_ADDS._replace(kind="timeout", status=0)
PUTS = event("Writer#0", "applied", "create", LETTER, 5, status=412)
PUT_LOST = PUTS._replace(kind="timeout", status=0)
COMPACTS = event("Compactor#0", "timeout", "put", "index", 6)
SWEPT = event("Sweeper#0", "told", "swept")
STORED, UNKNOWN_ADD = (event("Writer#0", "told", op, body=ULID.encode()) for op in ("stored", "unknown"))
OF_LETTERS = {
    "left": ([damaged([ADD_LOST], 0, "drop"), damaged([ADD_LOST], 0, "edit", client=OTHER_TASK)], [damaged(
        [RE_ADDS], 0, "drop"), damaged([PUT_LOST], 0, "drop"), damaged([ADD_LOST._replace(pending=True)], 0, "drop"), damaged(
            [ADD_LOST], 0, "edit", kind="crash")]),
    "left unread": ([damaged([TAKES, NO_LETTER], 0, "drop"), damaged([TAKES], 0, "drop")], [damaged(
        [TAKES, RE_ADDS], 0, "drop"), damaged([RE_ADDS], 0, "drop"), damaged([TAKES], 0, "edit", body=b"a")]),
    "deletes nothing": ([damaged([SWEEPS_AWAY, SWEEPS_AWAY._replace(awaited=False)], 1, "drop")], [damaged(
        [SWEEPS_AWAY, SWEEPS_AWAY], 1, "drop"), damaged([SWEEPS_AWAY._replace(awaited=False)], 0, "drop"), damaged(
            [SWEEPS_AWAY, RE_ADDS._replace(awaited=False)], 1, "drop")]),
    "task ends": ([damaged([ADD_LOST, TAKES], 0, "edit", kind="crash")], [damaged(
        [ADD_LOST, SWEEPS_AWAY], 0, "edit", kind="crash"), damaged([PUT_LOST], 0, "edit", kind="crash"), damaged(
            [ADD_LOST], 0, "edit", kind="refused")]),
    "asks in vain": ([damaged([NO_LETTER], 0, "edit", client="Writer#0")], [damaged(
        [TAKES], 0, "edit", client="Writer#0"), damaged([NO_LETTER], 0, "edit", status=200)]),
    "the writer adds": ([damaged([RE_ADDS], 0, "edit", client="Writer#0")], [damaged(
        [RE_ADDS._replace(client="Writer#0")], 0, "edit", client=TASK), damaged(
            [ADD_LOST], 0, "edit", client="Writer#0"), damaged([SWEEPS_AWAY], 0, "edit", client="Writer#0"), damaged(
                [RE_ADDS], 0, "drop")]),
    "cancelled later": ([damaged([PUT_LOST, UNKNOWN_ADD], 0, "edit", awaited=False), damaged([PUTS, PUT_LOST], 0, "drop")], [
        damaged([PUT_LOST, STORED], 0, "edit", awaited=False), damaged([PUTS, STORED], 0, "drop"), damaged(
            [PUTS._replace(status=200), PUT_LOST], 0, "drop"), damaged([PUT_LOST, UNKNOWN_ADD], 0, "drop")]),
    "another sweep": ([damaged([SWEPT], 0, "edit", client="Sweeper#1")], [damaged(
        [STORED], 0, "edit", client="Sweeper#1"), damaged([SWEPT], 0, "edit", client="Writer#0"), damaged([SWEPT], 0, "drop")]),
    "compactor ends": ([damaged([COMPACTS], 0, "edit", kind="crash"), damaged([COMPACTS._replace(kind="crash")], 0, "drop")], [
        damaged([COMPACTS], 0, "drop"), damaged([ADD_LOST], 0, "edit", kind="crash"), damaged(
            [COMPACTS._replace(kind="crash", pending=True)], 0, "drop")]),
}
OF_ONE = {  # (protocol, predicate) -> damages that it explains, and those that it must not explain
    (baseline, "announced again"): ([damaged([NAMED], 0, "repeat")], [damaged([PUT], 0, "repeat"), damaged(
        [NAMED], 0, "drop"), damaged([NAMED], 0, "edit", client="Writer#1")]),
    (baseline, "no value either"): ([damaged([GOT], 0, "edit", key="l"), damaged([GOT], 0, "edit", client="Reader#1")], [
        damaged([GOT._replace(body=b"0.0")], 0, "edit", key="l"), damaged([GOT], 0, "edit", body=b"0.0"), damaged(
            [GOT], 0, "drop")]),
    (checkpoints, "ended as well"): ([damaged([SHOWS, ENDED], 1, "edit", body=b"0.0")], [damaged(
        [SHOWS, ENDED], 1, "edit", body=b"0.1"), damaged([SHOWS, ENDED], 1, "edit", body=b"2.0"), damaged(
            [SHOWS, GONE], 1, "edit", body=b"0.0"), damaged([ENDED], 0, "edit", body=b"0.0")]),
    (checkpoints, "missing as well"): ([damaged([SHOWS, GONE], 1, "edit", body=b"2.0")], [damaged(
        [SHOWS, GONE], 1, "edit", body=b"0.0"), damaged([SHOWS, ENDED], 1, "edit", body=b"2.0"), damaged(
            [GONE], 0, "edit", body=b"2.0"), damaged([SHOWS, GONE], 1, "edit", body=b"")]),
    (log_gc, "refused as well"): ([damaged([UNKNOWN], 0, "edit", op="refused")], [damaged(
        [UNKNOWN, TOLD], 0, "edit", op="refused"), damaged([UNKNOWN], 0, "edit", op="failed"), damaged(
        [TOLD], 0, "edit", op="refused")]),
    (manifest_compactions, "fenced and not open"): ([knowing("Fenced", damaged([NOT_OPEN], 0, "edit", op="fenced"))], [knowing(
        "Idle", damaged([NOT_OPEN], 0, "edit", op="fenced")), knowing("Fenced", damaged(
            [NOT_OPEN._replace(op="opened")], 0, "edit", op="fenced"))]),
    (manifest_epochs, "of an initialisation"): ([damaged([BEGINS, LIST], 1, "drop"), damaged(
        [BEGINS, LIST], 1, "edit", keys=())], [damaged([BEGINS, LIST, TOLD, LIST, GET], 3, "drop"), damaged(
            [BEGINS, CREATE], 1, "drop"), damaged([BEGINS, SEEN], 1, "drop"), damaged([BEGINS, LIST], 1, "edit", key="db/n/")]),
    (store_primitives, "another is missing"): ([damaged([MISSING], 0, "edit", key="db/m/other")], [damaged(
        [CREATE, MISSING], 1, "edit", key=NEXT), damaged([GET], 0, "edit", key=NEXT), damaged(
            [MISSING], 0, "edit", status=200)]),
    (wal_fencing, "need not list"): ([damaged([COLLECTORS], 0, "drop")], [damaged([LIST], 0, "drop"), damaged(
        [COLLECTORS], 0, "edit", keys=()), damaged([DELETE], 0, "drop")]),
    (wal_fencing, "same records"): ([damaged([FLUSHED], 0, "edit", body=b'{"flushed":[{"body":"b"},{"body":"a"}]}')], [damaged(
        [FLUSHED], 0, "edit", body=b'{"flushed":[{"body":"a"}]}'), damaged([FLUSHED, GET._replace(key=FLUSHED.key)], 0, "edit",
            body=b'{"flushed":[{"body":"b"},{"body":"a"}]}')]),
}
OF_ONE |= {(index_retention, name): of for name, of in OF_RETENTION.items()}
OF_ONE |= {(index_reads, name): of for name, of in OF_READERS.items()}
OF_ONE |= {(dlq_recovery, name): of for name, of in OF_LETTERS.items()}
MODULES = (baseline, checkpoints, dlq_recovery, index_reads, index_retention, log_gc, manifest_compactions,
           manifest_epochs, store_primitives, wal_fencing)


def test_every_predicate_of_one_protocol_is_tested():
    assert {(of, name) for of in MODULES for name in of.KNOWLEDGE.equivalences if name not in OF_ALL} == set(OF_ONE)


@pytest.mark.parametrize("of, name", OF_ONE, ids=lambda of: of if isinstance(of, str) else of.__name__.rpartition(".")[2])
def test_a_predicate_of_one_protocol_explains_only_what_it_must(of, name):
    holds, (rightly, wrongly) = of.KNOWLEDGE.equivalences[name][1], OF_ONE[of, name]
    assert [holds(survivor) for survivor in rightly + wrongly] == [True] * len(rightly) + [False] * len(wrongly)


# --- those of the boundary protocol

ONE, TWO = (b'{"checkpoints":[],"updates":[%s]}' % names for names in (b'"0.0"', b'"0.0","0.1"'))
MADE = CREATE._replace(body=TWO)
GIVEN_UP = LOST._replace(op="get", key=FILE, body=b"", pending=False)
ADVANCED = DELETE._replace(request=20, op="update", key=BOUNDARY, status=200, condition="1", version="3", body=b"1")
MET = ADVANCED._replace(request=14, client="Collector#1", op="get", condition="", version="1", body=b"0")


def of_boundary(good: list[Event], at: int, kind: str, /, pc: str = "Known", listed: tuple[int, ...] = (1, 2), b: int = 1,
                **edit: Any) -> Survivor:
    """Return the survivor of a damage. Each client is in this state, and a collector has listed these files."""
    local = SimpleNamespace(pc=pc, listed=listed, b=b)
    clients = {e.client for e in good} | {edit.get("client", "")} - {""}
    return damaged(good, at, kind, **edit)._replace(where=Namespace("db", "m"), locals=dict.fromkeys(clients, local))


OF_BOUNDARY = {  # predicate -> damages that it must not explain
    "gave up or died": [of_boundary([LIST, GIVEN_UP, CREATE, TOLD], 1, "edit", kind="crash"), of_boundary(
        [GIVEN_UP], 0, "edit", kind="refused")],
    "did less": [of_boundary([MADE, SHOWN], 0, "drop"), of_boundary(BEGUN, 1, "drop"), of_boundary(
        [DELETE, SHOWN._replace(key=FILE)], 0, "drop")],
    "did more": [of_boundary([LOST], 0, "repeat"), *(of_boundary(BEGUN, at, "repeat") for at in (0, 2, 4))],
    "another did": [of_boundary([MADE, SHOWN], 0, "edit", client="Writer#1"), of_boundary(BEGUN, 4, "edit", client="Writer#1"),
                    of_boundary([DELETE], 0, "edit", client="Collector#1", listed=()), of_boundary(
                        [DELETE], 0, "edit", client="Collector#1", b=0)],
    "another advanced": [of_boundary([ADVANCED], 0, "edit", client="Collector#1"), of_boundary(
        [MET, ADVANCED, DELETE._replace(request=21)], 1, "edit", client="Collector#1"), of_boundary(
            [MET, ADVANCED], 1, "edit", client="Collector#1", listed=(1,))],
    "told again": [of_boundary(BEGUN, 4, "duplicate"), of_boundary([UNKNOWN], 0, "edit", client="Writer#1")],
    "true as well": [of_boundary([MADE, UNKNOWN], 1, "edit", op="failed"), of_boundary(
        [TOLD, UNKNOWN], 1, "edit", op="refused"), of_boundary([UNKNOWN], 0, "edit", op="committed")],
    "told a moment off": [of_boundary([MADE, TOLD], 0, "swap, same client"), of_boundary(
        [TOLD, SHOWN._replace(client="Writer#0")], 0, "edit", op="failed")],
    "nobody has read it": [of_boundary([MADE], 0, "edit", body=ONE), of_boundary(
        [MADE, SHOWN], 0, "edit", body=TWO.replace(b'"0.0","0.1"', b'"0.1","0.0"'))],
    "never read since": [of_boundary([ADVANCED, CHECK._replace(status=200, body=b"1")], 0, "edit", body=b"0"), of_boundary(
        [MADE], 0, "edit", body=ONE)],
    "another is old": [of_boundary([DELETE], 0, "edit", key=NEXT), of_boundary(
        [DELETE._replace(key=NEXT), SHOWN._replace(key=FILE)], 0, "edit", key=FILE)],
    "nothing to overwrite": [of_boundary([MADE], 0, "edit", op="put")],
}


def test_every_predicate_of_the_boundary_protocol_is_tested():
    own = {name for name, of in sequenced_metadata_boundary.EQUIVALENCES.items() if of is not OF_ALL.get(name)}
    assert own == set(OF_BOUNDARY)


@pytest.mark.parametrize("name", OF_BOUNDARY)
def test_a_predicate_of_the_boundary_protocol_does_not_explain_what_it_must_not(name):
    _, holds = sequenced_metadata_boundary.EQUIVALENCES[name]
    assert not [number for number, survivor in enumerate(OF_BOUNDARY[name]) if holds(survivor)]
