"""Evidence on traces of a few events: how a listing goes on, ends and fails."""

import pytest

from highwater.impl.layout import Namespace
from highwater.traces.event import Event
from highwater.traces.evidence import Evidence

FILES = Namespace("db", "manifest")
FIRST, SECOND = FILES.key(1), FILES.key(2)
PAGE = Event(0, 1, "Reader#0", "applied", "list", FILES.prefix, "", 200, "", b"", (FIRST,), truncated=True)
NEXT = PAGE._replace(request=2, condition=FIRST, keys=(SECOND,), truncated=False)
UNHEARD = NEXT._replace(kind="timeout", status=0, keys=())
READ = Event(0, 3, "Reader#0", "applied", "get", SECOND, "", 200, "v", b"")


def refused(*events: Event) -> str:
    """Return why the last of the events has no reason; the others have one."""
    evidence = Evidence((FILES,))
    *before, last = [evidence.observe(e) for e in events]
    assert not any(before), before
    return last


def test_a_page_goes_on_from_the_last_key():
    assert refused(PAGE, NEXT, READ) == ""
    assert refused(PAGE, NEXT._replace(condition=SECOND)) == (
        f"Reader#0 has not listed {FILES.prefix} to its end: the next page begins after {FIRST}")
    assert "to its end" in refused(PAGE, READ)


@pytest.mark.parametrize("lost", [[UNHEARD], [NEXT, UNHEARD]], ids=["not applied", "applied, and the response is lost"])
def test_a_page_that_the_client_does_not_get_ends_the_listing(lost):
    """So it was falsely refused in seed 16637 of db_reader: the client lists anew, or does something else."""
    assert refused(PAGE, *lost, PAGE._replace(request=3)) == ""
    assert "which it has not met" in refused(PAGE, *lost, NEXT._replace(request=3))


def test_a_process_that_crashes_again_lists_anew():
    """So it was falsely refused in seed 1236 of checkpoints, 2125 of database_gc and 31939 of db_reader."""
    told = Event(0, 0, "Reader#0", "told", "scanned", "", "", 0, "", b"")
    crash = PAGE._replace(t_ms=1, kind="crash", status=0, keys=())
    task = PAGE._replace(t_ms=1, client="Reader#0/poller")
    assert refused(told, PAGE, crash, crash._replace(t_ms=2, request=3)) == ""
    assert refused(told, PAGE, task._replace(t_ms=0), crash, task._replace(kind="crash", status=0, keys=())) == ""
    assert "to its end" in refused(told, PAGE, crash._replace(request=2, op="get", key=FIRST))
