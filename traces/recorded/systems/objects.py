"""Map requests for an object of its own to actions of one_object.

A content is what a version of the object was. No log shows what a client calls an update, so each of its PUTs is one; with the
names of updates, one that the content has already is not new.
"""

from highwater.model.abstract import one_object
from highwater.traces.recorded.access_log import UNSAID
from highwater.traces.recorded.judge import ME, send
from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3log import Request
from highwater.traces.recorded.s3store import ABSENT, SOME, Key, asked_for, same
from highwater.traces.recorded.systems.facts import NOBODY, Facts


def reads(facts: Facts, request: Request, key: Key) -> None:
    """Read: from now on the client knows this content."""
    if request.status in (200, 206):
        facts.store.put(facts.seen, (request.client, key), request.version)


def puts(facts: Facts, request: Request, key: Key, fresh: bool, repeated: str = "") -> Refusal | None:
    """Put, or Set where the request has no condition and something is there. A DELETE puts nothing in the object's place.
    `fresh`: nothing was there before the log. `repeated` is an update that the content has already."""
    client, there, seen = request.client, facts.store.version(key), facts.seen.get((request.client, key))
    if there is None and fresh:
        there = ABSENT
    creates = asked_for(request) is None and bool(request.conditions.keys() & {"if-none-match", UNSAID})
    known = creates or there == ABSENT or (seen is not None and same(seen, there or seen))  # a create says what it replaces
    if not known and there is None:
        facts.grant("a client has read the object that it replaces: the log does not show when")
        known = True
    content = () if there == ABSENT else ((NOBODY, 0),)
    base = (*content, (ME, 0)) if repeated else content
    w = one_object.Client(frozenset({base}) if known else frozenset())
    removes = request.op == "delete"
    conditional = creates or removes or not there or asked_for(request) is not None
    refusal = send(one_object, facts.object, w, lambda: (
        f"{client} {'deletes' if removes else 'puts'} {key[1]}, version {there or 'none'}"
        + (f"; it has read {f'version {seen}' if seen else 'none'}" if not known else "")
        + (f"; {repeated} is in it already" if repeated else "")),
        "Put" if conditional else "Set", (ME, 0), base, harm=not known)
    if refusal:
        return refusal
    facts.store.put(facts.seen, (client, key), ABSENT if removes else request.version or SOME)
    return facts.count("Delete" if removes else "Put")
