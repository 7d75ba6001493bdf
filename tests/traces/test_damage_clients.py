"""Each predicate that explains survivors of every protocol leaves alone a damage that it must not explain."""

from typing import Any

import pytest

from highwater.traces.damage.clients import OF_ALL
from highwater.traces.damage.damage import Damage
from highwater.traces.damage.protocols.baseline import KNOWLEDGE as BASELINE
from highwater.traces.damage.survivors import GENERAL, Clients, Survivor
from highwater.traces.event import EMPTY, Event
from highwater.traces.form import Keys

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


def damaged(good: list[Event], at: int, kind: str, /, **edit: Any) -> Survivor:
    """Return the survivor of one damage to event `at`. A repeat or a duplicate changes nothing else here."""
    e = good[at]._replace(**edit)
    events = {"drop": [*good[:at], *good[at + 1:]], "edit": [*good[:at], e, *good[at + 1:]],
              "swap, same client": [*good[:at], *good[at + 1:at + 2], e, *good[at + 2:]]}.get(kind, [*good[:at], e, *good[at:]])
    where = Keys("db/", listed=("db/m/",), single=(BOUNDARY,))
    to = at + kind.startswith("swap")
    return Survivor(good, Damage(kind, next(iter(edit), ""), at, to, events), where, {}, Clients(free=("Collector",)),
                    lambda e: sorted(e.body.split()))


MUST_NOT = {  # predicate -> damages that it must not explain
    "asked again": [damaged(BEGUN, 2, "repeat"), damaged(BEGUN, 1, "drop")],
    "deleted again": [damaged(BEGUN, 2, "repeat"), damaged([DELETE], 0, "drop")],
    "refused again": [damaged(BEGUN, 2, "repeat")],
    "lost again": [damaged(BEGUN, 2, "repeat")],
    "not used": [damaged(BEGUN, 0, "drop"), damaged(BEGUN, 1, "drop"), damaged(BEGUN, 3, "drop"), damaged(BEGUN, 4, "drop"),
                 damaged([*BEGUN[:3], SEEN], 2, "drop"), damaged([LIST, GET, LOST, SEEN], 2, "drop")],
    "another asked": [damaged(BEGUN, 1, "edit", client="Writer#1"), damaged(BEGUN, 2, "edit", client="Writer#1"),
                      damaged(BEGUN, 3, "edit", client="Writer#1")],
    "another collects": [damaged(BEGUN, 2, "edit", client="Collector#0"), damaged([DELETE], 0, "edit", client="Writer#0")],
    "asked for another": [damaged(BEGUN, 1, "edit", key=NEXT), damaged([DELETE, GET], 1, "edit", key=NEXT)],
    "listed before": [damaged([NEW, DELETE], 0, "drop"), damaged([OLD, NEW, DELETE], 1, "drop"), damaged(
        [NEW._replace(keys=(FILE,)), NEW, DELETE], 1, "drop"), damaged([NEW, NEW, DELETE], 2, "drop"), damaged(
        [NEW, NEW, DELETE, CREATE], 1, "edit", client="Writer#0")],
    "collected less": [damaged([DELETE, SEEN], 0, "drop"), damaged(BEGUN, 2, "drop")],
    "collected another": [damaged([CREATE, DELETE, SEEN], 1, "edit", key=NEXT), damaged(BEGUN, 2, "edit", key=FILE)],
    "never read since": [damaged(BEGUN, 2, "edit", body=b"0.2"), damaged(
        [DELETE._replace(op="create", key=BOUNDARY, status=200, body=b"1"), CHECK._replace(status=200, body=b"1")], 0, "edit",
        body=b"2")],
    "ended otherwise": [damaged([LIST, GET, LOST._replace(op="get", key=BOUNDARY, pending=False), CREATE, TOLD], 2, "edit",
                                kind="crash")],
    "heard or not": [damaged([LIST, GET, LOST._replace(op="get", key=BOUNDARY, pending=False), CREATE, TOLD], 2, "edit",
                             awaited=False), damaged([LOST], 0, "edit", awaited=False)],
    "told again": [damaged(BEGUN, 2, "duplicate"), damaged(BEGUN, 4, "edit", client="Writer#1")],
    "claims little": [damaged(BEGUN, 4, "edit", op="failed"), damaged(BEGUN, 4, "edit", op="refused")],
    "true as well": [damaged(BEGUN, 4, "edit", op="failed"), damaged([LIST, GET, LOST, TOLD], 3, "edit", op="failed")],
    "in another order": [damaged(BEGUN, 4, "edit", body=b"0.1 0.1"), damaged(BEGUN, 4, "edit", body=b"0.2")],
    "told later": [damaged(BEGUN, 3, "swap, same client"), damaged([TOLD, CREATE], 0, "swap, same client"),
                   damaged(BEGUN, 1, "swap, same client")],
    "nothing to overwrite": [damaged([CREATE._replace(status=412, version="")], 0, "edit", op="put")],
    "means the same": [damaged(BEGUN, 2, "edit", body=b"0.0 0.1 0.1"), damaged(
        [*BEGUN, GET._replace(key=NEXT, version="2", body=b"0.0 0.1")], 2, "edit", body=b"0.1 0.0")],
    "lists from the first": [damaged([CREATE, SEEN], 1, "edit", condition=NEXT)],
}


def test_every_predicate_about_clients_is_tested():
    assert set(MUST_NOT) == set(OF_ALL) - set(GENERAL)


@pytest.mark.parametrize("name", MUST_NOT)
def test_predicate_does_not_explain_what_it_must_not(name):
    _, holds = OF_ALL[name]
    assert not [number for number, survivor in enumerate(MUST_NOT[name]) if holds(survivor)]


EXPLAINS = {  # predicate -> a damage that it explains
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


# --- those of the baseline

NAMED = CREATE._replace(op="put", key="db/baseline-instances/00000000000000000001.a", body=b"")
PUT = NAMED._replace(key="db/baseline/00000000000000000001.a.00000000000000000000", body=b"\0\0\0\x01k0.0")
GOT = EMPTY._replace(t_ms=1, client="Reader#0", kind="told", op="got", key="k")
OF_BASELINE = {
    "announced again": ([damaged([NAMED], 0, "repeat")], [damaged([PUT], 0, "repeat"), damaged([NAMED], 0, "drop"), damaged(
        [NAMED], 0, "edit", client="Writer#1")]),
    "no value either": ([damaged([GOT], 0, "edit", key="l"), damaged([GOT], 0, "edit", client="Reader#1")], [damaged(
        [GOT._replace(body=b"0.0")], 0, "edit", key="l"), damaged([GOT], 0, "edit", body=b"0.0"), damaged([GOT], 0, "drop")]),
}


@pytest.mark.parametrize("name", OF_BASELINE)
def test_a_predicate_of_the_baseline_explains_only_what_it_must(name):
    holds, (rightly, wrongly) = BASELINE.equivalences[name][1], OF_BASELINE[name]
    assert [holds(survivor) for survivor in rightly + wrongly] == [True] * len(rightly) + [False] * len(wrongly)
