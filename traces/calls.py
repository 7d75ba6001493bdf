"""Safety: what a call of a protocol's public API says to its caller is one of the answers in its table, and each claim in it is
true.

The table of a protocol is `CALLS` in STEM_calls.py of traces/protocols, beside its mapping. It names for each call the classes
of its results and errors. The docs are generated from it. A `told` event carries an answer in `keys`: the call, the class of
what it returned or raised, the kind of it, and each claim as `name=value`. A trace without them is judged by the kind of
response alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from itertools import takewhile
from types import MappingProxyType
from typing import Any, NamedTuple

from highwater.impl.layout import DIGITS, U64, ULID
from highwater.traces.event import EMPTY, Event
from highwater.traces.form import MUTATIONS
from highwater.traces.refine import Failure

RETURNED, DEFINITE, INDEFINITE = "returned", "definite", "indefinite"
DONE, NEVER, PERHAPS, NONE = "is applied", "is not applied, and never will be", "may be applied, now or later", ""
PARTLY = "may be done in part; the next call continues it, or begins it again"
CALL = ("call", "class", "kind")  # the first texts in `keys` of an event; claims follow
UNFINISHED = "unfinished"  # the response to an error of an update that an earlier call has left in doubt
ALONE = ("not read", "deleted", "not deleted", UNFINISHED)  # responses of which nothing but the answer itself is judged


class Answer(NamedTuple):
    """One answer that a call may give."""

    kind: str  # RETURNED, DEFINITE or INDEFINITE
    told: str  # the `op` of its event
    update: str  # what has become of the call's update: DONE, NEVER, PERHAPS, PARTLY; NONE if the call makes none
    means: str  # to the caller: what is known now, and what to do
    claims: tuple[str, ...] = ()  # the values in it that are judged
    fault: bool = False  # it says that an object is damaged or gone, which is untrue while nobody has touched the store


APPLIED = (200, 204)  # statuses of a mutation that took effect
Calls = Mapping[str, Mapping[str, Answer]]  # call -> name of the class of its result or error -> the answer
Claim = Callable[[Any, Event, str], str]  # (trace, event, value) -> why the value is wrong; "" if it is right


def returns(told: str, means: str, *claims: str, update: str = DONE) -> Answer:
    return Answer(RETURNED, told, update, means, claims)


def definite(told: str, means: str, update: str = NEVER, *claims: str) -> Answer:
    return Answer(DEFINITE, told, update, means, claims)


def indefinite(told: str, means: str, update: str = PERHAPS) -> Answer:
    return Answer(INDEFINITE, told, update, means)


def fault(told: str, means: str, update: str = PERHAPS, kind: str = INDEFINITE) -> Answer:
    """Return the error that says that somebody else has damaged or deleted an object."""
    return Answer(kind, told, update, means, (), True)


LATE = "the caller's time was over, and the call is cancelled"


def with_timeouts(calls: Calls) -> Calls:
    """Return the table with the answer to a caller that cancelled its call after a time of its own (`Clock.timeout`)."""
    found = {}
    for call, answers in calls.items():
        like = answers.get("OutcomeUnknown") or answers.get("Unavailable")
        late = indefinite(like.told, LATE, PERHAPS if like.update else NONE) if like else None
        found[call] = {**answers, "TimedOut": late} if late else answers
    return found


FILES = ("ListingNeverEnds", "InvalidName", "InvalidId")  # errors of a folder of numbered files


def unreadable(told: str, update: str, *errors: str) -> dict[str, Answer]:
    """Return answers of errors that say that a listing or a file is none of the protocol's."""
    means = "a listing or a file is not of this protocol, or its ids are used up: call again after somebody has mended it"
    return {name: fault(told, means, update, DEFINITE) for name in errors}


def outcomes(calls: Calls) -> dict[str, str]:
    """Return response -> what a caller may conclude of its update: "committed", "failed" or "unknown"."""
    means = {DONE: "committed", NEVER: "failed", PERHAPS: "unknown"}
    return {answer.told: means[answer.update] for answers in calls.values() for answer in answers.values()
            if answer.update in means}


@lru_cache(100_000)
def content(body: bytes) -> str:
    """Name a content, short enough for every event."""
    return blake2b(body, digest_size=8).hexdigest()


# --- the judge

def judge_answer(trace: Any, e: Event) -> None:
    """Check that an answer is in the table of its call, with this kind, response and claims."""
    form = type(trace), e.op, e.keys, not e.key, not e.body
    if form not in trace.refiner.true:
        judge_form(trace, e)
        trace.refiner.true.add(form)
    result = e.keys[1]
    if e.op in ALONE and result != "TimedOut" and not any(of_call(trace, e.client)):
        raise untrue(trace, e, result, "this call has sent no request")
    if result == "Unavailable":
        if next(of_call(trace, e.client), EMPTY).kind not in ("timeout", "refused"):
            raise untrue(trace, e, result, "its last request was not left without an answer")
    elif result == "OutcomeUnknown" and (answers := trace.calls[e.keys[0]])[result].update == PERHAPS:
        finds_out = trace.repeats or "Recognised" in answers  # it may be in doubt because of what it read
        if not finds_out and not is_in_doubt(trace, e.client):
            raise untrue(trace, e, result, "none of its mutations is in doubt")


def judge_form(trace: Any, e: Event) -> None:
    """Check what the answer alone shows."""
    call, result, _, *claims = e.keys
    if why := outside(trace.calls, e):
        raise untrue(trace, e, result, why)
    if e.op in ALONE and (e.key or (e.body and e.op != UNFINISHED)):
        raise untrue(trace, e, result, "it names no key and no update")
    answer = trace.calls[call][result]
    if answer.fault:
        raise untrue(trace, e, result, "nobody has damaged an object")
    if len(claims) != len(answer.claims) or not all(map(str.startswith, claims, answer.claims)):
        raise untrue(trace, e, result, f"by the table of calls its claims are {', '.join(answer.claims) or 'none'}")


def is_in_doubt(trace: Any, client: str) -> bool:
    """Return whether a mutation of this call, or of the calls before it that returned nothing, may have been applied."""
    for old in own(trace, client):
        if old.kind == "crash" or (old.kind == "told" and RETURNED in old.keys[2:3]):
            return False
        lost = old.kind == "timeout" or (old.kind == "refused" and old.status == 503)
        if old.op in MUTATIONS and (lost or old.status in APPLIED):
            return True
    return False


def outside(calls: Calls, e: Event) -> str:
    """Return why an answer is none of the table's; "" if it is one."""
    call, result, kind, *_ = e.keys
    answer = calls.get(call, {}).get(result)
    if answer is None:
        return f"the table of calls has no {result} of {call}"
    if answer.kind != kind or e.op not in (answer.told, "" if kind == RETURNED else UNFINISHED):
        return f"by the table of calls it is {answer.kind}, and the response {answer.told!r}"
    return ""


def judge_claims(trace: Any, e: Event) -> None:
    """Check that the claims of an answer are true."""
    answer = trace.calls[e.keys[0]][e.keys[1]]
    for claim in e.keys[len(CALL):] if answer.claims else ():
        name, _, value = claim.partition("=")
        if why := trace.claims[name](trace, e, value):
            raise untrue(trace, e, name, why)
    if answer.update == NEVER:
        judge_denial(trace, e)


def judge_denial(trace: Any, e: Event) -> None:
    """Check that nothing of a call is or will be applied, as its answer says."""
    events = list(of_call(trace, e.client))
    sent = {old.request for old in events if old.awaited}  # an earlier call's request may arrive in this one
    for old in events:
        if old.op in MUTATIONS and old.status in APPLIED and old.request in sent and not old.key.startswith(trace.aside):
            raise untrue(trace, e, e.keys[1], f"its {old.op} of {old.key} was applied")
        if old.pending and (old.client, old.request) in trace.pending and not old.key.startswith(trace.aside):
            trace.denied[old.client, old.request] = e


def judge_late(trace: Any, e: Event) -> None:
    """Check that a mutation that takes effect now was not denied by an answer before."""
    told = trace.denied.get((e.client, e.request))
    if told and e.status in APPLIED:
        raise untrue(trace, told, told.keys[1], f"its {e.op} of {e.key} was applied later")


def is_denied(trace: Any, e: Event) -> bool:
    """Return whether an answer says that nothing of its call is or will be applied."""
    return len(e.keys) >= len(CALL) and trace.calls[e.keys[0]][e.keys[1]].update == NEVER


def untrue(trace: Any, e: Event, what: str, why: str) -> Failure:
    call, result, kind, *claims = e.keys
    return Failure("safety", f"call:{call} {what}", f"{e.client}: {call} {kind} {' '.join([result, *claims])} for "
                   f"{e.body.decode()!r} {e.key}, but {why}", trace.refiner.unpacked())


def by_model(so: Callable[[Any, Any, Event, str], object]) -> Claim:
    """Make the judge of a claim that must agree with the model: `so(shared, local, event, value)`."""
    def judged(trace: Any, e: Event, value: str) -> str:
        if trace.refiner.keep(e.client, lambda s, l: so(s, l, e, value)):
            return ""
        return f"in the model {e.client} is {trace.refiner.local(e.client)}"

    return judged


def own(trace: Any, client: str) -> Iterator[Event]:
    """Return the client's own events before the current one, latest first."""
    if not getattr(trace.events, "columns", False):
        return reversed(trace.by_client[client])
    return (old for old in (trace.events[at] for at in range(len(trace.events) - 2, -1, -1)) if old.client == client)


def within(old: Event) -> bool:
    return old.kind not in ("told", "crash")


def of_call(trace: Any, client: str) -> Iterator[Event]:
    """Yield the client's own events of the call that ends now, latest first."""
    return takewhile(within, own(trace, client))


def in_call(trace: Any, e: Event) -> Iterator[Event]:
    """Yield the requests of the call that ends with this event, latest first, if their responses arrived."""
    lost = set[int]()
    for old in own(trace, e.client):
        if old.kind == "applied":
            if old.awaited and old.request not in lost:
                yield old
        elif old.kind == "timeout":
            lost.add(old.request)
        elif not within(old):
            return


def right_content(trace: Any, e: Event, value: str) -> str:
    """The returned value is what this call put or got under the key."""
    for old in in_call(trace, e):
        if old.key == e.key and old.status == 200 and content(old.body) == value:
            return ""
    return f"this call has neither put nor got that content under {e.key!r}"


def right_deletes(trace: Any, e: Event, value: str) -> str:
    """The keys that a collector says it deleted are those of its deletes that were answered."""
    deleted = {old.key for old in in_call(trace, e) if old.op == "delete"}
    return "" if sorted(deleted) == value.split() else f"this call has deleted {sorted(deleted)}"


def right_attempts(trace: Any, e: Event, value: str) -> str:
    """A call gives up after as many conflicts as its limit says, and not before. `value`: the limit; 0: none.

    A call that returns may have met a last conflict with what it put itself, without a response."""
    if trace.repeats:
        return ""
    limit, gave_up = int(value), e.keys[2] != RETURNED
    if not limit and not gave_up:
        return ""
    conflicts = sum(old.op in MUTATIONS and old.op != "delete" and old.status not in APPLIED and (gave_up or old.key != e.key)
                    for old in in_call(trace, e))
    right = conflicts == limit > 0 if gave_up else conflicts < limit or not limit
    return "" if right else f"this call met {conflicts} conflicts"


def right_version(trace: Any, e: Event, value: str) -> str:
    """The returned version is one that this call put or got under the key."""
    for old in in_call(trace, e):
        if old.key == e.key and old.version == value:
            return ""
    return f"this call has met no version {value} of {e.key!r}"


def right_value(trace: Any, e: Event, value: str) -> str:
    """The value is what this call put, or got if another call made the change. `value`: the key, and the content."""
    op = "create" if e.keys[1] == "Committed" else "get"
    found = any([old.key, content(old.body)] == value.split() for old in in_call(trace, e) if (old.op, old.status) == (op, 200))
    return "" if found else f"no {op} of this call has that content"


JUDGES: Mapping[str, Claim] = MappingProxyType(  # of every protocol
    {"attempts": right_attempts, "content": right_content, "deleted": right_deletes, "version": right_version})
NO_CALLS: Calls = MappingProxyType({})


# --- when somebody has damaged an object

OF_REQUESTS = ("attempts", "content", "deleted", "rounds", "version", "writes")  # claims that are judged by the call's
# requests alone
LISTED_WRONGLY = {"InvalidName": "a name that is no id", "ListingNeverEnds": "a page after which a listing cannot go on"}


def judge_answers(events: Iterable[Event], trace: Any) -> None:
    """Check that answers are some that their calls may give, and say nothing untrue of their calls' own requests.

    `trace`: an unused judge of the protocol, for its tables. Raises Failure."""
    for e in events:
        trace.events.append(e)
        if e.kind == "told" and len(e.keys) >= len(CALL):
            judge_by_requests(trace, e)
        trace.by_client[e.client].append(e)


def judge_by_requests(trace: Any, e: Event) -> None:
    if why := outside(trace.calls, e):
        raise untrue(trace, e, e.keys[1], why)
    for name, _, value in (claim.partition("=") for claim in e.keys[len(CALL):]):
        if name in OF_REQUESTS and (why := trace.claims[name](trace, e, value)):
            raise untrue(trace, e, name, why)
    if why := misjudged(trace, e):
        raise untrue(trace, e, e.keys[1], why)


def misjudged(trace: Any, e: Event) -> str:
    """Return why an answer does not fit the pages that its call was given; "" if it does. A call may delete what has a wrong
    name, with all that is there."""
    deleted = {old.key for old in in_call(trace, e) if old.op == "delete"}
    pages = [old._replace(keys=tuple(key for key in old.keys if key not in deleted)) if deleted and not old.truncated else old
             for old in in_call(trace, e) if old.op == "list"]
    wrong = {*map(listed_wrongly, pages)} & {*trace.calls[e.keys[0]]}
    if e.keys[2] == RETURNED and wrong:
        return f"it was listed {LISTED_WRONGLY[min(wrong)]}"
    if e.keys[1] not in {*LISTED_WRONGLY} - wrong or e.keys[1] in listed_to_tasks(trace, e.client):
        return ""
    return f"it was not listed {LISTED_WRONGLY[e.keys[1]]}"


def listed_to_tasks(trace: Any, client: str) -> set[str]:
    """Return the errors that fit the pages which tasks of a client were given since it has started. A call may wait for a task.
    """
    found = set[str]()
    for at in range(len(trace.events) - 2, -1, -1):
        old = trace.events[at]
        if old.client == client and old.kind == "crash":
            break
        if old.client.startswith(f"{client}/") and old.kind == "applied" and old.op == "list":
            found.add(listed_wrongly(old))
    return found


def listed_wrongly(page: Event) -> str:
    """Return the error that fits a page; "" if nothing is wrong with it."""
    if page.truncated and (not page.keys or page.keys[-1] <= page.condition):
        return "ListingNeverEnds"
    return "" if all(map(is_file, page.keys)) else "InvalidName"


def is_file(key: str) -> bool:
    """Return whether a key ends with an id of 20 digits, or is an SST's and ends with a ULID; and a suffix."""
    folder, _, name = key.rpartition("/")
    digits = name.partition(".")[0]
    if folder.endswith("compacted"):
        return ULID.fullmatch(digits) is not None
    return len(digits) == DIGITS and digits.isascii() and digits.isdigit() and int(digits) < U64
