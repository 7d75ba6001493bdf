"""Map requests for an object of its own to actions of one_object.

A content is what a version of the object was. No log shows what a client calls an update, so each of its PUTs is one; with the
names of updates, one that the content has already is not new.
"""

from highwater.model.abstract import one_object
from highwater.traces.recorded.access_log import UNSAID
from highwater.traces.recorded.judge import ME, send
from highwater.traces.recorded.orders import Refusal
from highwater.traces.recorded.s3log import Request
from highwater.traces.recorded.s3store import ABSENT, Key, asked_for, same
from highwater.traces.recorded.systems.facts import NOBODY, Facts

OTHER = -1  # a content that is not the one that is there


def reads(facts: Facts, request: Request, key: Key) -> None:
    """Read: from now on the client knows this content."""
    if request.status in (200, 206):
        facts.store.put(facts.seen, (request.client, key), request.version)


def puts(facts: Facts, request: Request, key: Key, repeated: str = "") -> Refusal | None:
    """Put, or Set where the request has no condition. A DELETE puts nothing in the object's place. `repeated` is an update that
    the content has already."""
    client, there, seen = request.client, facts.store.version(key), facts.seen.get((request.client, key))
    asked = asked_for(request)
    conditional = asked is not None or bool(request.conditions.keys() & {"if-none-match", UNSAID})
    if there is None and seen is None and not (conditional and asked is None):
        facts.grant("a client has read the object that it replaces: the log does not show when")
        known = True
    elif there == ABSENT or (conditional and asked is None):
        known = True  # a create says what it replaces: nothing
    else:
        known = seen is not None and same(seen, there or seen)
    content = () if there == ABSENT else ((NOBODY, 0),)
    base = (*content, (ME, 0)) if repeated else content
    w = one_object.Client(frozenset({base}) if known else frozenset())
    removes = request.op == "delete"
    refusal = send(one_object, facts.object, w, lambda: (
        f"{client} {'deletes' if removes else 'puts'} {key[1]}, version {there or 'none'}"
        + (f"; it has read {f'version {seen}' if seen else 'none'}" if not known else "")
        + (f"; {repeated} is in it already" if repeated else "")),
        "Put" if conditional or removes or there == ABSENT else "Set", (ME, 0), base, harm=not known)
    if refusal:
        return refusal
    facts.store.put(facts.seen, (client, key), ABSENT if removes else request.version)
    return facts.count("Delete" if removes else "Put")
